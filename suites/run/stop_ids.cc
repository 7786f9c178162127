#include "suites/run/stop_ids.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/log.h"

namespace mstrain {
namespace {

constexpr uint64_t kLargest = 16 << 20;
constexpr const char* kEnds = "eos_token_id";

// One id or several, that the file `path` names. A number beyond the model's is warned of: transformers writes the default of a
// family, whatever the vocabulary.
void add_ids(const Json& description, const std::string& path, int64_t vocab,
             std::vector<int32_t>& out) {
  const Json own = description.is_object() ? description.value(kEnds, Json()) : Json();
  if (own.is_null()) {
    return;
  }
  for (const Json& id : own.is_array() ? own : Json::array({own})) {
    if (!id.is_number_integer()) {
      throw IoError(
          fmt::format("{}: {} is {}, not the id of a token, 0 to {}, or a list of ids", path, kEnds,
                      id.dump(-1, ' ', false, Json::error_handler_t::replace), vocab - 1));
    }
    if (id < 0 || id >= vocab) {
      log_warning("{}: {} is {}, and the model has ids from 0 to {}: it ends no text", path, kEnds,
                  id.dump(), vocab - 1);
      continue;
    }
    out.push_back(id.get<int32_t>());
  }
}

// A generation_config.json.
struct GenerationConfig {
  std::string path;
  Json json;
};

// Of the model and of those that it adapts, in this order.
std::vector<GenerationConfig> configs_of(FileSystem& files, const StoredModel& of) {
  std::vector<GenerationConfig> out;
  for (const StoredModel* model = &of; model != nullptr; model = model->base.get()) {
    const std::string path = join_path(model->folder, kGenerationConfigFile);
    if (files.exists(path)) {
      out.push_back({path, parse_json(files.read(path, kLargest), path)});
    }
  }
  return out;
}

std::vector<int32_t> ids_of(const StoredModel& model,
                            const std::vector<GenerationConfig>& configs) {
  std::vector<int32_t> out;
  const std::optional<int64_t> vocab = model.network->ids();
  if (!vocab) {
    return out;
  }
  add_ids(model.description, model.description_path, *vocab, out);
  for (const GenerationConfig& config : configs) {
    add_ids(config.json, config.path, *vocab, out);
  }
  return out;
}

}  // namespace

std::vector<int32_t> stop_ids(FileSystem& files, const StoredModel& model) {
  return ids_of(model, configs_of(files, model));
}

std::optional<std::string> generation_config(FileSystem& files, const StoredModel* begun,
                                             std::optional<int32_t> end) {
  const auto configs =
      begun != nullptr ? configs_of(files, *begun) : std::vector<GenerationConfig>();
  std::vector<int32_t> ends = begun != nullptr ? ids_of(*begun, configs) : std::vector<int32_t>();
  const bool is_new = configs.empty() || !configs[0].json.is_object();
  Json config = is_new ? Json::object() : configs[0].json;
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
