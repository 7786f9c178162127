// A GPT as the house sees it: its network, and the configuration of a run that trains, evaluates or uses it.
#pragma once

#include "suites/transformer/gpt/hf_names.h"
#include "suites/transformer/gpt/model.h"
#include "suites/transformer/text/causal_run.h"

namespace mstrain::gpt {

using GptNetwork = CausalNetworkOf<GptConfig, Gpt>;
using GptRun = CausalRunOf<GptConfig, Gpt>;

// model.type gpt.
ModelEntry entry();

}  // namespace mstrain::gpt
