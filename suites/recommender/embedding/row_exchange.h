// How the rows that a rank's part of a batch looks up come from the ranks that have them, and how what they learn goes back.
//
// Each micro-batch asks for its distinct ids once; a rank is told which of its rows are wanted in the order of the micro-batches of the
// whole batch, whoever computes them, and adds up what they learned in that order. So no bit depends on the number of ranks.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/base/thread_pool.h"
#include "core/comm/communicator.h"
#include "embedding_cache/cache.h"
#include "embedding_cache/dedup.h"
#include "suites/recommender/embedding/placement.h"

namespace mstrain::recommender {

// What a rank's part of a batch looks up in one table.
struct RowRequest {
  // Distinct ids of each micro-batch: by owner, for each in the order of micro-batches; `inverse` by position of the part.
  embedding_cache::Batch batch;
  std::vector<int64_t> counts;  // of ids, [owners, micro-batches of the part]
};
RowRequest request_of(const Placement& placement, size_t table, const TableKeys& keys,
                      int64_t micro_batches);

// Weights of distinct ids, as the library pools records.
class RowBlock {
 public:
  void resize(size_t rows, size_t width);
  Elements elements();
  float* data();  // [rows, width]
  const std::byte* const* records() const { return records_.data(); }

 private:
  std::vector<float> floats_;  // behind the room of a header
  std::vector<const std::byte*> records_;
};

// A batch's way through the ranks. Every rank makes the same calls, in the same order, of one thread.
class RowTrip {
 public:
  // `group`: null where there is one rank. It, `workers` and the requests' memory stay until the end.
  RowTrip(Communicator* group, std::vector<RowRequest> requests, int64_t micro_batches);
  ~RowTrip();
  RowTrip(const RowTrip&) = delete;
  RowTrip& operator=(const RowTrip&) = delete;

  // Begins what comes next of asking: how many ids, then which. Returns before it is there.
  void ask();
  // Whether all of it has begun: wanted() then waits for nobody's call.
  bool has_asked() const { return stage_ >= Stage::kAsking; }
  // The rest of asking. Of each table: the keys that all ranks want of this one, once for each micro-batch.
  const std::vector<std::vector<embedding_cache::Id>>& wanted();

  // The rows of what is wanted, held by `tickets` and waited for, to who asked.
  void bring(const embedding_cache::Cache& cache, std::span<const embedding_cache::Ticket> tickets,
             ThreadPool& workers);
  const embedding_cache::Batch& batch(size_t table) const { return tables_[table].asked.batch; }
  const RowBlock& rows(size_t table) const { return tables_[table].rows; }  // after bring()

  // Gradients of the rows of the request's ids, [ids, width], to who has them. By position of what is wanted, [positions, width].
  std::span<const float> give(size_t table, std::vector<float> gradients);

 private:
  struct Table {
    RowRequest asked;
    std::vector<int64_t> sends;                // ids to each rank
    std::vector<int64_t> counts;               // of ids wanted, [ranks, micro-batches of a part]
    std::vector<int64_t> receives;             // ids from each rank
    std::vector<embedding_cache::Id> arrived;  // rank by rank
    std::vector<size_t> place;  // of what arrived, among what is wanted; empty: its own
    size_t width = 0;
    RowBlock rows;  // of the request's ids
    std::vector<float> sent, learned, in_order;
  };
  enum class Stage : uint8_t { kNew, kCounting, kAsking, kAsked };

  int64_t ranks() const;
  void exchange(Elements in, Elements out, std::span<const int64_t> sends,
                std::span<const int64_t> receives, const char* what);
  void finish_counts();
  void put_in_order(Table& table) const;

  Communicator* group_;
  int64_t micro_batches_;
  std::vector<Table> tables_;
  std::vector<std::vector<embedding_cache::Id>> wanted_;
  std::vector<int64_t> counts_out_, counts_in_;
  std::vector<Event> under_way_;
  Stage stage_ = Stage::kNew;
};

}  // namespace mstrain::recommender
