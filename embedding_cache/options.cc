#include "embedding_cache/options.h"

#include <set>

#include "core/base/error.h"
#include "embedding_cache/row.h"

namespace mstrain::embedding_cache {
namespace {

struct Section {
  Options embedding_cache;
  template <class V>
  void fields(V& v) {
    v("embedding_cache", embedding_cache, "tables larger than memory");
  }
};

}  // namespace

Options parse_options(std::string_view yaml, const std::string& file) {
  const YamlNode tree = parse_yaml(yaml, file);
  Section section;
  if (tree.is_map() && tree.find("embedding_cache") != nullptr) {
    read_config(tree, section);
  } else {
    read_config(tree, section.embedding_cache);
  }
  check_options(section.embedding_cache);
  return section.embedding_cache;
}

std::string print_options(const Options& options) { return to_yaml(write_config(options)); }

void check_options(const Options& options) {
  const auto require = [](bool condition, const std::string& message) {
    if (!condition) {
      throw ConfigError("embedding_cache: " + message);
    }
  };
  require(!options.tables.empty(), "tables: at least one is needed");
  require(options.tables.size() <= 65535, "tables: at most 65535");
  std::set<std::string> names;
  for (const TableOptions& table : options.tables) {
    require(!table.name.empty(), "tables: each needs a name");
    require(names.insert(table.name).second,
            fmt::format("tables: two are called \"{}\"", table.name));
    const std::string where = fmt::format("tables: \"{}\": ", table.name);
    require(!table.segments.empty(), where + "at least one segment is needed");
    for (const Segment& segment : table.segments) {
      require(segment.width > 0, where + "a segment has no width");
      const OptimizerOptions& optimizer = segment.optimizer;
      require(!optimizer.learns_always() || optimizer.kind != OptimizerKind::kFtrl,
              where +
                  "optimizer.l2_of is table, but ftrl's l2 is part of what makes a weight of its "
                  "sums, whichever batch holds it; leave l2_of at batch");
      require(!optimizer.learns_always() || table.admission.kind == AdmissionKind::kNone,
              where +
                  "optimizer.l2_of is table, and admission.kind is not none: a row that was "
                  "admitted late would learn from steps at which it was none; use l2_of: batch, "
                  "or eviction");
      require(!optimizer.learns_always() || options.bounded_staleness == 0,
              where +
                  "optimizer.l2_of is table, where every step changes every row: "
                  "bounded_staleness must be 0");
    }
    require(table.host_rows > 0, where + "host_rows must be at least 1");
    require(table.host_rows <= (uint64_t{1} << 31), where + "host_rows is beyond 2^31");
    require(table.eviction.max_rows == 0 || table.eviction.max_rows >= table.eviction.min_keep_rows,
            where + fmt::format("eviction.max_rows is {}, less than min_keep_rows, {}",
                                table.eviction.max_rows, table.eviction.min_keep_rows));
    require(RowLayout(table).record_bytes() <= (1U << 20), where + "a row is larger than 1 MiB");
  }
  require(options.threads >= 1, "threads: at least 1");
  require(options.keep >= 1, "keep: at least 1");
  require(options.store.read_threads >= 1, "store.read_threads: at least 1");
  require(options.store.write_back_rows >= 1, "store.write_back_rows: at least 1");
  require(options.store.write_back_mib >= 1, "store.write_back_mib: at least 1");
  require(options.wait_seconds > 0, "wait_seconds: must be positive");
}

}  // namespace mstrain::embedding_cache
