// YAML that to_yaml() wrote.
#pragma once

#include <string>

#include "core/base/files.h"
#include "core/base/yaml.h"

namespace mstrain {

// As parse_yaml(). A configuration of many files in a chain, with every default, is longer than what people may write in one, and
// whoever wrote it has to read it again. Throws IoError and ConfigError.
YamlNode read_written_yaml(FileSystem& files, const std::string& path);

}  // namespace mstrain
