#include "core/data/batch_queue.h"

#include "core/base/error.h"
#include "core/base/wait.h"

namespace mstrain {
namespace {

// The exception in flight, with the sample that it hit.
std::exception_ptr with_sample(int64_t sample) {
  const auto message = [&](const std::exception& error) {
    return fmt::format("{} (while reading sample {})", error.what(), sample);
  };
  try {
    throw;
  } catch (const IoError& error) {
    return std::make_exception_ptr(IoError(message(error), error.error_number()));
  } catch (const std::exception& error) {
    return std::make_exception_ptr(Error(message(error)));
  }
}

}  // namespace

int BatchQueue::slots_for(const LoaderOptions& options) {
  check(options.batch.batch >= 1, "a batch must hold at least 1 sample, not {}",
        options.batch.batch);
  check(options.workers >= 0 && options.workers <= 1024, "a loader cannot have {} workers",
        options.workers);
  check(options.depth >= 1 && options.depth <= 1024, "a loader cannot make {} batches ahead",
        options.depth);
  return options.workers == 0 ? 1 : options.depth + 1;  // one is in the taker's hands
}

BatchQueue::BatchQueue(Fill fill, const LoaderOptions& options, LoaderState state)
    : fill_(std::move(fill)),
      options_(options),
      first_(state),
      state_(state),
      slots_(slots_for(options)) {
  check(state.samples >= 0, "a loader cannot start at sample {}", state.samples);
  start();
}

BatchQueue::~BatchQueue() { stop(); }

void BatchQueue::start() {
  for (int i = 0; i < options_.workers; ++i) {
    threads_.emplace_back([this] { work(); });
  }
}

void BatchQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_workers_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
  threads_.clear();
  stopping_ = false;
}

void BatchQueue::restore(LoaderState state) {
  check(state.samples >= 0, "a loader cannot start at sample {}", state.samples);
  stop();
  slots_.assign(slots_.size(), Slot());
  first_ = state_ = state;
  handed_out_ = started_ = 0;
  start();
}

bool BatchQueue::make(int64_t batch, int slot) {
  for (int64_t row = 0; row < options_.batch.rows(); ++row) {
    if (stopping_.load(std::memory_order_relaxed)) {
      return false;
    }
    const int64_t sample =
        first_.samples + batch * options_.batch.batch + options_.batch.sample(row);
    try {
      fill_(sample, slot, row);
    } catch (...) {
      slots_[slot].error = with_sample(sample);
      return true;
    }
  }
  slots_[slot].error = nullptr;
  return true;
}

void BatchQueue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_workers_.wait(lock, [&] { return stopping_ || started_ < handed_out_ + options_.depth; });
    if (stopping_) {
      return;
    }
    const int64_t batch = started_++;
    const int slot = slot_of(batch);
    lock.unlock();
    const bool done = make(batch, slot);
    lock.lock();
    if (!done) {
      return;
    }
    slots_[slot].ready = batch;
    wake_taker_.notify_one();
  }
}

int BatchQueue::next() {
  std::unique_lock lock(mutex_);
  const int64_t batch = handed_out_;
  const int slot = slot_of(batch);
  if (options_.workers == 0) {
    make(batch, slot);
  } else {
    const bool ready = wait_with_deadline(wake_taker_, lock, options_.wait_seconds,
                                          [&] { return slots_[slot].ready == batch; });
    check(ready, "the data loader has waited {} s for the batch of sample {}; is the disk stuck?",
          options_.wait_seconds, state_.samples);
  }
  if (slots_[slot].error != nullptr) {
    std::rethrow_exception(slots_[slot].error);
  }
  ++handed_out_;
  state_.samples += options_.batch.batch;
  wake_workers_.notify_one();
  return slot;
}

}  // namespace mstrain
