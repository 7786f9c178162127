#include "embedding_cache/replay.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "core/base/error.h"
#include "embedding_cache/dedup.h"
#include "embedding_cache/host_slots.h"
#include "embedding_cache/look_ahead.h"

namespace mstrain::embedding_cache {
namespace {

const char* policy_name(Policy policy) {
  return policy == Policy::kLru ? "lru" : policy == Policy::kLfu ? "lfu" : "look-ahead";
}

void check_replay(std::span<const Id> log, const ReplayOptions& options) {
  check(options.batch > 0 && options.host_rows > 0, "replay: batch and host_rows must be positive");
  check(!log.empty(), "replay: the log holds no ids");
}

std::vector<std::span<const Id>> batches_of(std::span<const Id> log, size_t batch) {
  std::vector<std::span<const Id>> batches;
  for (; !log.empty(); log = log.subspan(batches.back().size())) {
    batches.push_back(log.first(std::min(batch, log.size())));
  }
  return batches;
}

// Counts one batch whose distinct ids are `found` or not.
void count(ReplayResult& result, const Batch& batch, const std::vector<bool>& found) {
  result.batches += 1;
  result.ids += batch.unique.size();
  result.id_hits += static_cast<uint64_t>(std::count(found.begin(), found.end(), true));
  result.lookups += batch.inverse.size();
  result.lookup_hits += static_cast<uint64_t>(std::count_if(
      batch.inverse.begin(), batch.inverse.end(), [&](uint32_t u) { return found[u]; }));
}

void check_fits(const Batch& batch, const ReplayOptions& options) {
  check(batch.unique.size() <= options.host_rows,
        "replay: a batch has {} distinct ids and does not fit into {} rows", batch.unique.size(),
        options.host_rows);
}

}  // namespace

ReplayResult replay(std::span<const Id> log, Policy policy, const ReplayOptions& options) {
  check_replay(log, options);
  return replay(batches_of(log, options.batch), policy, options);
}

ReplayResult replay(const std::vector<std::span<const Id>>& batches, Policy policy,
                    const ReplayOptions& options) {
  check(options.host_rows > 0, "replay: host_rows must be positive");
  ReplayResult result{.policy = policy_name(policy), .host_rows = options.host_rows};
  HostSlots host(options.host_rows, 4, policy);  // records play no part
  Dedup dedup;
  LookAhead window;
  std::unordered_set<Id> asked;
  uint64_t told = 0;
  std::vector<Slot> slots;
  std::vector<Slot> victims;
  for (uint64_t b = 0; b < batches.size(); ++b) {
    for (; told < std::min<uint64_t>(batches.size(), b + 1 + options.look_ahead); ++told) {
      LookAhead::Entry entry;
      dedup.run(batches[told], entry.batch);
      slots.resize(entry.batch.unique.size());
      host.find(entry.batch.unique, slots.data());
      const uint64_t number = told + 1;
      window.push(std::move(entry), number, [&](size_t u) {
        if (slots[u] != kNoSlot) {
          host.expect(slots[u], number);
        }
      });
    }
    const LookAhead::Entry entry = window.pop();
    const std::vector<Id>& ids = entry.batch.unique;
    check_fits(entry.batch, options);
    host.advance();
    slots.resize(ids.size());
    host.find(ids, slots.data());
    std::vector<bool> found(ids.size());
    uint64_t missing = 0;
    uint64_t never_asked = 0;
    const auto use = [&](size_t u) {
      host.use(slots[u]);
      if (entry.next[u] != 0) {
        host.expect(slots[u], entry.next[u]);
      }
    };
    for (size_t u = 0; u < ids.size(); ++u) {
      found[u] = slots[u] != kNoSlot;
      if (found[u]) {
        host.pin(slots[u]);
        use(u);
      } else {
        ++missing;
        never_asked += asked.insert(ids[u]).second ? 1 : 0;
      }
    }
    const uint64_t free = host.capacity() - host.used();
    if (missing > free) {
      host.choose_victims(missing - free, victims);
      for (const Slot victim : victims) {
        host.erase(victim);
      }
      result.evictions += b >= options.skip_batches ? victims.size() : 0;
    }
    for (size_t u = 0; u < ids.size(); ++u) {
      if (found[u]) {
        host.unpin(slots[u]);
      } else {
        slots[u] = host.insert(ids[u]);
        use(u);
      }
    }
    if (b >= options.skip_batches) {
      count(result, entry.batch, found);
      result.new_ids += never_asked;
    }
  }
  return result;
}

ReplayResult replay_optimum(std::span<const Id> log, const ReplayOptions& options) {
  check_replay(log, options);
  ReplayResult result{.policy = "optimum", .host_rows = options.host_rows};
  constexpr uint64_t kNever = ~uint64_t{0};
  const uint64_t batches = (log.size() + options.batch - 1) / options.batch;
  std::vector<Batch> all(batches);
  Dedup dedup;
  for (uint64_t b = 0; b < batches; ++b) {
    dedup.run(log.subspan(b * options.batch,
                          std::min<size_t>(options.batch, log.size() - b * options.batch)),
              all[b]);
    check_fits(all[b], options);
  }
  // For each batch and id, the next batch with it that counts: from the end.
  std::vector<std::vector<uint64_t>> next(batches);
  std::unordered_map<Id, uint64_t> seen;
  for (uint64_t b = batches; b-- > 0;) {
    for (const Id id : all[b].unique) {
      const auto it = seen.find(id);
      next[b].push_back(it == seen.end() ? kNever : it->second);
      if (b >= options.skip_batches) {
        seen[id] = b;
      }
    }
  }
  struct Row {
    uint64_t next;
    uint64_t held_by;  // batch
  };
  std::unordered_map<Id, Row> rows;
  std::priority_queue<std::pair<uint64_t, Id>>
      farthest;  // those that no longer say `next` are void
  for (uint64_t b = 0; b < batches; ++b) {
    const std::vector<Id>& ids = all[b].unique;
    std::vector<bool> found(ids.size());
    uint64_t missing = 0;
    for (size_t u = 0; u < ids.size(); ++u) {
      const auto row = rows.find(ids[u]);
      found[u] = row != rows.end();
      missing += found[u] ? 0 : 1;
      if (found[u]) {
        row->second.held_by = b;
      }
    }
    while (rows.size() + missing > options.host_rows) {
      const auto [at, id] = farthest.top();
      farthest.pop();
      const auto row = rows.find(id);
      if (row != rows.end() && row->second.next == at && row->second.held_by != b) {
        rows.erase(row);
        result.evictions += b >= options.skip_batches ? 1 : 0;
      }
    }
    for (size_t u = 0; u < ids.size(); ++u) {
      rows[ids[u]] = {next[b][u], b};
      farthest.emplace(next[b][u], ids[u]);
    }
    if (b >= options.skip_batches) {
      count(result, all[b], found);
    }
  }
  return result;
}

namespace {

// A negative one is an int64, which stands for the uint64 of its bits.
Id id_of(std::string_view text, const std::string& where) {
  Id id = 0;
  int64_t with_sign = 0;
  const bool is_negative = text.starts_with('-');
  const char* const end = text.data() + text.size();
  const auto [stop, error] = is_negative ? std::from_chars(text.data(), end, with_sign)
                                         : std::from_chars(text.data(), end, id);
  if (error != std::errc() || stop != end) {
    throw IoError(
        fmt::format("{}: expected one id, an int64 or a uint64, found \"{}\"", where, text));
  }
  return is_negative ? static_cast<Id>(with_sign) : id;
}

}  // namespace

std::vector<Id> read_id_log(FileSystem& files, const std::string& path) {
  const auto file = files.map(path);
  const std::span<const std::byte> bytes = file->bytes();
  const std::string_view text = as_text(bytes);
  std::vector<Id> out;
  // Ids of 8 bytes that are all printable are above 2^61.
  const bool is_text = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t';
  });
  if (!is_text) {
    if (bytes.size() % 8 != 0) {
      throw IoError(
          fmt::format("{}: neither text with one id a line nor ids of 8 bytes: it has {} bytes",
                      path, bytes.size()));
    }
    out.resize(bytes.size() / 8);
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  size_t line = 0;
  for (const char* at = text.data(); at < text.data() + text.size();) {
    ++line;
    const char* end = std::find(at, text.data() + text.size(), '\n');
    const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
    const char* const first = std::find_if_not(at, end, is_blank);
    const char* last = end;
    while (last > first && is_blank(last[-1])) {
      --last;
    }
    if (last > first) {
      out.push_back(id_of({first, last}, fmt::format("{}:{}", path, line)));
    }
    at = end + 1;
  }
  return out;
}

}  // namespace mstrain::embedding_cache
