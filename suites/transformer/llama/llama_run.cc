#include "suites/transformer/llama/llama_run.h"

namespace mstrain::llama {

ModelEntry entry() {
  return entry_of<LlamaRun, LlamaNetwork, config_from_hf>("llama", model_types());
}

}  // namespace mstrain::llama
