#include "suites/recommender/run/stored_rows.h"

#include <fmt/ranges.h>

#include <map>
#include <vector>

#include "core/base/error.h"
#include "suites/recommender/run/export_rows.h"

namespace mstrain::recommender {
namespace {

// By field: its table, and all that is said of it.
template <class AnyJson>
std::map<std::string, std::pair<std::string, Json>> fields_of(const AnyJson& description) {
  std::map<std::string, std::pair<std::string, Json>> out;
  for (const auto& table : description.at("tables")) {
    for (const auto& field : table.at("fields")) {
      out[field.at("name").template get<std::string>()] = {
          table.at("name").template get<std::string>(), Json(field)};
    }
  }
  return out;
}

void expect_same(const std::string& source, const Json& there, const OrderedJson& here) {
  const auto of_checkpoint = fields_of(there);
  const auto of_run = fields_of(here);
  for (const auto& [name, its] : of_checkpoint) {
    const std::string where = fmt::format("{}: field {}", source, name);
    const auto own = of_run.find(name);
    if (own == of_run.end()) {
      throw IoError(where + " is none that this run looks up");
    }
    const Json& index = its.second.at("index");
    const Json& own_index = own->second.second.at("index");
    if (index != own_index) {
      throw IoError(fmt::format("{} is number {} there and {} here", where, index.get<int64_t>(),
                                own_index.get<int64_t>()));
    }
    Json same = own->second.second;
    if (!its.second.contains("pooling")) {
      same.erase("pooling");  // checkpoints of earlier versions do not say
    }
    if (its != std::pair(own->second.first, same)) {
      throw IoError(fmt::format("{} is {} of table {} there, and {} of {} here", where,
                                its.second.dump(), its.first, own->second.second.dump(),
                                own->second.first));
    }
  }
  for (const auto& [name, own] : of_run) {
    if (!of_checkpoint.contains(name)) {
      throw IoError(fmt::format("{}: has no field {}, which this run looks up", source, name));
    }
  }
  const auto numeric = there.find("numeric");
  if (numeric != there.end() && *numeric != Json(here.at("numeric"))) {
    throw IoError(fmt::format("{}: numbers are [{}] there, and [{}] here", source,
                              fmt::join(numeric->get<std::vector<std::string>>(), ", "),
                              fmt::join(here.at("numeric").get<std::vector<std::string>>(), ", ")));
  }
}

}  // namespace

void expect_features_of(FileSystem& files, const std::string& folder, const OrderedJson& here) {
  const std::string source = join_path(folder, kRowsFile);
  if (!files.exists(source)) {
    return;
  }
  const Json there = read_description(files, source);
  try {
    expect_same(source, there, here);
  } catch (const Json::exception& error) {
    throw IoError(fmt::format("{}: {}", source, error.what()));
  }
}

}  // namespace mstrain::recommender
