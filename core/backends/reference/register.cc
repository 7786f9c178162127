#include "core/backends/reference/register.h"

#include "core/backends/reference/kernels.h"
#include "core/ops/collective_kernels.h"
#include "core/runtime/denormals.h"

namespace mstrain {
namespace reference {

Backend& table() {
  static Backend& it =
      add_backend({.name = "reference", .prepare_threads = [](int) { flush_denormals(); }});
  return it;
}

Kernel prepare_function(const KernelRequest& request, Function function) {
  const auto run = [op = &request.op, attrs = request.attrs, function,
                    inputs = std::vector<ViewType>(request.inputs.begin(), request.inputs.end()),
                    outputs =
                        std::vector<ViewType>(request.outputs.begin(), request.outputs.end())](
                       const KernelMemory& memory) {
    std::vector<Elements> in;
    std::vector<Elements> out;
    for (size_t i = 0; i < inputs.size(); ++i) {
      in.emplace_back(inputs[i], memory.inputs[i]);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      out.emplace_back(outputs[i], memory.outputs[i]);
    }
    function({*op, attrs, in, out});
  };
  return {run};
}

int64_t checked_id(const Call& call, const Elements& ids, int64_t position, int64_t n) {
  const int64_t id = ids.integer(position);
  check(id >= 0 && id < n, "{}: id {} at position {} is outside of [0, {})", call.op.name, id,
        position, n);
  return id;
}

}  // namespace reference

const Backend& add_reference_backend() {
  reference::register_elementwise();
  reference::register_movement();
  reference::register_reductions();
  reference::register_dot_general();
  reference::register_index();
  reference::register_sort();
  reference::register_convolution();
  reference::register_pooling();
  reference::register_random();
  reference::register_rounding();
  reference::register_coded_weight();
  reference::register_float8();
  reference::register_linalg();
  reference::register_decompositions();
  reference::register_fft();
  register_collectives(reference::table());
  return reference::table();
}

}  // namespace mstrain
