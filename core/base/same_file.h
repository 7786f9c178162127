// Results that would be written over what they are made of.
#pragma once

#include <string>

namespace mstrain {

// Throws ConfigError, naming `option`, where `output` is the file `input`, however either is spelled.
void refuse_same_file(const std::string& input, const std::string& output,
                      const std::string& option);

}  // namespace mstrain
