// A stored model on given tensors, as Hugging Face's GPT2LMHeadModel computes it: the way to check a port.
#pragma once

#include <string>

#include "core/base/files.h"

namespace mstrain::gpt {

struct ForwardRequest {
  std::string model;   // a Hugging Face model directory, a checkpoint or a run
  std::string input;   // safetensors
  std::string output;  // safetensors; appears whole or not at all
  bool gradients = false;
};

// Input: input_ids[b, t]; and, where given, attention_mask[b, t] (1: seen, 0: padding), position_ids[b, t], labels[b, t]
// (-100: not counted). Integers of any kind, the mask also bool or a float.
// Output, f32: logits[b, t, vocab]; with labels loss[], the mean over positions 0 … t - 2 of the cross-entropy of the label
// that follows; with `gradients` the loss's as grad.<name in the weight file> in the shape that the file has.
// Runs in the current context without dropout. Of a query that sees no key attention is zero, as there by default.
// Throws IoError, and Error naming the input tensor that does not fit the model.
void forward(FileSystem& files, const ForwardRequest& request);

}  // namespace mstrain::gpt
