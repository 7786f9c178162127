#include "embedding_cache/stream.h"

#include <algorithm>
#include <memory>

#include "core/base/error.h"

namespace mstrain::embedding_cache {

Stream::Stream(Cache& cache, uint32_t table, const StreamOptions& options, IdsOfStep ids_of_step)
    : cache_(&cache),
      table_(table),
      options_(options),
      ids_of_step_(std::move(ids_of_step)),
      step_(cache.last_step()),
      ahead_(step_) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  if (this != &other) {
    std::destroy_at(this);
    std::construct_at(this, std::move(other));
  }
  return *this;
}

Stream::~Stream() { stop(); }

void Stream::stop() {
  if (!open_.empty()) {
    ahead_ = step_ = open_.front().step() - 1;
  }
  for (; !open_.empty(); open_.pop_front()) {
    open_.front().give_back();
  }
}

uint64_t Stream::commit_at(uint64_t step) const {
  const uint64_t every = options_.commit_every;
  return every == 0 ? options_.steps : std::min(options_.steps, (step + every - 1) / every * every);
}

void Stream::prefetch() {
  const uint64_t last = std::min(step_ + options_.depth, commit_at(step_));
  for (; ahead_ < last; ++ahead_) {
    open_.push_back(cache_->prefetch(table_, ids_of_step_(ahead_ + 1), ahead_ + 1));
  }
}

bool Stream::next() {
  check(open_.empty() || open_.front().step() > step_,
        "embedding_cache: stream: the batch of step {} has not learned", step_);
  if (step_ >= options_.steps) {
    return false;
  }
  ++step_;
  prefetch();
  const Ticket& ticket = open_.front();
  cache_->wait(ticket);
  const size_t width = cache_->layout(table_).width();
  values_.resize(ticket.positions() * width);
  cache_->gather(ticket, values_.data(), width);
  return true;
}

bool Stream::learn(std::span<const float> gradients, float lr_scale) {
  check(!open_.empty() && open_.front().step() == step_,
        "embedding_cache: stream: step {} has learned, or next() was not called", step_);
  const auto let_go = [this] {
    cache_->release(std::move(open_.front()));
    open_.pop_front();
  };
  try {
    cache_->update(open_.front(), gradients, GradientsOf::kPositions, lr_scale);
  } catch (...) {
    if (open_.front().has_learned()) {
      let_go();
    }
    throw;
  }
  let_go();
  return step_ == commit_at(step_);
}

}  // namespace mstrain::embedding_cache
