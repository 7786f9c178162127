// preprocessor_config.json, which tells what Hugging Face's image processor does to an image.
#pragma once

#include <string>

#include "core/data/image_loader.h"
#include "suites/run/stored_model.h"

namespace mstrain::vit {

inline constexpr const char* kProcessorFile = "preprocessor_config.json";

// The file of a processor that does what evaluation does here.
std::string processor_config(const ImageView& view);

// data.mean and data.std, where `given`, a section `data`, leaves them out and the file in the model's folder, or in that of
// the model that it adapts, tells them. Throws IoError, or Error naming the file and its key.
YamlNode processor_keys(FileSystem& files, const StoredModel& model, const YamlNode& given);

}  // namespace mstrain::vit
