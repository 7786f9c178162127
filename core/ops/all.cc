#include "core/ops/all.h"

#include "core/ops/control.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/ops/source.h"

namespace mstrain {

void register_all_ops() {
  for (const auto& family :
       {std::span<const OpDef>(&kInputOp, 1), elementwise_ops(), shape_ops(), source_ops(), reduce_ops(), matmul_ops(),
        control_ops()}) {
    register_ops(family);
  }
}

}  // namespace mstrain
