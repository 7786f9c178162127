#include "suites/run/stop_ids.h"

#include <algorithm>

#include "core/base/json.h"

namespace mstrain {
namespace {

constexpr uint64_t kLargest = 16 << 20;
constexpr const char* kEnds = "eos_token_id";

// One id or several, of which the model has some.
void add_ids(const Json& description, int64_t vocab, std::vector<int32_t>& out) {
  const Json own = description.is_object() ? description.value(kEnds, Json()) : Json();
  for (const Json& id : own.is_array() ? own : Json::array({own})) {
    if (id.is_number_unsigned() && id.get<uint64_t>() < static_cast<uint64_t>(vocab)) {
      out.push_back(id.get<int32_t>());
    }
  }
}

// Of the model, else of the model that it adapts; null where there is none.
Json found_config(FileSystem& files, const StoredModel& of) {
  for (const StoredModel* model = &of; model != nullptr; model = model->base.get()) {
    const std::string path = join_path(model->folder, kGenerationConfigFile);
    if (files.exists(path)) {
      return parse_json(files.read(path, kLargest), path);
    }
  }
  return {};
}

}  // namespace

std::vector<int32_t> stop_ids(FileSystem& files, const StoredModel& model) {
  std::vector<int32_t> out;
  const int64_t vocab = model.network->ids().value_or(0);
  add_ids(model.description, vocab, out);
  add_ids(found_config(files, model), vocab, out);
  return out;
}

std::optional<std::string> generation_config(FileSystem& files, const StoredModel* begun,
                                             std::optional<int32_t> end) {
  Json config = begun != nullptr ? found_config(files, *begun) : Json();
  const bool is_new = !config.is_object();
  if (is_new) {
    config = Json::object();
  }
  std::vector<int32_t> ends = begun != nullptr ? stop_ids(files, *begun) : std::vector<int32_t>();
  const bool is_known = !end || std::find(ends.begin(), ends.end(), *end) != ends.end();
  if (is_new && is_known) {
    return std::nullopt;
  }
  if (!is_known) {
    ends.push_back(*end);
    config[kEnds] = ends.size() == 1 ? Json(ends[0]) : Json(ends);
  }
  return config.dump(2) + "\n";
}

}  // namespace mstrain
