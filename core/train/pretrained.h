// Weights that another program stored: found under other names, in other element types, beside other tensors.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "core/io/safetensors_folder.h"
#include "core/tensor/params.h"

namespace mstrain {

// What a stored tensor is to the model.
struct StoredMeaning {
  enum class Kind {
    kParameter,  // the parameter `name`
    kBuffer,     // nothing that a model learns: left out
    kCopy,       // must equal the parameter `name` bit for bit: a weight that is used twice
    kUnknown,    // belongs to nothing
  } kind = Kind::kUnknown;
  std::string name = {};
};
using Meaning = std::function<StoredMeaning(const std::string& stored)>;

// The parameters `specs`, read from the tensors of `weights` and converted from f32, bf16, f16 or f64 to their dtype,
// one of these, or, with a `code`, those with a matrix form straight to their rows of codes. `stored_shapes[i]` is the shape
// that the tensor of parameter i has: the same elements in the same order.
// Throws IoError that begins with `folder` and names, up to a few of each kind: parameters that are missing or stored
// twice, tensors of another shape or dtype, and tensors that belong to no parameter. Nothing is allocated before all fit.
// Throws Error that begins so too for a tensor with a number that `code` cannot hold.
Params load_pretrained(const SafetensorsFolder& weights, const std::string& folder,
                       std::span<const ParamSpec> specs, std::span<const Shape> stored_shapes,
                       const Meaning& meaning, std::optional<WeightCode> code = {});

// Throws what load_pretrained() would, and reads no tensor but those that are stored twice.
void check_pretrained(const SafetensorsFolder& weights, const std::string& folder,
                      std::span<const ParamSpec> specs, std::span<const Shape> stored_shapes,
                      const Meaning& meaning);

}  // namespace mstrain
