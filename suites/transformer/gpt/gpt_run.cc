#include "suites/transformer/gpt/gpt_run.h"

namespace mstrain::gpt {

ModelEntry entry() { return entry_of<GptRun, GptNetwork, config_from_hf>("gpt", {"gpt2"}); }

}  // namespace mstrain::gpt
