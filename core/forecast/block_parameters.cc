// Which parameters of a model are of its blocks, by their names alone.
#include <set>

#include "core/forecast/profile.h"

namespace mstrain {

std::vector<bool> parameters_of_blocks(std::span<const ParamSpec> few,
                                       std::span<const ParamSpec> more) {
  constexpr std::string_view kDigits = "0123456789";
  std::set<std::string> known;
  for (const ParamSpec& spec : few) {
    known.insert(spec.name);
  }
  // h.5.ln_1.weight is new, and so h.0.ln_1.weight and h.1.ln_1.weight are of blocks as well.
  std::set<std::string> of_blocks;
  for (const ParamSpec& spec : more) {
    if (known.contains(spec.name)) {
      continue;
    }
    of_blocks.insert(spec.name);
    for (size_t at = spec.name.find_first_of(kDigits); at != std::string::npos;
         at = spec.name.find_first_of(kDigits, at)) {
      const size_t end = std::min(spec.name.find_first_not_of(kDigits, at), spec.name.size());
      for (const char* number : {"0", "1"}) {
        const std::string name = spec.name.substr(0, at) + number + spec.name.substr(end);
        if (known.contains(name)) {
          of_blocks.insert(name);
        }
      }
      at = end;
    }
  }
  std::vector<bool> out;
  for (const ParamSpec& spec : more) {
    out.push_back(of_blocks.contains(spec.name));
  }
  return out;
}

}  // namespace mstrain
