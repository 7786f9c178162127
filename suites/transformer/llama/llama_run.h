// A Llama as the house sees it: its network, and the configuration of a run that trains, evaluates or uses it.
#pragma once

#include "suites/transformer/llama/hf_names.h"
#include "suites/transformer/llama/model.h"
#include "suites/transformer/text/causal_run.h"

namespace mstrain::llama {

using LlamaNetwork = CausalNetworkOf<LlamaConfig, Llama>;
using LlamaRun = CausalRunOf<LlamaConfig, Llama>;

// model.type llama.
ModelEntry entry();

}  // namespace mstrain::llama
