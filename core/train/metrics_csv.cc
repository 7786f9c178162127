#include "core/train/metrics_csv.h"

#include <algorithm>
#include <vector>

namespace mstrain {

std::string metrics_csv(std::span<const Json> rows) {
  std::vector<std::string> keys{"step"};
  for (const Json& row : rows) {
    for (const auto& [key, value] : row.items()) {
      if (value.is_number() && std::find(keys.begin(), keys.end(), key) == keys.end()) {
        keys.push_back(key);
      }
    }
  }
  std::string out;
  for (const std::string& key : keys) {
    out += (out.empty() ? "" : ",") + key;
  }
  out += "\n";
  for (const Json& row : rows) {
    for (const std::string& key : keys) {
      out += &key == &keys.front() ? "" : ",";
      if (const auto value = row.find(key); value != row.end() && value->is_number()) {
        out += value->dump();
      }
    }
    out += "\n";
  }
  return out;
}

}  // namespace mstrain
