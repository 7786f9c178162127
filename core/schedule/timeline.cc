#include "core/schedule/timeline.h"

#include <cmath>

namespace mstrain {
namespace {

constexpr std::string_view kLetters = "FBWUXO";

double in_microseconds(double seconds) { return std::round(seconds * 1e6) / 1e6; }

}  // namespace

Bar::Kind kind_of(Work work) { return static_cast<Bar::Kind>(work); }

OrderedJson to_json(const Timeline& timeline) {
  OrderedJson ranks = OrderedJson::array();
  for (const std::vector<Bar>& bars : timeline.ranks) {
    OrderedJson row = OrderedJson::array();
    for (const Bar& bar : bars) {
      row.push_back({std::string(1, kLetters[static_cast<size_t>(bar.kind)]), bar.chunk,
                     bar.micro_batch, in_microseconds(bar.begin), in_microseconds(bar.end)});
    }
    ranks.push_back(std::move(row));
  }
  return {{"seconds", timeline.seconds}, {"ranks", std::move(ranks)}};
}

Timeline timeline_from(const Json& json) {
  Timeline out{json.at("seconds").get<double>(), {}};
  for (const Json& row : json.at("ranks")) {
    out.ranks.emplace_back();
    for (const Json& bar : row) {
      const size_t kind = kLetters.find(bar.at(0).get_ref<const std::string&>());
      out.ranks.back().push_back(
          {kind < kLetters.size() ? static_cast<Bar::Kind>(kind) : Bar::Kind::kOther,
           bar.at(1).get<int>(), bar.at(2).get<int>(), bar.at(3).get<double>(),
           bar.at(4).get<double>()});
    }
  }
  return out;
}

}  // namespace mstrain
