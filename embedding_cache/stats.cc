#include "embedding_cache/stats.h"

#include <fmt/core.h>

#include "core/base/json.h"

namespace mstrain::embedding_cache {
namespace {

double share(uint64_t part, uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

}  // namespace

std::string print_stats(const Stats& stats) {
  std::string out =
      fmt::format("{:<16}{:>12}{:>12}{:>10}{:>10}{:>12}{:>12}{:>12}{:>12}\n", "table", "rows",
                  "in memory", "of", "bytes", "hits/lookup", "hits/id", "written", "dropped");
  for (const TableStats& t : stats.tables) {
    out += fmt::format("{:<16}{:>12}{:>12}{:>10}{:>10}{:>11.2f}%{:>11.2f}%{:>12}{:>12}\n", t.name,
                       t.rows, t.host_rows, t.host_capacity, t.record_bytes,
                       100 * share(t.position_hits, t.positions), 100 * share(t.id_hits, t.ids),
                       t.evicted_dirty, t.evicted_clean);
  }
  out += fmt::format(
      "store {}: {} rows asked for, {} found, {} written ({} bytes); {} bytes on their way out\n",
      stats.store_name, stats.store.rows_read, stats.store.rows_found, stats.store.rows_written,
      stats.store.bytes_written, stats.write_back_bytes);
  out += fmt::format(
      "seconds in prefetch {:.3f}, wait {:.3f}, gather {:.3f}, update {:.3f}, commit {:.3f}\n",
      stats.prefetch_seconds, stats.wait_seconds, stats.gather_seconds, stats.update_seconds,
      stats.commit_seconds);
  return out;
}

std::string print_stats_json(const Stats& stats) {
  OrderedJson json;
  json["store"] = {{"name", stats.store_name},
                   {"rows_read", stats.store.rows_read},
                   {"rows_found", stats.store.rows_found},
                   {"rows_written", stats.store.rows_written},
                   {"bytes_written", stats.store.bytes_written},
                   {"memory_bytes", stats.store.memory_bytes}};
  json["open_tickets"] = stats.open_tickets;
  json["write_back_bytes"] = stats.write_back_bytes;
  json["seconds"] = {{"prefetch", stats.prefetch_seconds},
                     {"wait", stats.wait_seconds},
                     {"gather", stats.gather_seconds},
                     {"update", stats.update_seconds},
                     {"commit", stats.commit_seconds}};
  json["tables"] = OrderedJson::array();
  for (const TableStats& t : stats.tables) {
    json["tables"].push_back({{"name", t.name},
                              {"rows", t.rows},
                              {"host_rows", t.host_rows},
                              {"host_capacity", t.host_capacity},
                              {"pinned_rows", t.pinned_rows},
                              {"record_bytes", t.record_bytes},
                              {"overhead_bytes", t.overhead_bytes},
                              {"batches", t.batches},
                              {"positions", t.positions},
                              {"position_hits", t.position_hits},
                              {"ids", t.ids},
                              {"id_hits", t.id_hits},
                              {"write_back_hits", t.write_back_hits},
                              {"refused", t.refused},
                              {"evicted_clean", t.evicted_clean},
                              {"evicted_dirty", t.evicted_dirty},
                              {"updates", t.updates},
                              {"tombstones", t.tombstones},
                              {"filter_ids", t.filter_ids}});
  }
  return json.dump();
}

}  // namespace mstrain::embedding_cache
