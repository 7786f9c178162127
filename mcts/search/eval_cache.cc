#include "mcts/search/eval_cache.h"

#include "core/base/hash.h"

namespace mstrain::mcts {

EvalCache::EvalCache(int64_t capacity, int64_t shards)
    : capacity_((capacity + shards - 1) / std::max<int64_t>(shards, 1)),
      shards_(static_cast<size_t>(std::max<int64_t>(shards, 1))) {
  check(capacity >= 1 && shards >= 1, "evaluation cache: {} entries in {} shards", capacity,
        shards);
}

bool EvalCache::find(uint64_t key, Entry& out) {
  Shard& s = shard(hash_mix(key));
  const std::lock_guard lock(s.mutex);
  const auto place = s.places.find(key);
  if (place == s.places.end()) {
    ++s.misses;
    return false;
  }
  ++s.hits;
  s.order.splice(s.order.begin(), s.order, place->second);
  out = place->second->second;
  return true;
}

void EvalCache::insert(uint64_t key, Entry entry) {
  Shard& s = shard(hash_mix(key));
  const std::lock_guard lock(s.mutex);
  if (const auto place = s.places.find(key); place != s.places.end()) {
    place->second->second = std::move(entry);
    return;
  }
  s.order.emplace_front(key, std::move(entry));
  s.places[key] = s.order.begin();
  if (static_cast<int64_t>(s.order.size()) > capacity_) {
    s.places.erase(s.order.back().first);
    s.order.pop_back();
  }
}

void EvalCache::clear() {
  for (Shard& s : shards_) {
    const std::lock_guard lock(s.mutex);
    s.order.clear();
    s.places.clear();
  }
}

int64_t EvalCache::size() const {
  int64_t total = 0;
  for (const Shard& s : shards_) {
    const std::lock_guard lock(s.mutex);
    total += static_cast<int64_t>(s.order.size());
  }
  return total;
}

int64_t EvalCache::hits() const {
  int64_t total = 0;
  for (const Shard& s : shards_) {
    const std::lock_guard lock(s.mutex);
    total += s.hits;
  }
  return total;
}

int64_t EvalCache::misses() const {
  int64_t total = 0;
  for (const Shard& s : shards_) {
    const std::lock_guard lock(s.mutex);
    total += s.misses;
  }
  return total;
}

}  // namespace mstrain::mcts
