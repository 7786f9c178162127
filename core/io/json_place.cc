#include "core/io/json_place.h"

#include "core/base/json.h"

namespace mstrain {

size_t place_of_key(std::string_view text, std::string_view key) {
  const size_t at = text.find(Json(key).dump());
  return at == text.npos ? 0 : at;
}

}  // namespace mstrain
