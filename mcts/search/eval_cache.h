// Remembers evaluations by position: an evaluator around an evaluator. Least recently used entries are dropped.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "mcts/eval_batch.h"

namespace mstrain::mcts {

// Shards with a lock each, so that threads seldom meet. Keys are hashes: two positions with equal 64-bit hash() would share an
// entry; an entry whose number of actions differs counts as a miss.
class EvalCache {
 public:
  struct Entry {
    std::vector<float> values;
    std::vector<std::pair<uint64_t, float>> priors;  // action, prior
  };

  explicit EvalCache(int64_t capacity, int64_t shards = 16);
  // Copies the entry into `out`; false where there is none.
  bool find(uint64_t key, Entry& out);
  void insert(uint64_t key, Entry entry);
  void clear();
  int64_t size() const;
  int64_t hits() const;
  int64_t misses() const;

 private:
  struct Shard {
    mutable std::mutex mutex;
    std::list<std::pair<uint64_t, Entry>> order;  // most recently used first
    std::unordered_map<uint64_t, std::list<std::pair<uint64_t, Entry>>::iterator> places;
    int64_t hits = 0;
    int64_t misses = 0;
  };
  Shard& shard(uint64_t key) { return shards_[(key >> 48U) % shards_.size()]; }

  int64_t capacity_;  // of each shard
  std::vector<Shard> shards_;
};

// Asks the evaluator only for what the cache does not hold; equal positions of one batch are asked once. The evaluator's
// answer must depend on the state alone. The result of a search does not change, but for which of two equal states is asked.
template <class E>
class CachedEvaluator {
 public:
  static constexpr bool kPriors = gives_priors<E>();
  static constexpr bool kThreads = is_thread_safe<E>();

  CachedEvaluator(E& evaluator, EvalCache& cache) : evaluator_(evaluator), cache_(cache) {}

  template <class S>
  void evaluate(EvalBatch<S>& batch) {
    static_assert(HasHash<S>, "an evaluation cache needs S::hash()");
    std::vector<std::pair<size_t, uint64_t>> asked;  // item, key
    EvalCache::Entry entry;
    for (size_t i = 0; i < batch.items.size(); ++i) {
      const uint64_t key = batch.items[i].state->hash();
      if (!(cache_.find(key, entry) && fill(batch.items[i], entry))) {
        asked.emplace_back(i, key);
      }
    }
    // Seldom more than once: for positions of equal hash() and other actions, as where superko forbids some.
    while (!asked.empty()) {
      std::vector<EvalItem<S>> missing;
      std::unordered_map<uint64_t, size_t> places;  // in `missing`, by key
      for (const auto& [i, key] : asked) {
        if (places.try_emplace(key, missing.size()).second) {
          missing.push_back(batch.items[i]);
        }
      }
      EvalBatch<S> rest{missing};
      evaluator_.evaluate(rest);
      std::vector<EvalCache::Entry> answers;
      for (const EvalItem<S>& item : missing) {
        answers.push_back(read(item));
        cache_.insert(item.state->hash(), answers.back());
      }
      std::erase_if(asked, [&](const auto& each) {
        return fill(batch.items[each.first], answers[places.at(each.second)]);
      });
    }
  }

 private:
  template <class S>
  static EvalCache::Entry read(const EvalItem<S>& item) {
    EvalCache::Entry entry;
    entry.values.assign(item.values.begin(), item.values.end());
    for (size_t a = 0; kPriors && a < item.actions.size(); ++a) {
      entry.priors.emplace_back(static_cast<uint64_t>(item.actions[a]), item.priors[a]);
    }
    return entry;
  }

  // The order of the actions may differ from leaf to leaf.
  template <class S>
  static bool fill(EvalItem<S>& item, const EvalCache::Entry& entry) {
    for (size_t a = 0; kPriors && a < item.actions.size(); ++a) {
      const auto action = static_cast<uint64_t>(item.actions[a]);
      size_t i = a;  // most often it does not
      if (i >= entry.priors.size() || entry.priors[i].first != action) {
        for (i = 0; i < entry.priors.size() && entry.priors[i].first != action; ++i) {
        }
      }
      if (i == entry.priors.size()) {
        return false;
      }
      item.priors[a] = entry.priors[i].second;
    }
    std::copy(entry.values.begin(), entry.values.end(), item.values.begin());
    return true;
  }

  E& evaluator_;
  EvalCache& cache_;
};

}  // namespace mstrain::mcts
