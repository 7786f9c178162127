// Random prefetches, updates, releases, reads, evictions, commits and deaths against a plain map, from printed seeds: some hundred, with
// MSTRAIN_LONG_TESTS for an hour or so, or for MSTRAIN_STRESS_SECONDS; from seed MSTRAIN_STRESS_SEED on.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "embedding_cache/cache.h"
#include "embedding_cache/delta.h"
#include "tests/amount.h"
#include "tests/embedding_cache/temp_directory.h"

namespace mstrain::embedding_cache {
namespace {

struct Row {
  std::vector<std::byte> record;
};
using Model = std::map<Id, Row>;

class Stress {
 public:
  Stress(uint64_t seed, StoreKind store) : rng_(seed) {
    options_.directory = directory_.path();
    options_.seed = seed;
    options_.store.kind = store;
    options_.store.read_threads = 3;
    options_.store.write_back_rows = static_cast<uint32_t>(1 + rng_.below(40));
    options_.threads = 1 + static_cast<int>(rng_.below(2));
    options_.keep = 1 + static_cast<int>(rng_.below(3));
    options_.wait_seconds = 60;
    TableOptions table{.name = "t", .host_rows = 60 + rng_.below(200)};
    table.policy = static_cast<Policy>(rng_.below(3));
    table.segments = {{.width = 3, .optimizer = {.kind = OptimizerKind::kLazyAdam}},
                      {.width = 1, .optimizer = {.kind = OptimizerKind::kRowwiseAdagrad}}};
    table.eviction = {.ttl_steps = 20, .min_keep_rows = 30};
    options_.tables = {table};
    cache_.emplace(Cache::open(options_));
  }

  void step() {
    switch (rng_.below(12)) {
      case 0: return commit();
      case 1: return die();
      case 2: return evict();
      case 3: return rng_.below(8) == 0 ? await_commit() : read();
      case 4: return rng_.below(2) == 0 ? announce() : rng_.below(6) == 0 ? delta() : abandon();
      case 5:
      case 6:
      case 7:
      case 8: return prefetch();
      default: return learn();
    }
  }
  void finish() {
    while (!tickets_.empty()) {
      learn();
    }
    compare_all();
  }

 private:
  struct Pending {
    Ticket ticket;
    std::vector<Id> ids;
    uint64_t step;
  };

  std::vector<Id> random_batch() {
    std::vector<Id> ids(1 + rng_.below(30));
    for (Id& id : ids) {
      const double u = rng_.uniform();
      id = static_cast<Id>(u * u * 600) * 0x1234567;
    }
    return ids;
  }
  std::vector<std::byte> expected(Id id) const {
    const auto known = model_.find(id);
    if (known != model_.end()) {
      return known->second.record;
    }
    std::vector<std::byte> record(cache_->layout(0).record_bytes());
    cache_->layout(0).initialise(table_seed(options_.seed, "t"), id, record.data());
    return record;
  }

  void announce() {
    if (announced_.size() < 4) {
      announced_.push_back(random_batch());
      cache_->announce(0, announced_.back());
    }
  }
  // Given up before its rows have come.
  void abandon() {
    if (!tickets_.empty()) {
      cache_->release(std::move(tickets_.back().ticket));
      tickets_.pop_back();
    }
  }
  void prefetch() {
    std::vector<Id> ids = announced_.empty() ? random_batch() : announced_.front();
    try {
      Ticket ticket = cache_->prefetch(0, ids, next_step_);
      tickets_.push_back({std::move(ticket), std::move(ids), next_step_});
    } catch (const IoError&) {
      throw;
    } catch (const Error& error) {
      ASSERT_NE(std::string(error.what()).find("does not fit"), std::string::npos) << error.what();
      ASSERT_FALSE(tickets_.empty()) << "30 ids fit into an empty cache";
      return;
    }
    if (!announced_.empty()) {
      announced_.pop_front();
    }
    ++next_step_;
  }
  void check_rows(const Ticket& ticket, const std::vector<Id>& ids) {
    const size_t width = cache_->layout(0).width();
    std::vector<float> out(ids.size() * width);
    cache_->gather(ticket, out.data(), width);
    for (size_t i = 0; i < ids.size(); ++i) {
      const std::vector<std::byte> record = expected(ids[i]);
      ASSERT_EQ(std::memcmp(&out[i * width], weights_of(record.data()), width * 4), 0)
          << "id " << ids[i];
    }
  }
  void read() {
    const std::vector<Id> ids = random_batch();
    if (!tickets_.empty()) {
      return;  // the model knows no half-learned state
    }
    Ticket ticket = cache_->prefetch(0, ids, next_step_, Use::kRead);
    cache_->wait(ticket);
    check_rows(ticket, ids);
    cache_->release(std::move(ticket));
  }
  void learn() {
    if (tickets_.empty()) {
      return;
    }
    Pending pending = std::move(tickets_.front());
    tickets_.pop_front();
    cache_->wait(pending.ticket);
    check_rows(pending.ticket, pending.ids);
    if (rng_.below(10) == 0) {
      cache_->release(std::move(pending.ticket));  // a batch that is skipped
      return;
    }
    const size_t width = cache_->layout(0).width();
    std::vector<float> gradients(pending.ids.size() * width);
    for (float& g : gradients) {
      g = static_cast<float>(rng_.uniform(-1, 1));
    }
    // The model: sum by id in the order of positions, then the update types one row at a time.
    std::map<Id, std::vector<float>> sums;
    for (size_t i = 0; i < pending.ids.size(); ++i) {
      auto [sum, fresh] = sums.try_emplace(pending.ids[i], width, 0.0F);
      for (size_t j = 0; j < width; ++j) {
        sum->second[j] =
            fresh ? gradients[i * width + j] : sum->second[j] + gradients[i * width + j];
      }
    }
    const LazyAdam adam{0.01F, 0.9F, 0.999F, 1e-8F};
    const RowwiseAdagrad adagrad{0.01F, 1e-8F};
    for (const auto& [id, sum] : sums) {
      Row row{expected(id)};
      float* f = weights_of(row.record.data());
      adam.at(pending.step)(f, f + 4, sum.data(), 3);
      adagrad.at(pending.step)(f + 3, f + 10, sum.data() + 3, 1);
      const RowHeader header = load_header(row.record.data());
      store_header(row.record.data(),
                   {.step = static_cast<uint32_t>(pending.step), .updates = header.updates + 1});
      model_[id] = std::move(row);
    }
    if (rng_.below(2) == 0) {
      cache_->update(pending.ticket, gradients, adam, adagrad);
    } else {
      cache_->update(pending.ticket, gradients);
    }
    cache_->release(std::move(pending.ticket));
  }
  void drain() {
    while (!tickets_.empty()) {
      learn();
    }
  }
  void commit() {
    if (rng_.below(3) != 0) {
      return;
    }
    drain();
    if (rng_.below(2) == 0) {
      cache_->commit_step(next_step_ - 1);
      started_ = 0;
    } else {
      started_ = cache_->start_commit(next_step_ - 1);
    }
    committed_ = model_;
    committed_step_ = next_step_ - 1;
  }
  void await_commit() {
    if (started_ != 0) {
      cache_->commit(std::exchange(started_, 0));
      ASSERT_EQ(cache_->last_step(), committed_step_);
    }
  }
  // Closing without a commit is what a kill leaves: the live store is disposable. A commit that was started is ended.
  void die() {
    if (rng_.below(6) != 0) {
      return;
    }
    for (Pending& pending : tickets_) {
      cache_->release(std::move(pending.ticket));
    }
    tickets_.clear();
    announced_.clear();
    started_ = 0;
    cache_.reset();
    cache_.emplace(Cache::open(options_));
    model_ = committed_;
    next_step_ = committed_step_ + 1;
    compare_all();
  }
  void evict() {
    if (rng_.below(6) != 0) {
      return;
    }
    drain();
    const uint64_t now = next_step_ - 1;
    std::vector<std::pair<uint32_t, Id>> old;
    for (const auto& [id, row] : model_) {
      const uint32_t step = load_header(row.record.data()).step;
      if (step + 20 <= now) {
        old.emplace_back(step, id);
      }
    }
    std::sort(old.begin(), old.end());
    old.resize(std::min(old.size(), model_.size() - std::min<size_t>(model_.size(), 30)));
    for (const auto& [step, id] : old) {
      model_.erase(id);
    }
    ASSERT_EQ(cache_->evict(now), old.size());
  }
  // What has changed since the newest commit.
  void delta() {
    await_commit();
    if (committed_step_ == 0) {
      return;
    }
    drain();
    const std::string path = directory_ / "delta";
    cache_->export_delta(cache_->last_commit(), path);
    Model rows;
    std::set<Id> gone;
    DeltaReader(real_files(), path)
        .read([&](uint32_t, std::span<const Id> ids, const std::byte* records) {
          for (size_t i = 0; i < ids.size(); ++i) {
            if (records == nullptr) {
              gone.insert(ids[i]);
            } else {
              const std::byte* record = records + i * cache_->layout(0).record_bytes();
              rows[ids[i]].record.assign(record, record + cache_->layout(0).record_bytes());
            }
          }
        });
    std::filesystem::remove(path);
    for (const auto& [id, row] : model_) {
      const bool changed = load_header(row.record.data()).step > committed_step_;
      ASSERT_EQ(rows.count(id), changed ? 1 : 0) << "id " << id;
      ASSERT_TRUE(!changed || rows[id].record == row.record) << "id " << id;
      ASSERT_EQ(gone.count(id), 0) << "id " << id;
    }
    for (const auto& [id, row] : rows) {
      ASSERT_EQ(model_.count(id), 1) << "id " << id << " was forgotten";
    }
    for (const auto& [id, row] : committed_) {
      ASSERT_TRUE(model_.count(id) == 1 || gone.count(id) == 1)
          << "id " << id << " lacks a tombstone";
    }
  }
  void compare_all() {
    auto row = model_.begin();
    cache_->scan(0, [&](Id id, const std::byte* record) {
      ASSERT_NE(row, model_.end());
      ASSERT_EQ(id, row->first);
      ASSERT_EQ(std::memcmp(record, row->second.record.data(), row->second.record.size()), 0) << id;
      ++row;
    });
    ASSERT_EQ(row, model_.end());
    ASSERT_EQ(cache_->stats().tables[0].rows, model_.size());
  }

  Rng rng_;
  TempDirectory directory_;
  Options options_;
  std::optional<Cache> cache_;
  std::deque<Pending> tickets_;
  std::deque<std::vector<Id>> announced_;
  Model model_;
  Model committed_;
  uint64_t next_step_ = 1;
  uint64_t committed_step_ = 0;
  CommitId started_ = 0;
};

TEST(Stress, RandomUseEqualsAPlainMap) {
  const char* wanted = std::getenv("MSTRAIN_STRESS_SECONDS");
  const auto count = static_cast<uint64_t>(repetitions(160, 20000));
  const auto start = std::chrono::steady_clock::now();
  const auto goes_on = [&](uint64_t tried) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    return wanted == nullptr ? tried < count : elapsed.count() < std::atof(wanted);
  };
  const char* start_seed = std::getenv("MSTRAIN_STRESS_SEED");
  const uint64_t first = start_seed == nullptr ? 1000 : std::strtoull(start_seed, nullptr, 10);
  uint64_t seed = first;
  for (; goes_on(seed - first); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Stress stress(seed, has_rocksdb() && seed % 4 == 0 ? StoreKind::kRocksdb : StoreKind::kMemory);
    for (int i = 0; i < 1500 && !HasFatalFailure(); ++i) {
      stress.step();
    }
    if (HasFatalFailure()) {
      return;
    }
    stress.finish();
    if (HasFatalFailure()) {
      return;
    }
  }
  fmt::print("seeds {} to {}\n", first, seed - 1);
}

}  // namespace
}  // namespace mstrain::embedding_cache
