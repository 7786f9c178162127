// A GPT as the house sees it: its network, and the configuration of a run that trains, evaluates or uses it.
#pragma once

#include "suites/transformer/alignment/aligned_run.h"
#include "suites/transformer/gpt/hf_names.h"
#include "suites/transformer/gpt/model.h"

namespace mstrain::gpt {

using GptNetwork = CausalNetworkOf<GptConfig, Gpt>;
using GptRun = CausalRunOf<GptConfig, Gpt, AlignedRun>;

// model.type gpt.
ModelEntry entry();

}  // namespace mstrain::gpt
