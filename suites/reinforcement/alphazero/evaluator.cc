#include "suites/reinforcement/alphazero/evaluator.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>

#include "core/base/error.h"
#include "core/tensor/host.h"

namespace mstrain::alphazero {
namespace {

// Rows of a program: powers of two. A part of fewer positions is filled up.
constexpr uint64_t kLargePart = 16;
constexpr uint64_t kSmallPart = 4;  // below it a program's own time counts

struct Part {
  int64_t begin;
  int64_t count;
  int64_t rows;
};

// Towards the end parts grow smaller, so that no thread computes for long when the others are done.
std::vector<Part> parts_of(int64_t count) {
  std::vector<Part> parts;
  for (int64_t at = 0; at < count;) {
    const auto left = static_cast<uint64_t>(count - at);
    const auto rows = static_cast<int64_t>(
        left <= kSmallPart ? std::bit_ceil(left)
                           : std::min(kLargePart, std::bit_floor(std::max(left / 4, kSmallPart))));
    parts.push_back({at, std::min(count - at, rows), rows});
    at += rows;
  }
  return parts;
}

void write_answer(std::span<const float> logits, float value, const BoardGame& game,
                  mcts::EvalItem<AnyGame>& item) {
  check(std::isfinite(value), "network: a value is no finite number");
  item.values = game.results_of(value, item.state->player());
  float top = -std::numeric_limits<float>::infinity();
  for (const Action action : item.actions) {
    check(std::isfinite(logits[action]), "network: a logit is no finite number");
    top = std::max(top, logits[action]);
  }
  for (size_t a = 0; a < item.actions.size(); ++a) {
    item.priors[a] = std::exp(logits[item.actions[a]] - top);
  }
}

}  // namespace

NetworkEvaluator::Worker::Worker(const Context& of)
    : context{.backend = of.backend,
              .threads = 1,
              .allocator =
                  std::make_shared<Allocator>(Allocator::kCacheLimit, of.allocator->device())} {}

NetworkEvaluator::NetworkEvaluator(const BoardGame& game, const PolicyValueNetwork& network,
                                   int threads)
    : game_(game), network_(network), pool_(threads - 1) {
  for (int i = 0; i < threads; ++i) {
    workers_.push_back(std::make_unique<Worker>(current_context()));
    for (uint64_t rows = 1; rows <= kLargePart; rows *= 2) {
      const Forward forward = [this](const Params& p, const Tensor& x_bchw) {
        return network_(p, x_bchw);
      };
      workers_.back()->forward.emplace(
          rows, jit(forward, {.name = fmt::format("policy and value of {}", rows)}));
    }
    idle_.push_back(workers_.back().get());
  }
}

NetworkEvaluator::Worker& NetworkEvaluator::take() {
  const std::lock_guard lock(mutex_);
  check(!idle_.empty(), "network: two batches at once");
  Worker* const worker = idle_.back();
  idle_.pop_back();
  return *worker;
}

void NetworkEvaluator::evaluate(mcts::EvalBatch<AnyGame>& batch) {
  if (stop_ != nullptr && *stop_) {
    throw Stopped();
  }
  const std::vector<Part> parts = parts_of(static_cast<int64_t>(batch.items.size()));
  pool_.parallel_for(static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    const auto start = std::chrono::steady_clock::now();
    Worker& worker = take();
    for (int64_t i = begin; i < end; ++i) {
      const Part& part = parts[static_cast<size_t>(i)];
      compute(worker,
              batch.items.subspan(static_cast<size_t>(part.begin), static_cast<size_t>(part.count)),
              part.rows);
    }
    const std::lock_guard lock(mutex_);
    idle_.push_back(&worker);
    busy_seconds_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  });
  evaluations_ += static_cast<int64_t>(batch.items.size());
}

void NetworkEvaluator::compute(Worker& worker, std::span<mcts::EvalItem<AnyGame>> items,
                               int64_t rows) const {
  const ContextScope scope(worker.context);
  const auto size = static_cast<size_t>(game_.input_size());
  HostWrite input({Dtype::kF32, {rows, game_.planes(), game_.rows(), game_.columns()}});
  const std::span<float> x = input.values<float>();
  for (size_t i = 0; i < items.size(); ++i) {
    game_.encode(*items[i].state, x.subspan(i * size, size));
  }
  std::fill(x.begin() + static_cast<ptrdiff_t>(items.size() * size), x.end(), 0.0F);
  const PolicyValue out = worker.forward.at(rows)(params_, input.finish());
  const HostRead logits(out.logits_ba);
  const HostRead values(out.value_b);
  const auto actions = static_cast<size_t>(network_.actions());
  for (size_t i = 0; i < items.size(); ++i) {
    write_answer(logits.values<float>().subspan(i * actions, actions), values.values<float>()[i],
                 game_, items[i]);
  }
}

CachingEvaluator::CachingEvaluator(NetworkEvaluator& network, const BoardGame& game,
                                   int64_t entries) {
  if (entries > 0 && game.start().facts().hash) {
    cache_ = std::make_unique<mcts::EvalCache>(entries, 1);
    cached_ = std::make_unique<mcts::CachedEvaluator<NetworkEvaluator>>(network, *cache_);
    any_ = std::make_unique<mcts::AnyEvaluator<AnyGame>>(*cached_);
  } else {
    any_ = std::make_unique<mcts::AnyEvaluator<AnyGame>>(network);
  }
}

void CachingEvaluator::clear() {
  if (cache_) {
    cache_->clear();
  }
}

}  // namespace mstrain::alphazero
