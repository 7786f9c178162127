// The weights of a stored model alone, as a directory that `transformers` opens, or an adapter, as one that PEFT does.
#pragma once

#include <string>

#include "core/base/files.h"
#include "suites/run/model_run.h"

namespace mstrain {

// Writes config.json, model.safetensors and the tokenizer's files of `model` (a checkpoint, a run or a Hugging Face model
// directory) into `output`, which must be new or empty; it appears whole or not at all. Tensors keep their bytes and
// element types, under the names of its class there; masks and a tied head's copy are left out. Throws IoError, also where
// the weights are not those of the model that config.json describes.
// Of an adapter: adapter_config.json, adapter_model.safetensors and the tokenizer's files, as PEFT has them; or, where
// `how.merges`, the weights that it adapts with what it adds, W + scale B A, each in its own element type.
void export_model(FileSystem& files, const std::string& model, const std::string& output,
                  const ExportOptions& how = {});

}  // namespace mstrain
