// A Llama as the house sees it: its network, and the configuration of a run that trains, evaluates or uses it.
#pragma once

#include "suites/transformer/alignment/aligned_run.h"
#include "suites/transformer/llama/hf_names.h"
#include "suites/transformer/llama/model.h"

namespace mstrain::llama {

using LlamaNetwork = CausalNetworkOf<LlamaConfig, Llama>;
using LlamaRun = CausalRunOf<LlamaConfig, Llama, AlignedRun>;

// model.type llama.
ModelEntry entry();

}  // namespace mstrain::llama
