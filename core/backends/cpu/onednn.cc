#include "core/backends/cpu/onednn.h"

#include <oneapi/dnnl/dnnl_debug.h>

#include "core/base/error.h"

namespace mstrain::cpu {

const dnnl::engine& onednn_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::primitive_attr onednn_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

void onednn_check(dnnl_status_t status) {
  check(status == dnnl_success, "oneDNN: {}", dnnl_status2str(status));
}

OneDnnCall::OneDnnCall(dnnl::primitive primitive, const std::vector<OneDnnArgument>& arguments,
                       int threads)
    : primitive_(std::move(primitive)), stream_(onednn_engine()), threads_(threads) {
  for (const OneDnnArgument& argument : arguments) {
    memories_.emplace_back(argument.desc, onednn_engine(), static_cast<void*>(DNNL_MEMORY_NONE));
    arguments_.push_back({argument.index, memories_.back().get()});
  }
}

void OneDnnCall::run(std::initializer_list<void*> addresses) {
  const TeamSize team(threads_);
  for (size_t i = 0; i < arguments_.size(); ++i) {
    onednn_check(
        dnnl_memory_set_data_handle_v2(arguments_[i].memory, addresses.begin()[i], stream_.get()));
  }
  onednn_check(dnnl_primitive_execute(primitive_.get(), stream_.get(),
                                      static_cast<int>(arguments_.size()), arguments_.data()));
}

}  // namespace mstrain::cpu
