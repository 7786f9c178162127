// Parameters in a safetensors file, under their names, in the types that they have.
#pragma once

#include <span>
#include <string>

#include "core/base/files.h"
#include "core/tensor/params.h"

namespace mstrain {

// The file at `path` appears when it is whole. Throws IoError.
void save_params(FileSystem& files, const std::string& path, const Params& params);

// The parameters `specs`, in their order. Throws IoError that begins with `path` where one is missing, naming the nearest, or has another type or shape,
// and where the file has others besides.
Params load_params(FileSystem& files, const std::string& path, std::span<const ParamSpec> specs);

}  // namespace mstrain
