#include "core/backends/cpu/onednn.h"

#include <oneapi/dnnl/dnnl_debug.h>

#include "core/base/error.h"
#include "core/base/isa.h"

namespace mstrain::cpu {

namespace {

dnnl_cpu_isa_t limit_of(Isa isa) {
  switch (isa) {
    case Isa::kBaseline: break;
    case Isa::kAvx2: return dnnl_cpu_isa_avx2;
    case Isa::kAvx512: return dnnl_cpu_isa_avx512_core;
    case Isa::kAvx512Bf16: return dnnl_cpu_isa_avx512_core_bf16;
    case Isa::kAmx: return dnnl_cpu_isa_avx512_core_amx;
  }
  return dnnl_cpu_isa_all;
}

// The library takes a limit only before it looks at the processor for the first time: a program that used it before does
// without one where it would exclude nothing.
dnnl::engine make_engine() {
  const bool limited = dnnl_set_max_cpu_isa(limit_of(isa())) == dnnl_success;
  check(limited || isa() == best_isa(),
        "MSTRAIN_ISA={}: oneDNN was used before mstrain, and can no longer be limited",
        to_string(isa()));
  return {dnnl::engine::kind::cpu, 0};
}

}  // namespace

const dnnl::engine& onednn_engine() {
  static const dnnl::engine engine = make_engine();
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
