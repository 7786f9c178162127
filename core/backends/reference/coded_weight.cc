#include "core/ops/weight_code.h"

#include <vector>

#include "core/backends/reference/kernels.h"

namespace mstrain::reference {
namespace {

void run_decode(const Call& call) {
  const WeightCode code = *parse_weight_code(call.attrs.text("code"));
  const int64_t width = call.attrs.integer("width");
  const int64_t bytes = call.in[0].shape().back();
  std::vector<uint8_t> row(static_cast<size_t>(bytes));
  for (int64_t r = 0; r * bytes < call.in[0].count(); ++r) {
    for (int64_t i = 0; i < bytes; ++i) {
      row[static_cast<size_t>(i)] = static_cast<uint8_t>(call.in[0].integer(r * bytes + i));
    }
    for (int64_t i = 0; i < width; ++i) {
      call.out[0].set(r * width + i,
                      static_cast<double>(decoded_number(code, row.data(), width, i)));
    }
  }
}

}  // namespace

void register_coded_weight() { define<run_decode>("decode_rows"); }

}  // namespace mstrain::reference
