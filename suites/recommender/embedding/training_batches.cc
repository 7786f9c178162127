// Batches that are read, and whose rows are fetched, ahead of the step that learns from them.
#include <algorithm>
#include <chrono>
#include <deque>

#include "core/base/error.h"
#include "core/base/thread_pool.h"
#include "core/tensor/host.h"
#include "suites/recommender/embedding/batch_rows.h"
#include "suites/recommender/embedding/batches.h"

namespace mstrain::recommender {
namespace {

using embedding_cache::Cache;
using embedding_cache::Ticket;
using embedding_cache::Use;

class Watch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    begin_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

class TrainingBatches final : public BatchStream {
 public:
  TrainingBatches(const BatchSource& source, const SampleOrder& order, uint64_t seed,
                  const BatchPart& part, int64_t first)
      : source_(source),
        order_(order),
        seed_(seed),
        part_(part),
        micro_batches_(part.rows() / part.micro),
        taken_(first),
        asked_(first),
        generation_(source.rows->generation()),
        reader_(1),
        alone_(0),
        exchanger_(1) {
    source_.rows->fetch_ahead([this] { let_go(); });
  }
  ~TrainingBatches() override {
    source_.rows->fetch_ahead(nullptr);
    abandon();
  }
  TrainingBatches(const TrainingBatches&) = delete;
  TrainingBatches& operator=(const TrainingBatches&) = delete;

  Tensors next() override {
    StageTimes& times = source_.rows->times();
    Cache& cache = source_.rows->cache();
    finish_exchange();
    check(generation_ == source_.rows->generation(),
          "the rows were opened anew while their batches went on");
    if (step_ == 0) {
      step_ = cache.last_step();
    }
    Watch watch;
    ask();
    Ahead& front = ahead_.front();
    front.wait();
    current_ = std::move(*front.read);
    times.read_wait += watch.lap();
    if (current_.trip != nullptr) {
      current_.trip->wanted();
    }
    times.ask += watch.lap();
    ++step_;
    hold(cache, front);
    release_all(cache, front.tickets);
    ahead_.pop_front();
    if (source_.rows->group() == nullptr) {
      fetch_ahead(cache, holds_all(cache) ? 0 : depth());
    }
    times.prefetch += watch.lap();
    for (const Ticket& ticket : tickets_) {
      if (ticket.is_open()) {
        cache.wait(ticket);
      }
    }
    times.wait += watch.lap();
    Tensors out = tensors_of(source_, cache, current_, tickets_);
    if (current_.trip != nullptr) {
      times.rows += current_.trip->rows();
      times.early_rows += current_.trip->early_rows();
      for (size_t t = 0; t < current_.keys.size(); ++t) {
        times.pooled_bags += current_.trip->pooled(t).bags();
      }
    }
    times.gather += watch.lap();
    ++times.batches;
    taken_ += part_.batch;
    if (source_.rows->group() != nullptr && depth() > 0) {
      exchanging_ = exchanger_.submit([this] { exchange_ahead(); });
    }
    computing_ = watch;
    return out;
  }

  int64_t samples() const override { return taken_; }

  void learn(const RowGradients& learned) override {
    StageTimes& times = source_.rows->times();
    Cache& cache = source_.rows->cache();
    check(!tickets_.empty() && static_cast<uint64_t>(learned.step) == step_,
          "rows learn from step {}, and their batch is of step {}", learned.step, step_);
    Tensors gradients;
    for (const Tensor& gradient : learned.gradients) {
      gradients.push_back(dense(gradient));
    }
    if (!all_on_device(source_) || current_.trip != nullptr) {
      HostRead(gradients.back());  // what waits for the step
    }
    times.compute += computing_.lap();
    finish_exchange();
    times.exchange_wait += computing_.lap();
    if (learned.is_applied) {
      learn_rows(source_, cache, current_, tickets_, gradients, learned.lr_scale);
    } else {
      drop_all(source_);
    }
    times.sent_bytes += current_.trip == nullptr ? 0 : current_.trip->sent_bytes();
    release_all(cache, tickets_);
    source_.rows->learned(learned.step);
    times.update += computing_.lap();
  }

 private:
  // A batch that is read, and whose rows may be held.
  struct Ahead {
    std::future<Read> reading;
    std::optional<Read> read;
    Tickets tickets;  // that only read: training's come when it is the batch's turn
    bool is_announced = false;

    bool is_read() const {
      return read || reading.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    }
    void wait() {
      if (!read) {
        read = reading.get();
      }
    }
  };

  void ask() {
    const auto wanted = static_cast<size_t>(source_.rows->depth()) + 2;
    while (ahead_.size() < wanted) {
      std::vector<int64_t> samples(static_cast<size_t>(part_.rows()));
      const int64_t all = source_.samples->samples();
      for (int64_t row = 0; row < part_.rows(); ++row) {
        samples[static_cast<size_t>(row)] =
            sample_at(order_, all, seed_, asked_ + part_.sample(row));
      }
      asked_ += part_.batch;
      ahead_.push_back({reader_.submit([this, samples = std::move(samples)] {
                          Watch watch;
                          Read read = read_batch(source_, samples, micro_batches_, Use::kTrain);
                          source_.rows->times().read += watch.lap();
                          return read;
                        }),
                        {},
                        {},
                        false});
    }
  }

  size_t depth() const {
    return std::min(ahead_.size(), static_cast<size_t>(source_.rows->depth()));
  }

  // What batches ahead want, and those rows of the next one that the current one does not change. Every rank exchanges as much, whatever its
  // own progress.
  void exchange_ahead() {
    Watch watch;
    Cache& cache = source_.rows->cache();
    for (size_t i = 0; i < depth(); ++i) {
      ahead_[i].wait();
      ahead_[i].read->trip->wanted();
    }
    fetch_ahead(cache, holds_all(cache) ? 1 : depth());
    if (source_.rows->changes_by_learning_alone(static_cast<int64_t>(step_))) {
      Ahead& next = ahead_.front();
      for (const Ticket& ticket : next.tickets) {
        cache.wait(ticket);
      }
      next.read->trip->bring_early(cache, next.tickets, tickets_, alone_);
    }
    source_.rows->times().exchange += watch.lap();
  }

  void finish_exchange() {
    if (exchanging_.valid()) {
      exchanging_.get();
    }
  }

  // The rows of the current batch, for training. Rows that are held ahead make room where they must.
  void hold(Cache& cache, Ahead& front) {
    const bool was_ahead = !front.tickets.empty();
    const auto before = was_ahead ? std::nullopt : std::optional(cache.stats());
    try {
      fetch(source_, cache, current_, step_, Use::kTrain, tickets_);
    } catch (const IoError&) {
      throw;
    } catch (const Error&) {
      if (tickets_of_ahead() == 0) {
        throw;
      }
      let_go();
      // Not those of the tables before again, which may have counted their ids.
      fetch(source_, cache, current_, step_, Use::kTrain, tickets_);
    }
    largest_ = 0;
    for (size_t t = 0; t < tickets_.size(); ++t) {
      const DeviceRows* const rows = source_.rows->on_device(t);
      largest_ = std::max(largest_, rows == nullptr ? tickets_[t].ids().size() : rows->asked());
    }
    if (before) {
      count(*before, cache.stats());
    }
  }

  // Whether all rows are in memory: those that a batch does not find there are new, and there is nothing to fetch.
  static bool holds_all(const Cache& cache) {
    const std::vector<embedding_cache::TableStats> tables = cache.stats().tables;
    return std::all_of(tables.begin(), tables.end(), [](const auto& table) {
      return table.host_rows >= table.rows && table.host_rows < table.host_capacity;
    });
  }

  void fetch_ahead(Cache& cache, size_t batches) {
    for (size_t i = 0; i < batches; ++i) {
      Ahead& each = ahead_[i];
      if (!each.is_read()) {
        return;
      }
      each.wait();
      if (!each.is_announced) {
        for (size_t t = 0; t < each.read->keys.size(); ++t) {
          if (source_.rows->on_device(t) ==
              nullptr) {  // else what is asked for depends on what is there then
            cache.announce(static_cast<uint32_t>(t), each.read->ids(t));
          }
        }
        each.is_announced = true;
      }
      if (each.tickets.empty()) {
        if (!has_room(cache, i)) {
          return;
        }
        const auto before = cache.stats();
        Tickets tickets;
        try {
          fetch(source_, cache, *each.read, step_, Use::kRead, tickets);
        } catch (const IoError&) {
          throw;
        } catch (const Error&) {
          return;  // it does not fit beside the others, and changed nothing; what else is wrong is thrown in the batch's turn
        }
        each.tickets = std::move(tickets);
        count(before, cache.stats());
      }
    }
  }

  // Whether one more batch as large as this one fits beside those that are held.
  bool has_room(const Cache& cache, size_t held) const {
    const auto tables = cache.options().tables;
    return std::all_of(tables.begin(), tables.end(), [&](const auto& table) {
      return (held + 2) * largest_ + largest_ / 4 <= table.host_rows ||
             table.host_rows >= 4 * largest_ * (held + 2);
    });
  }

  void count(const embedding_cache::Stats& before, const embedding_cache::Stats& after) {
    StageTimes& times = source_.rows->times();
    for (size_t t = 0; t < after.tables.size(); ++t) {
      const auto& a = before.tables[t];
      const auto& b = after.tables[t];
      times.positions += static_cast<int64_t>(b.positions - a.positions);
      times.position_hits += static_cast<int64_t>(b.position_hits - a.position_hits);
      times.ids += static_cast<int64_t>(b.ids - a.ids);
      times.id_hits += static_cast<int64_t>(b.id_hits - a.id_hits);
    }
  }

  size_t tickets_of_ahead() const {
    return static_cast<size_t>(std::count_if(
        ahead_.begin(), ahead_.end(), [](const Ahead& each) { return !each.tickets.empty(); }));
  }

  void let_go() {
    if (generation_ != source_.rows->generation()) {
      return;
    }
    for (Ahead& each : ahead_) {
      release_all(source_.rows->cache(), each.tickets);
    }
  }

  // Where training ends, or a step failed, between a batch and what it teaches.
  void abandon() {
    if (exchanging_.valid()) {
      exchanging_.wait();
    }
    if (generation_ == source_.rows->generation()) {
      let_go();
      drop_all(source_);
      release_all(source_.rows->cache(), tickets_);
    }
  }

  BatchSource source_;
  SampleOrder order_;
  uint64_t seed_;
  BatchPart part_;
  int64_t micro_batches_;
  int64_t taken_, asked_;
  int64_t generation_;
  uint64_t step_ = 0;   // of the current batch
  size_t largest_ = 0;  // distinct ids of the current batch, of one table
  Read current_;
  Tickets tickets_;
  Watch computing_;
  std::deque<Ahead> ahead_;
  std::future<void> exchanging_;           // uses what is ahead, held and cached until it has ended
  ThreadPool reader_, alone_, exchanger_;  // after what their tasks use
};

}  // namespace

std::unique_ptr<BatchStream> training_batches(const BatchSource& source, const SampleOrder& order,
                                              uint64_t seed, const BatchPart& part, int64_t first) {
  check(source.samples->samples() > 0, "there are no samples to train on");
  return std::make_unique<TrainingBatches>(source, order, seed, part, first);
}

}  // namespace mstrain::recommender
