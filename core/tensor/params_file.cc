#include "core/tensor/params_file.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/io/safetensors.h"
#include "core/tensor/host.h"

namespace mstrain {

void save_params(FileSystem& files, const std::string& path, const Params& params) {
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (size_t i = 0; i < params.size(); ++i) {
    const TensorType& type = params.tensor(i).type();
    tensors.push_back({params.name(i), type.dtype, {type.shape.begin(), type.shape.end()}});
  }
  SafetensorsWriter writer(files, path, tensors);
  for (const TensorEntry& entry : writer.entries()) {
    writer.append(entry.name, HostRead(dense(*params.find(entry.name))).bytes());
  }
  writer.finish();
}

Params load_params(FileSystem& files, const std::string& path, std::span<const ParamSpec> specs) {
  const SafetensorsFile file(files, path);
  Params params;
  std::vector<std::string> names;
  for (const ParamSpec& spec : specs) {
    const TensorEntry& entry = file.at(spec.name);
    if (entry.dtype != spec.type.dtype || !std::ranges::equal(entry.shape, spec.type.shape)) {
      throw IoError(fmt::format("{}: {} is {}[{}], expected {}", path, spec.name, entry.dtype_name,
                                fmt::join(entry.shape, ", "), to_string(spec.type)));
    }
    params.set(spec.name, tensor_from_bytes(file.data(entry).data(), spec.type));
    names.push_back(spec.name);
  }
  for (const TensorEntry& entry : file.entries()) {
    if (params.find(entry.name) == nullptr) {
      throw IoError(fmt::format("{}: {}: no parameter is called so{}", path, entry.name,
                                did_you_mean(entry.name, names)));
    }
  }
  return params;
}

}  // namespace mstrain
