// A stored model, ready to write texts.
#pragma once

#include "suites/run/run.h"
#include "suites/run/stored_model.h"

namespace mstrain {

struct Writing {
  StoredModel stored;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<TextWriter> writer;
  WriteOptions options;  // with what the model's files say ends a text
  Params params;
};

// Throws Error and IoError where the model cannot write what is asked for.
Writing open_writing(FileSystem& files, const GenerateRequest& request);

}  // namespace mstrain
