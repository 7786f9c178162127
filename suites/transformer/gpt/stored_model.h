// A trained GPT on disk: a checkpoint of ours, or a Hugging Face model directory with a tokenizer that we know.
#pragma once

#include "core/base/files.h"
#include "core/data/tokenizer.h"
#include "core/tensor/params.h"
#include "suites/transformer/gpt/config.h"

namespace mstrain::gpt {

struct StoredModel {
  std::string folder;
  GptConfig config;
  Params params;
  std::shared_ptr<const Tokenizer> tokenizer;
};

// The checkpoint that `path` means: itself, or the newest sound one of a run directory. Throws IoError.
std::string find_checkpoint(FileSystem& files, const std::string& path);

// Reads the folder that find_checkpoint gives. Files that a manifest lists are compared with it. Throws IoError.
StoredModel load_model(FileSystem& files, const std::string& path);

}  // namespace mstrain::gpt
