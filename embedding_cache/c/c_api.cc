#include "embedding_cache/c/c_api.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "embedding_cache/cache.h"
#include "embedding_cache/reader.h"

namespace ec = mstrain::embedding_cache;

struct ec_cache {
  ec::Cache cache;
};
struct ec_ticket {
  ec::Ticket ticket;
};
struct ec_reader {
  ec::Reader reader;
};

namespace {

std::string& last_error() {
  thread_local std::string text;
  return text;
}

// No exception crosses into C.
template <class F>
int guarded(F&& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    last_error() = error.what();
  } catch (...) {
    last_error() = "unknown error";
  }
  return -1;
}

// The name of the function and that none of its pointers may be null.
void require(const char* function, std::initializer_list<bool> given) {
  mstrain::check(std::all_of(given.begin(), given.end(), [](bool here) { return here; }),
                 "{}: an argument is NULL", function);
}

std::span<const std::byte> blob_of(const void* blob, size_t bytes) {
  return {static_cast<const std::byte*>(blob), bytes};
}

// Bags from plain arrays.
class PlainBags {
 public:
  PlainBags(const ec::Ticket& ticket, const uint64_t* offsets, size_t count, int pooling,
            const float* weights) {
    mstrain::check(pooling >= 0 && pooling <= 2, "embedding_cache: pooling {}: expected 0, 1 or 2",
                   pooling);
    for (const uint64_t offset : std::span(offsets, count + 1)) {
      mstrain::check(offset <= ticket.positions(),
                     "embedding_cache: an offset of {} where there are {} positions", offset,
                     ticket.positions());
      offsets_.push_back(static_cast<uint32_t>(offset));
    }
    bags = {.offsets = offsets_, .pooling = static_cast<ec::Pooling>(pooling)};
    if (weights != nullptr) {
      bags.weights = {weights, ticket.positions()};
    }
  }
  ec::Bags bags;

 private:
  std::vector<uint32_t> offsets_;
};

std::string describe(ec::Cache& cache, const std::string& what) {
  if (what == "stats") {
    return print_stats_json(cache.stats());
  }
  if (what == "digest") {
    return cache.digest();
  }
  if (what == "blob") {
    return std::string(mstrain::as_text(cache.user_blob()));
  }
  if (what == "commit") {
    return std::to_string(cache.last_commit());
  }
  if (what == "step") {
    return std::to_string(cache.last_step());
  }
  if (what == "options") {
    return print_options(cache.options());
  }
  if (what.starts_with("width ")) {
    return std::to_string(cache.layout(cache.table(what.substr(6))).width());
  }
  mstrain::fail(
      "ec_describe: \"{}\": expected stats, digest, blob, commit, step, options, width NAME", what);
}

std::string describe(ec::Reader& reader, const std::string& what) {
  if (what == "stats") {
    const ec::ReaderStats stats = reader.stats();
    const mstrain::OrderedJson json = {{"lookups", stats.lookups},
                                       {"hits", stats.hits},
                                       {"missing", stats.missing},
                                       {"delta_rows", stats.delta_rows}};
    return json.dump();
  }
  if (what == "commit") {
    return std::to_string(reader.commit());
  }
  if (what == "step") {
    return std::to_string(reader.step());
  }
  if (what.starts_with("width ")) {
    return std::to_string(reader.width(reader.table(what.substr(6))));
  }
  mstrain::fail("ec_reader_describe: \"{}\": expected stats, commit, step, width NAME", what);
}

// Makes a text and copies it out.
template <class F>
int64_t copy_out(char* out, size_t capacity, F&& make) {
  std::string text;
  const int result = guarded([&] {
    mstrain::check(out != nullptr || capacity == 0, "ec_describe: out is NULL");
    text = make();
  });
  if (result != 0) {
    return -1;
  }
  if (capacity > 0) {
    const size_t length = std::min(text.size(), capacity - 1);
    std::memcpy(out, text.data(), length);
    out[length] = '\0';
  }
  return static_cast<int64_t>(text.size());
}

}  // namespace

ec_cache* ec_open(const char* options, uint64_t commit) {
  ec_cache* out = nullptr;
  guarded([&] {
    require("ec_open", {options != nullptr});
    out = new ec_cache{ec::Cache::resume(ec::parse_options(options, "options"), commit)};
  });
  return out;
}

void ec_close(ec_cache* cache) { delete cache; }

int ec_announce(ec_cache* cache, const char* table, const uint64_t* ids, size_t count) {
  return guarded([&] {
    require("ec_announce", {cache != nullptr, table != nullptr, ids != nullptr || count == 0});
    cache->cache.announce(cache->cache.table(table), {ids, count});
  });
}

ec_ticket* ec_prefetch(ec_cache* cache, const char* table, const uint64_t* ids, size_t count,
                       uint64_t step, int training) {
  ec_ticket* out = nullptr;
  guarded([&] {
    require("ec_prefetch", {cache != nullptr, table != nullptr, ids != nullptr || count == 0});
    out = new ec_ticket{cache->cache.prefetch(cache->cache.table(table), {ids, count}, step,
                                              training != 0 ? ec::Use::kTrain : ec::Use::kRead)};
  });
  return out;
}

int ec_wait(ec_cache* cache, ec_ticket* ticket) {
  return guarded([&] {
    require("ec_wait", {cache != nullptr, ticket != nullptr});
    cache->cache.wait(ticket->ticket);
  });
}

int ec_gather(ec_cache* cache, const ec_ticket* ticket, float* out, size_t stride) {
  return guarded([&] {
    require("ec_gather", {cache != nullptr, ticket != nullptr, out != nullptr});
    cache->cache.gather(ticket->ticket, out, stride);
  });
}

int ec_update(ec_cache* cache, ec_ticket* ticket, const float* gradients, size_t floats,
              float lr_scale) {
  return guarded([&] {
    require("ec_update",
            {cache != nullptr, ticket != nullptr, gradients != nullptr || floats == 0});
    cache->cache.update(ticket->ticket, {gradients, floats}, ec::GradientsOf::kPositions, lr_scale);
  });
}

int ec_gather_bags(ec_cache* cache, const ec_ticket* ticket, const uint64_t* offsets, size_t bags,
                   int pooling, const float* weights, float* out, size_t stride) {
  return guarded([&] {
    require("ec_gather_bags",
            {cache != nullptr, ticket != nullptr, offsets != nullptr, out != nullptr || bags == 0});
    const PlainBags plain(ticket->ticket, offsets, bags, pooling, weights);
    cache->cache.gather(ticket->ticket, plain.bags, out, stride);
  });
}

int ec_update_bags(ec_cache* cache, ec_ticket* ticket, const uint64_t* offsets, size_t bags,
                   int pooling, const float* weights, const float* gradients, size_t floats,
                   float lr_scale) {
  return guarded([&] {
    require("ec_update_bags", {cache != nullptr, ticket != nullptr, offsets != nullptr,
                               gradients != nullptr || floats == 0});
    const PlainBags plain(ticket->ticket, offsets, bags, pooling, weights);
    mstrain::check(bags > 0 ? floats % bags == 0 : floats == 0,
                   "embedding_cache: update: {} floats are no rows of {} bags", floats, bags);
    const ec::BagGradients of{plain.bags, gradients, floats / std::max<size_t>(1, bags)};
    cache->cache.update(ticket->ticket, std::span(&of, 1), lr_scale);
  });
}

int ec_release(ec_cache* cache, ec_ticket* ticket) {
  const int result = guarded([&] {
    require("ec_release", {cache != nullptr, ticket != nullptr});
    cache->cache.release(std::move(ticket->ticket));
  });
  delete ticket;
  return result;
}

int ec_commit(ec_cache* cache, uint64_t step, const void* blob, size_t blob_bytes,
              uint64_t* commit) {
  return guarded([&] {
    require("ec_commit", {cache != nullptr, blob != nullptr || blob_bytes == 0});
    const uint64_t id = cache->cache.commit_step(step, blob_of(blob, blob_bytes));
    if (commit != nullptr) {
      *commit = id;
    }
  });
}

int ec_start_commit(ec_cache* cache, uint64_t step, const void* blob, size_t blob_bytes,
                    uint64_t* commit) {
  return guarded([&] {
    require("ec_start_commit",
            {cache != nullptr, commit != nullptr, blob != nullptr || blob_bytes == 0});
    *commit = cache->cache.start_commit(step, blob_of(blob, blob_bytes));
  });
}

int ec_wait_commit(ec_cache* cache, uint64_t commit) {
  return guarded([&] {
    require("ec_wait_commit", {cache != nullptr});
    cache->cache.wait_commit(commit);
  });
}

int ec_confirm_commit(ec_cache* cache, uint64_t commit) {
  return guarded([&] {
    require("ec_confirm_commit", {cache != nullptr});
    cache->cache.commit(commit);
  });
}

int ec_evict(ec_cache* cache, uint64_t step, uint64_t* rows) {
  return guarded([&] {
    require("ec_evict", {cache != nullptr});
    const uint64_t forgotten = cache->cache.evict(step);
    if (rows != nullptr) {
      *rows = forgotten;
    }
  });
}

int ec_export_delta(ec_cache* cache, uint64_t since, const char* path, int weights_only) {
  return guarded([&] {
    require("ec_export_delta", {cache != nullptr, path != nullptr});
    cache->cache.export_delta(since, path, weights_only == 0);
  });
}

int ec_import_delta(ec_cache* cache, const char* path) {
  return guarded([&] {
    require("ec_import_delta", {cache != nullptr, path != nullptr});
    cache->cache.import_delta(path);
  });
}

int64_t ec_describe(ec_cache* cache, const char* what, char* out, size_t capacity) {
  return copy_out(out, capacity, [&] {
    require("ec_describe", {what != nullptr});
    if (std::strcmp(what, "error") == 0) {
      return last_error();
    }
    require("ec_describe", {cache != nullptr});
    return describe(cache->cache, what);
  });
}

ec_reader* ec_reader_open(const char* directory, uint64_t commit, uint64_t host_rows,
                          int read_threads) {
  ec_reader* out = nullptr;
  guarded([&] {
    require("ec_reader_open", {directory != nullptr});
    out = new ec_reader{ec::Reader::open({.directory = directory,
                                          .commit = commit,
                                          .host_rows = host_rows,
                                          .read_threads = read_threads})};
  });
  return out;
}

void ec_reader_close(ec_reader* reader) { delete reader; }

int ec_reader_lookup(ec_reader* reader, const char* table, const uint64_t* ids, size_t count,
                     float* out, size_t stride, uint8_t* found) {
  return guarded([&] {
    require("ec_reader_lookup", {reader != nullptr, table != nullptr,
                                 (ids != nullptr && out != nullptr) || count == 0});
    const uint32_t index = reader->reader.table(table);
    if (found == nullptr) {
      reader->reader.lookup(index, {ids, count}, out, stride);
      return;
    }
    const auto there = std::make_unique<bool[]>(count);
    reader->reader.lookup(index, {ids, count}, out, stride, there.get());
    std::copy_n(there.get(), count, found);
  });
}

int ec_reader_apply_delta(ec_reader* reader, const char* path) {
  return guarded([&] {
    require("ec_reader_apply_delta", {reader != nullptr, path != nullptr});
    reader->reader.apply_delta(path);
  });
}

int ec_reader_move_to(ec_reader* reader, uint64_t commit, int* moved) {
  return guarded([&] {
    require("ec_reader_move_to", {reader != nullptr});
    const bool did = reader->reader.move_to(commit);
    if (moved != nullptr) {
      *moved = did ? 1 : 0;
    }
  });
}

int64_t ec_reader_describe(ec_reader* reader, const char* what, char* out, size_t capacity) {
  return copy_out(out, capacity, [&] {
    require("ec_reader_describe", {reader != nullptr, what != nullptr});
    return describe(reader->reader, what);
  });
}
