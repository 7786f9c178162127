// Rows that learn at every step (optimizer.l2_of: table) against a plain loop over all of them.
#include "embedding_cache/past.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <thread>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "embedding_cache/reader.h"
#include "tests/embedding_cache/stores.h"
#include "tests/embedding_cache/temp_directory.h"

namespace mstrain::embedding_cache {
namespace {

constexpr uint64_t kIds = 60;
constexpr uint64_t kSteps = 25;
constexpr uint64_t kSkipped = 7;  // a step at which nobody learns
constexpr uint32_t kVector = 3;
constexpr uint32_t kWidth = kVector + 1;
constexpr OptimizerKind kAlways[] = {OptimizerKind::kSgd, OptimizerKind::kAdagrad,
                                     OptimizerKind::kRowwiseAdagrad, OptimizerKind::kLazyAdam};

Options options_of(const std::string& directory, OptimizerKind kind, StoreKind store,
                   uint64_t host_rows) {
  Options options;
  options.directory = directory;
  options.store.kind = store;
  options.threads = 2;
  options.check_shadow = true;
  TableOptions table{.name = "t", .host_rows = host_rows};
  table.segments.push_back(
      {.width = kVector,
       .optimizer = {.kind = kind, .lr = 0.05F, .l2 = 0.3F, .l2_of = L2Of::kTable},
       .init = {.scale = 1}});
  table.segments.push_back({.width = 1, .optimizer = {.kind = OptimizerKind::kFtrl, .lr = 0.1F}});
  options.tables.push_back(table);
  return options;
}

std::vector<Id> ids_at(uint64_t step) {
  Rng rng(5, step);
  std::vector<Id> ids(8);
  std::generate(ids.begin(), ids.end(), [&] { return rng.below(kIds); });
  return ids;
}

std::vector<float> gradients_at(uint64_t step) {
  Rng rng(6, step);
  std::vector<float> gradients(8 * kWidth);
  std::generate(gradients.begin(), gradients.end(),
                [&] { return static_cast<float>(rng.normal()); });
  return gradients;
}

float lr_scale_at(uint64_t step) { return 1 / (1 + 0.1F * static_cast<float>(step)); }

// All rows, of which each learns at each step.
class Dense {
 public:
  explicit Dense(const Options& options) : options_(options.tables[0]), layout_(options_) {
    for (Id id = 0; id < kIds; ++id) {
      records_.emplace_back(layout_.record_bytes());
      layout_.initialise(table_seed(options.seed, "t"), id, records_.back().data());
    }
  }

  std::vector<float> row(Id id) const {
    const float* const weights = weights_of(records_[id].data());
    return {weights, weights + kWidth};
  }

  void learn(uint64_t step) {
    std::map<Id, std::vector<float>> sums;
    const std::vector<Id> ids = ids_at(step);
    const std::vector<float> gradients = gradients_at(step);
    for (size_t p = 0; p < ids.size(); ++p) {
      const auto [at, is_first] = sums.try_emplace(ids[p], kWidth, 0.0F);
      for (uint32_t i = 0; i < kWidth; ++i) {
        const float g = gradients[p * kWidth + i];
        at->second[i] = is_first ? g : at->second[i] + g;
      }
    }
    const OptimizerOptions& o = options_.segments[0].optimizer;
    const float lr = o.lr * lr_scale_at(step);
    for (Id id = 0; id < kIds; ++id) {
      float* const floats = weights_of(records_[id].data());
      const auto sum = sums.find(id);
      const std::vector<float> g = sum == sums.end() ? std::vector<float>(kWidth) : sum->second;
      float* const state = floats + layout_.parts()[0].state;
      switch (o.kind) {
        case OptimizerKind::kSgd: Sgd{lr, o.l2}(floats, state, g.data(), kVector); break;
        case OptimizerKind::kAdagrad:
          Adagrad{lr, o.eps, o.l2}(floats, state, g.data(), kVector);
          break;
        case OptimizerKind::kRowwiseAdagrad:
          RowwiseAdagrad{lr, o.eps, o.l2}(floats, state, g.data(), kVector);
          break;
        default:
          LazyAdam{lr, o.beta1, o.beta2, o.eps, o.l2}.at(step)(floats, state, g.data(), kVector);
      }
      if (sum != sums.end()) {
        Ftrl{.lr = 0.1F}(floats + kVector, floats + layout_.parts()[1].state, g.data() + kVector,
                         1);
      }
    }
  }

 private:
  TableOptions options_;
  RowLayout layout_;
  std::vector<std::vector<std::byte>> records_;
};

TEST(Past, ARowMayHaveMissedThousandsOfSteps) {
  for (const OptimizerKind kind : kAlways) {
    const Options options = options_of("", kind, StoreKind::kMemory, 0);
    const RowLayout layout(options.tables[0]);
    std::vector<std::byte> once(layout.record_bytes());
    layout.initialise(table_seed(options.seed, "t"), 3, once.data());
    std::vector<std::byte> each = once;
    const auto catch_up = [](const Past& past, std::vector<std::byte>& record) {
      std::byte* const at = record.data();
      past.catch_up(std::span(&at, 1));
    };
    Past past(layout);
    for (uint32_t step = 1; step <= 2500; ++step) {
      past.add({step, lr_scale_at(step)});
      catch_up(past, each);
    }
    catch_up(past, once);
    EXPECT_EQ(once, each);
  }
}

void expect_rows(Cache& cache, std::span<const Id> ids, uint64_t step, const Dense& dense) {
  Ticket ticket = cache.prefetch(0, ids, step, Use::kRead);
  cache.wait(ticket);
  std::vector<float> out(ids.size() * kWidth);
  cache.gather(ticket, out.data(), kWidth);
  std::vector<const float*> rows;
  cache.rows(ticket, rows);
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::vector<float> expected = dense.row(ids[i]);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), out.data() + i * kWidth))
        << "id " << ids[i] << ", step " << step;
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), rows[ticket.inverse()[i]]));
  }
  cache.release(std::move(ticket));
}

// Steps after the newest commit up to `last`.
void train(Cache& cache, Dense& dense, uint64_t last) {
  for (uint64_t step = cache.last_step() + 1; step <= last; ++step) {
    const std::vector<Id> ids = ids_at(step);
    expect_rows(cache, ids, step, dense);
    Ticket ticket = cache.prefetch(0, ids, step);
    cache.wait(ticket);
    if (step != kSkipped) {
      if (step % 2 == 0) {  // who reads nothing learns no less
        std::vector<float> out(ids.size() * kWidth);
        cache.gather(ticket, out.data(), kWidth);
        const std::vector<float> first = dense.row(ids[0]);
        EXPECT_TRUE(std::equal(first.begin(), first.end(), out.data()));
      }
      cache.update(ticket, gradients_at(step), GradientsOf::kPositions, lr_scale_at(step));
      dense.learn(step);
    }
    cache.release(std::move(ticket));
  }
}

TEST(Past, RowsHaveTheBitsOfATableWhoseRowsAllLearnAtEveryStep) {
  for (const OptimizerKind kind : kAlways) {
    std::string digest;
    for (const StoreKind store : stores()) {
      for (const uint64_t host_rows : {uint64_t{16}, kIds}) {
        SCOPED_TRACE(fmt::format("optimizer {} store {} host_rows {}", static_cast<int>(kind),
                                 static_cast<int>(store), host_rows));
        const TempDirectory directory;
        const Options options = options_of(directory.path(), kind, store, host_rows);
        Dense dense(options);
        {
          Cache cache = Cache::open(options);
          train(cache, dense, 12);
          cache.start_commit(12);
          for (uint64_t step = 13; step <= 15;
               ++step) {  // lost; rows change while they are written
            Ticket ticket = cache.prefetch(0, ids_at(step), step);
            cache.wait(ticket);
            cache.update(ticket, gradients_at(step));
            cache.release(std::move(ticket));
          }
        }
        Cache cache = Cache::open(options);
        train(cache, dense, kSteps);
        const CommitId commit = cache.commit_step(kSteps);
        const Reader reader = Reader::open({.directory = directory.path(), .commit = commit});
        for (Id id = 0; id < kIds; ++id) {
          expect_rows(cache, std::span(&id, 1), kSteps + 1, dense);
          std::vector<float> served(kWidth);
          for (int time = 0; time < 2; ++time) {  // from the store, from memory
            reader.lookup(0, std::span(&id, 1), served.data(), kWidth);
            EXPECT_EQ(served, dense.row(id)) << "id " << id;
          }
        }
        uint64_t scanned = 0;
        cache.scan(0, [&](Id id, const std::byte* record) {
          std::vector<float> weights(kWidth);
          std::memcpy(weights.data(), record + kHeaderBytes, kWidth * sizeof(float));
          EXPECT_EQ(weights, dense.row(id)) << "id " << id;
          ++scanned;
        });
        EXPECT_GT(scanned, kIds / 2);
        digest = digest.empty() ? cache.digest() : digest;
        EXPECT_EQ(cache.digest(), digest);
      }
    }
  }
}

// Half of the rows are in the batches, and with gradients of zero all stay equal.
TEST(Past, AGatherBesideTrainingIsOfOneStep) {
  constexpr size_t kRows = 400;
  Options options = options_of("", OptimizerKind::kSgd, StoreKind::kMemory, kRows);
  options.check_shadow = false;
  options.tables[0].segments.resize(1);
  options.tables[0].segments[0].init = {.kind = InitKind::kConstant, .scale = 1};
  options.tables[0].segments[0].optimizer.l2 = 1e-3F;  // they differ from step to step to the end
  Cache cache = Cache::open(options);
  std::vector<Id> ids(kRows);
  std::iota(ids.begin(), ids.end(), Id{0});
  std::atomic<bool> has_ended = false;
  std::thread trainer([&] {
    const std::vector<float> gradients(kRows / 2 * kVector);
    for (uint64_t step = 1; step <= 6000; ++step) {
      Ticket ticket = cache.prefetch(0, std::span(ids).first(kRows / 2), step);
      cache.wait(ticket);
      cache.update(ticket, gradients);
      cache.release(std::move(ticket));
    }
    has_ended = true;
  });
  std::vector<float> weights(kRows * kVector);
  int torn = 0;
  int gathered = 0;
  while (!has_ended) {
    Ticket ticket = cache.prefetch(0, ids, 1, Use::kRead);
    cache.wait(ticket);
    cache.gather(ticket, weights.data(), kVector);
    cache.release(std::move(ticket));
    torn += std::count(weights.begin(), weights.end(), weights[0]) == std::ssize(weights) ? 0 : 1;
    ++gathered;
  }
  trainer.join();
  EXPECT_EQ(torn, 0) << "of " << gathered;
}

TEST(Past, RefusesWhatItCannotGoThrough) {
  const TempDirectory directory;
  const Options options =
      options_of(directory.path(), OptimizerKind::kLazyAdam, StoreKind::kMemory, kIds);
  const auto refused = [](const std::function<void()>& call, const char* why) {
    EXPECT_THAT(call, testing::ThrowsMessage<Error>(testing::HasSubstr(why))) << why;
  };
  const auto changed = [&](const auto& change) {
    Options other = options;
    change(other);
    return [other] { Cache::open(other); };
  };
  refused(changed([](Options& o) { o.tables[0].segments[1].optimizer.l2_of = L2Of::kTable; }),
          "leave l2_of at batch");
  refused(changed([](Options& o) { o.tables[0].admission.kind = AdmissionKind::kCount; }),
          "admission.kind is not none");
  refused(changed([](Options& o) { o.bounded_staleness = 1; }), "bounded_staleness must be 0");
  {
    Cache cache = Cache::open(options);
    const std::vector<Id> ids{1, 2};
    const std::vector<float> gradients(2 * kWidth);
    Ticket ticket = cache.prefetch(0, ids, 1);
    cache.wait(ticket);
    refused([&] { cache.update(ticket, gradients, LazyAdam{}, Ftrl{}); },
            "update types of its own");
    cache.update(ticket, gradients);
    cache.release(std::move(ticket));
    ticket = cache.prefetch(0, ids, 1);
    cache.wait(ticket);
    refused([&] { cache.update(ticket, gradients); }, "has learned step 1 already");
    cache.release(std::move(ticket));
    refused([&] { cache.export_delta(0, directory.path() + "/delta", true); },
            "learn at every step");
    cache.commit_step(1);
  }
  refused(changed([](Options& o) { o.tables[0].segments[0].optimizer.l2 = 0.2F; }), "always(lr");
}

}  // namespace
}  // namespace mstrain::embedding_cache
