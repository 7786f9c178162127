#include "core/ops/all.h"

#include "core/ops/adamw.h"
#include "core/ops/adamw_stored.h"
#include "core/ops/attention.h"
#include "core/ops/coded_weight.h"
#include "core/ops/collective.h"
#include "core/ops/control.h"
#include "core/ops/conv.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/dot_general.h"
#include "core/ops/elementwise.h"
#include "core/ops/fft.h"
#include "core/ops/float8.h"
#include "core/ops/fused.h"
#include "core/ops/index.h"
#include "core/ops/linalg.h"
#include "core/ops/linear_cross_entropy.h"
#include "core/ops/matrix.h"
#include "core/ops/norm.h"
#include "core/ops/offload.h"
#include "core/ops/random.h"
#include "core/ops/reduce.h"
#include "core/ops/rotary.h"
#include "core/ops/rounding.h"
#include "core/ops/search.h"
#include "core/ops/shape.h"
#include "core/ops/softmax.h"
#include "core/ops/source.h"
#include "core/ops/stage.h"
#include "core/ops/table_rows.h"

namespace mstrain {

void register_all_ops() {
  for (const auto& family : {std::span<const OpDef>(&kInputOp, 1),
                             elementwise_ops(),
                             shape_ops(),
                             source_ops(),
                             reduce_ops(),
                             dot_general_ops(),
                             coded_weight_ops(),
                             float8_ops(),
                             collective_ops(),
                             control_ops(),
                             offload_ops(),
                             index_ops(),
                             sort_ops(),
                             search_ops(),
                             table_row_ops(),
                             matrix_ops(),
                             cumulative_ops(),
                             linalg_ops(),
                             decomposition_ops(),
                             fft_ops(),
                             random_ops(),
                             softmax_ops(),
                             norm_ops(),
                             cross_entropy_ops(),
                             linear_cross_entropy_ops(),
                             rotary_ops(),
                             attention_ops(),
                             adamw_ops(),
                             rounding_ops(),
                             adamw_stored_ops(),
                             conv_ops(),
                             pool_ops(),
                             stage_ops(),
                             fused_ops()}) {
    register_ops(family);
  }
}

}  // namespace mstrain
