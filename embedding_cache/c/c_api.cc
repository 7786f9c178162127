#include "embedding_cache/c/c_api.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>

#include "core/base/error.h"
#include "embedding_cache/cache.h"

using mstrain::embedding_cache::Cache;
using mstrain::embedding_cache::GradientsOf;
using mstrain::embedding_cache::Ticket;
using mstrain::embedding_cache::Use;

struct ec_cache {
  Cache cache;
};
struct ec_ticket {
  Ticket ticket;
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

std::string describe(Cache& cache, const std::string& what) {
  if (what == "stats") {
    return mstrain::embedding_cache::print_stats_json(cache.stats());
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
    return mstrain::embedding_cache::print_options(cache.options());
  }
  if (what.starts_with("width ")) {
    return std::to_string(cache.layout(cache.table(what.substr(6))).width());
  }
  mstrain::fail(
      "ec_describe: \"{}\": expected stats, digest, blob, commit, step, options, width NAME", what);
}

}  // namespace

ec_cache* ec_open(const char* options, uint64_t commit) {
  ec_cache* out = nullptr;
  guarded([&] {
    mstrain::check(options != nullptr, "ec_open: options are NULL");
    out = new ec_cache{
        Cache::resume(mstrain::embedding_cache::parse_options(options, "options"), commit)};
  });
  return out;
}

void ec_close(ec_cache* cache) { delete cache; }

ec_ticket* ec_prefetch(ec_cache* cache, const char* table, const uint64_t* ids, size_t count,
                       uint64_t step, int training) {
  ec_ticket* out = nullptr;
  guarded([&] {
    mstrain::check(cache != nullptr && table != nullptr && (ids != nullptr || count == 0),
                   "ec_prefetch: cache, table or ids are NULL");
    out = new ec_ticket{cache->cache.prefetch(cache->cache.table(table), {ids, count}, step,
                                              training != 0 ? Use::kTrain : Use::kRead)};
  });
  return out;
}

int ec_wait(ec_cache* cache, ec_ticket* ticket) {
  return guarded([&] {
    mstrain::check(cache != nullptr && ticket != nullptr, "ec_wait: cache or ticket are NULL");
    cache->cache.wait(ticket->ticket);
  });
}

int ec_gather(ec_cache* cache, const ec_ticket* ticket, float* out, size_t stride) {
  return guarded([&] {
    mstrain::check(cache != nullptr && ticket != nullptr && out != nullptr,
                   "ec_gather: cache, ticket or out are NULL");
    cache->cache.gather(ticket->ticket, out, stride);
  });
}

int ec_update(ec_cache* cache, ec_ticket* ticket, const float* gradients, size_t floats,
              float lr_scale) {
  return guarded([&] {
    mstrain::check(cache != nullptr && ticket != nullptr && (gradients != nullptr || floats == 0),
                   "ec_update: cache, ticket or gradients are NULL");
    cache->cache.update(ticket->ticket, {gradients, floats}, GradientsOf::kPositions, lr_scale);
  });
}

int ec_release(ec_cache* cache, ec_ticket* ticket) {
  const int result = guarded([&] {
    mstrain::check(cache != nullptr && ticket != nullptr, "ec_release: cache or ticket are NULL");
    cache->cache.release(std::move(ticket->ticket));
  });
  delete ticket;
  return result;
}

int ec_commit(ec_cache* cache, uint64_t step, const void* blob, size_t blob_bytes,
              uint64_t* commit) {
  return guarded([&] {
    mstrain::check(cache != nullptr && (blob != nullptr || blob_bytes == 0),
                   "ec_commit: cache or blob are NULL");
    const uint64_t id =
        cache->cache.commit_step(step, {static_cast<const std::byte*>(blob), blob_bytes});
    if (commit != nullptr) {
      *commit = id;
    }
  });
}

int ec_export_delta(ec_cache* cache, uint64_t since, const char* path, int weights_only) {
  return guarded([&] {
    mstrain::check(cache != nullptr && path != nullptr, "ec_export_delta: cache or path are NULL");
    cache->cache.export_delta(since, path, weights_only == 0);
  });
}

int64_t ec_describe(ec_cache* cache, const char* what, char* out, size_t capacity) {
  std::string text;
  const int result = guarded([&] {
    mstrain::check(what != nullptr && (out != nullptr || capacity == 0),
                   "ec_describe: what or out are NULL");
    if (std::strcmp(what, "error") == 0) {
      text = last_error();
      return;
    }
    mstrain::check(cache != nullptr, "ec_describe: cache is NULL");
    text = describe(cache->cache, what);
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
