// A stored model on given tensors, as its class of Hugging Face computes it: the way to check a port.
#pragma once

#include <string>

#include "core/base/files.h"

namespace mstrain {

struct ForwardRequest {
  std::string model;   // a Hugging Face model directory, a checkpoint or a run
  std::string input;   // safetensors
  std::string output;  // safetensors; appears whole or not at all
  bool gradients = false;
};

// Input: what Network::inputs() says: input_ids[b, t], labels[b, t], …; integers of any kind, masks also bool or floats.
// Output, f32: logits; with labels loss[]; with `gradients` the loss's as grad.<name in the weight file> in the shape that
// the file has. Runs in the current context without dropout.
// Throws IoError, and Error naming the input tensor that does not fit the model.
void forward(FileSystem& files, const ForwardRequest& request);

}  // namespace mstrain
