#include "suites/recommender/embedding/batches.h"

#include <algorithm>

#include "core/data/shuffle.h"
#include "suites/recommender/embedding/batch_rows.h"

namespace mstrain::recommender {
namespace {

using embedding_cache::Cache;
using embedding_cache::Ticket;
using embedding_cache::Use;

class ReadingBatches final : public BatchStream {
 public:
  ReadingBatches(const BatchSource& source, const BatchPart& part, int64_t samples)
      : source_(source), part_(part), samples_(samples) {
    source_.rows->let_go();
  }

  Tensors next() override {
    std::vector<int64_t> wanted(static_cast<size_t>(part_.rows()));
    for (int64_t row = 0; row < part_.rows(); ++row) {
      wanted[static_cast<size_t>(row)] = std::min(taken_ + part_.sample(row), samples_ - 1);
    }
    Read batch = read_batch(source_, wanted, /*micro_batches=*/1, Use::kRead);
    for (int64_t row = 0; row < part_.rows(); ++row) {
      if (taken_ + part_.sample(row) >= samples_) {
        batch.samples.labels[static_cast<size_t>(row)] = -1;
      }
    }
    taken_ += part_.batch;
    if (source_.rows->is_saved()) {
      return saved_tensors_of(source_, batch, saved_);
    }
    Cache& cache = source_.rows->cache();
    Tickets tickets;
    for (size_t t = 0; t < batch.keys.size(); ++t) {
      tickets.push_back(cache.prefetch(static_cast<uint32_t>(t), batch.ids(t),
                                       cache.last_step() + 1, Use::kRead));
    }
    for (const Ticket& ticket : tickets) {
      cache.wait(ticket);
    }
    Tensors out = tensors_of(source_, cache, batch, tickets);
    release_all(cache, tickets);
    return out;
  }
  int64_t samples() const override { return taken_; }

 private:
  BatchSource source_;
  BatchPart part_;
  int64_t samples_, taken_ = 0;
  std::vector<RowBlock> saved_;
};

}  // namespace

int64_t sample_at(const SampleOrder& order, int64_t samples, uint64_t seed, int64_t at) {
  const int64_t epoch = at / samples;
  const int64_t place = at % samples;
  if (!order.shuffle) {
    return place;
  }
  const auto permuted = [&](int64_t count, const char* what, int64_t index, int64_t which) {
    return Permutation(count, seed, random_stream(what, which),
                       static_cast<uint64_t>(epoch))(index);
  };
  if (order.block == 0 || order.block >= samples) {
    return permuted(samples, "recommender.samples", place, 0);
  }
  // Whole blocks change places; what does not fill one stays last.
  const int64_t blocks = samples / order.block;
  const int64_t block = place / order.block;
  const int64_t from = block < blocks ? permuted(blocks, "recommender.blocks", block, 0) : blocks;
  const int64_t size = from < blocks ? order.block : samples - blocks * order.block;
  return from * order.block + permuted(size, "recommender.samples", place % order.block, from);
}

std::unique_ptr<BatchStream> reading_batches(const BatchSource& source, const BatchPart& part,
                                             int64_t samples) {
  return std::make_unique<ReadingBatches>(source, part, samples);
}

}  // namespace mstrain::recommender
