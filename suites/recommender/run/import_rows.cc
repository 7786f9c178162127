#include "suites/recommender/run/import_rows.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/io/npy.h"
#include "core/train/checkpoint.h"
#include "embedding_cache/commit_store.h"
#include "embedding_cache/row_store.h"
#include "suites/recommender/run/export_rows.h"
#include "suites/recommender/run/recommender_run.h"

namespace mstrain::recommender {
namespace {

using embedding_cache::Id;
using Visit = std::function<void(Id key, const float* weights)>;

constexpr size_t kRowsAtOnce = 8192;

// Where the keys of a field go.
struct Way {
  Id first = 0, end = 0;  // there
  size_t table = 0;       // here
  Id now_first = 0;
};

// The fields of one table there.
struct Ways {
  std::vector<Way> ranges;  // ascending
  std::optional<size_t>
      hashed;  // the table that keys of open-ended ids go to, which are the same here

  std::optional<std::pair<size_t, Id>> of(Id key) const {
    if (is_open_ended(key)) {
      return hashed ? std::optional(std::pair(*hashed, key)) : std::nullopt;
    }
    const auto after = std::upper_bound(ranges.begin(), ranges.end(), key,
                                        [](Id id, const Way& way) { return id < way.first; });
    if (after == ranges.begin() || key >= (after - 1)->end) {
      return std::nullopt;
    }
    const Way& way = *(after - 1);
    return std::pair(way.table, way.now_first + (key - way.first));
  }
};

struct Place {
  size_t table;
  const TableField* field;
};

std::optional<Place> find_field(const Tables& tables, const std::string& name) {
  for (size_t t = 0; t < tables.specs().size(); ++t) {
    for (const TableField& field : tables.specs()[t].fields) {
      if (field.name == name) {
        return Place{t, &field};
      }
    }
  }
  return std::nullopt;
}

// For people.
std::string columns_of(const Json& table) {
  const Json& columns = table.at("columns");
  const auto vector = columns.find("vector");
  const bool has_weight = columns.contains("weight");
  return fmt::format(
      "{}{}{}",
      vector == columns.end() ? "" : fmt::format("a vector of {}", vector->at(1).get<int64_t>()),
      vector != columns.end() && has_weight ? " and " : "", has_weight ? "a weight" : "");
}

// Fields with vectors, as dense layers take them.
std::vector<std::string> vectors_of(const Json& description) {
  std::vector<std::string> names;
  for (const Json& table : description.at("tables")) {
    if (table.at("columns").contains("vector")) {
      for (const Json& field : table.at("fields")) {
        names.push_back(field.at("name").get<std::string>());
      }
    }
  }
  return names;
}

// Dense layers know what they take by its place.
void check_order(const Json& there, const Json& here, const std::string& source) {
  const auto check_one = [&](const char* what, const std::vector<std::string>& before,
                             const std::vector<std::string>& now) {
    if (before != now && std::ranges::is_permutation(before, now)) {
      throw IoError(
          fmt::format("{}: {} are {} there, and {} here: dense layers know them by their place; "
                      "name columns in the order that they had",
                      source, what, fmt::join(before, ", "), fmt::join(now, ", ")));
    }
  };
  check_one("fields with vectors", vectors_of(there), vectors_of(here));
  using Names = std::vector<std::string>;
  check_one("numbers", there.value("numeric", Names()), here.value("numeric", Names()));
}

Ways ways_of(const Json& table, const Tables& tables, const std::string& source,
             std::set<std::string>& known) {
  const Json described = description_of(tables).at("tables");
  Ways ways;
  for (const Json& each : table.at("fields")) {
    const auto name = each.at("name").get<std::string>();
    const std::string where = fmt::format("{}: field {}", source, name);
    const std::optional<Place> place = find_field(tables, name);
    if (!place) {
      throw IoError(where + " is none that this run looks up");
    }
    known.insert(name);
    const Json& here = described.at(place->table);
    if (here.at("columns") != table.at("columns")) {
      throw IoError(fmt::format("{} has {} for each id, and this run {}", where, columns_of(table),
                                columns_of(here)));
    }
    const Json& keys = each.at("keys");
    if (keys.is_string()) {
      if (place->field->rows != 0) {
        throw IoError(where + " has hashed ids, and this run's are numbers");
      }
      if (each.at("index").get<size_t>() != place->field->index) {
        throw IoError(fmt::format("{} is number {} there and {} here, by which its ids are hashed",
                                  where, each.at("index").get<size_t>(), place->field->index));
      }
      if (ways.hashed.value_or(place->table) != place->table) {
        throw IoError(where + " shares a table with another one there, and not here");
      }
      ways.hashed = place->table;
      continue;
    }
    const Way way{keys.at(0).get<Id>(), keys.at(1).get<Id>(), place->table, place->field->first};
    if (way.end - way.first != place->field->rows) {
      throw IoError(fmt::format(
          "{} has {} ids, and this run's {}: of another dictionary", where, way.end - way.first,
          place->field->rows == 0 ? "are hashed" : fmt::format("has {}", place->field->rows)));
    }
    ways.ranges.push_back(way);
  }
  std::sort(ways.ranges.begin(), ways.ranges.end(),
            [](const Way& a, const Way& b) { return a.first < b.first; });
  return ways;
}

// Rows for one table here, until there are enough of them.
class Pile {
 public:
  Pile(size_t table, size_t width, const RowSink& sink)
      : table_(table), width_(width), sink_(sink) {}

  void add(Id key, const float* weights) {
    keys_.push_back(key);
    weights_.insert(weights_.end(), weights, weights + width_);
    if (keys_.size() == kRowsAtOnce) {
      give();
    }
  }
  void give() {
    std::vector<size_t> order(keys_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return keys_[a] < keys_[b]; });
    std::vector<Id> keys;
    std::vector<float> weights;
    for (const size_t i : order) {
      keys.push_back(keys_[i]);
      weights.insert(weights.end(), weights_.begin() + static_cast<int64_t>(i * width_),
                     weights_.begin() + static_cast<int64_t>((i + 1) * width_));
    }
    sink_(table_, keys, weights);
    keys_.clear();
    weights_.clear();
  }

 private:
  size_t table_;
  size_t width_;
  const RowSink& sink_;
  std::vector<Id> keys_;
  std::vector<float> weights_;
};

void visit_exported(FileSystem& files, const std::string& folder, const std::string& table,
                    size_t width, const Visit& visit) {
  const std::string keys_path = join_path(folder, fmt::format("rows.{}.keys.npy", table));
  const std::string weights_path = join_path(folder, fmt::format("rows.{}.npy", table));
  const std::unique_ptr<MappedFile> keys_file = files.map(keys_path);
  const std::unique_ptr<MappedFile> weights_file = files.map(weights_path);
  const NpyView keys = view_npy(keys_file->bytes(), keys_path);
  const NpyView weights = view_npy(weights_file->bytes(), weights_path);
  if (keys.dtype != Dtype::kI64 || keys.shape.size() != 1) {
    throw IoError(keys_path + ": is not i8 of one dim");
  }
  if (weights.dtype != Dtype::kF32 ||
      weights.shape != std::vector<int64_t>{keys.shape[0], static_cast<int64_t>(width)}) {
    throw IoError(fmt::format("{}: is not f4 of [{}, {}]", weights_path, keys.shape[0], width));
  }
  std::vector<float> row(width);
  for (size_t i = 0; i < static_cast<size_t>(keys.shape[0]); ++i) {
    Id key = 0;
    std::memcpy(&key, keys.data.data() + i * sizeof key, sizeof key);
    std::memcpy(row.data(), weights.data.data() + i * width * sizeof(float), width * sizeof(float));
    visit(key, row.data());
  }
}

void visit_saved(const std::vector<embedding_cache::CommitStore>& commits, const std::string& name,
                 size_t width, const Visit& visit) {
  std::vector<float> row(width);
  for (const embedding_cache::CommitStore& commit : commits) {
    const uint32_t table = commit.table(name);
    if (commit.layouts[table].width() != width) {
      throw IoError(fmt::format("table {} has rows of {} floats, and {} says {}", name,
                                commit.layouts[table].width(), kRowsFile, width));
    }
    commit.scan(table, 0, [&](Id key, const std::byte* record) {
      std::memcpy(row.data(), record + embedding_cache::kHeaderBytes, row.size() * sizeof(float));
      visit(key, row.data());
    });
  }
}

// Directories and commits of the checkpoint in `model`, whose run says where they lie.
std::vector<std::pair<std::string, embedding_cache::CommitId>> saved_places(
    FileSystem& files, const StoredModel& model) {
  const ProgressState progress = read_progress(files, model.folder);
  const RowsId id = RowsId::parse(progress.outside.at(kRowsName));
  const WrittenRun written = run_of_checkpoint(model);
  const std::string base = written.run->rows_directory();
  std::vector<std::pair<std::string, embedding_cache::CommitId>> out;
  for (size_t rank = 0; rank < id.commits.size(); ++rank) {
    out.emplace_back(id.layout.directory(base, rank), id.commits[rank]);
  }
  return out;
}

std::vector<embedding_cache::CommitStore> saved_commits(FileSystem& files,
                                                        const StoredModel& model) {
  std::vector<embedding_cache::CommitStore> out;
  for (const auto& [directory, commit] : saved_places(files, model)) {
    out.push_back(embedding_cache::open_commit(files, directory, commit));
  }
  return out;
}

size_t width_of(const Json& columns) {
  size_t width = 0;
  for (const Json& column : columns) {
    width = std::max(width, column.at(1).get<size_t>());
  }
  return width;
}

}  // namespace

uint64_t count_rows(FileSystem& files, const std::string& path) {
  uint64_t rows = 0;
  try {
    const StoredModel model = open_model(files, path);
    if (files.exists(join_path(model.folder, kStateFile))) {
      for (const auto& [directory, commit] : saved_places(files, model)) {
        for (const auto& table : embedding_cache::read_manifest(files, directory, commit).tables) {
          rows += table.rows;
        }
      }
      return rows;
    }
    const std::string source = join_path(model.folder, kRowsFile);
    const Json description = read_description(files, source);
    for (const Json& table : description.at("tables")) {
      rows += table.at("rows").get<uint64_t>();
    }
  } catch (const Error&) {
    return 0;
  } catch (const Json::exception&) {
    return 0;
  }
  return rows;
}

void read_rows(FileSystem& files, const std::string& path, const Tables& tables,
               const RowSink& sink) {
  const StoredModel model = open_model(files, path);
  const std::string source = join_path(model.folder, kRowsFile);
  if (!files.exists(source)) {
    throw IoError(fmt::format("{}: is missing: {} has weights of the dense part, and no rows",
                              source, model.folder));
  }
  const Json description = read_description(files, source);
  if (description.contains("since")) {
    throw IoError(source + ": holds what an export with --since left, not all rows");
  }
  const bool is_checkpoint = files.exists(join_path(model.folder, kStateFile));
  const std::vector<embedding_cache::CommitStore> commits =
      is_checkpoint ? saved_commits(files, model) : std::vector<embedding_cache::CommitStore>();
  std::set<std::string> known;
  int64_t rows = 0;
  try {
    check_order(description, Json(description_of(tables)), source);
    for (const Json& table : description.at("tables")) {
      const auto name = table.at("name").get<std::string>();
      const Ways ways = ways_of(table, tables, source, known);
      const size_t width = width_of(table.at("columns"));
      std::vector<Pile> piles;
      for (size_t t = 0; t < tables.specs().size(); ++t) {
        piles.emplace_back(t, width, sink);
      }
      const Visit visit = [&](Id key, const float* weights) {
        const auto to = ways.of(key);
        if (!to) {
          throw IoError(fmt::format("{}: key {} of table {} is of no field", source, key, name));
        }
        piles[to->first].add(to->second, weights);
        ++rows;
      };
      is_checkpoint ? visit_saved(commits, name, width, visit)
                    : visit_exported(files, model.folder, name, width, visit);
      for (Pile& pile : piles) {
        pile.give();
      }
    }
  } catch (const Json::exception& error) {
    throw IoError(fmt::format("{}: {}", source, error.what()));
  }
  std::vector<std::string> anew;
  for (const TableSpec& table : tables.specs()) {
    for (const TableField& field : table.fields) {
      if (!known.contains(field.name)) {
        anew.push_back(field.name);
      }
    }
  }
  log_info("begins with {} rows of {}{}", rows, model.folder,
           anew.empty() ? "" : fmt::format("; not of {}", fmt::join(anew, ", ")));
}

}  // namespace mstrain::recommender
