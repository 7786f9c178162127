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

// Of the model and of those that it adapts, in this order.
std::vector<Json> configs_of(FileSystem& files, const StoredModel& of) {
  std::vector<Json> out;
  for (const StoredModel* model = &of; model != nullptr; model = model->base.get()) {
    const std::string path = join_path(model->folder, kGenerationConfigFile);
    if (files.exists(path)) {
      out.push_back(parse_json(files.read(path, kLargest), path));
    }
  }
  return out;
}

std::vector<int32_t> ids_of(const StoredModel& model, const std::vector<Json>& configs) {
  std::vector<int32_t> out;
  const int64_t vocab = model.network->ids().value_or(0);
  add_ids(model.description, vocab, out);
  for (const Json& config : configs) {
    add_ids(config, vocab, out);
  }
  return out;
}

}  // namespace

std::vector<int32_t> stop_ids(FileSystem& files, const StoredModel& model) {
  return ids_of(model, configs_of(files, model));
}

std::optional<std::string> generation_config(FileSystem& files, const StoredModel* begun,
                                             std::optional<int32_t> end) {
  const std::vector<Json> configs =
      begun != nullptr ? configs_of(files, *begun) : std::vector<Json>();
  std::vector<int32_t> ends = begun != nullptr ? ids_of(*begun, configs) : std::vector<int32_t>();
  const bool is_new = configs.empty() || !configs[0].is_object();
  Json config = is_new ? Json::object() : configs[0];
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
