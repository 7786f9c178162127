// How the rows that a rank's part of a batch looks up come from the ranks that have them, and how what they learn goes back.
//
// Each micro-batch asks for its distinct ids once; a rank is told which of its rows are wanted in the order of the micro-batches of the
// whole batch, whoever computes them, and adds up what they learned in that order. So no bit depends on the number of ranks.
//
// Bags of a field that one rank has as a whole come back pooled where that is less (pooled_bags.h).
//
// Rows that no step before the batch's turn changes may come while these compute: who has them knows which, and tells with a byte for each.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/base/thread_pool.h"
#include "core/comm/communicator.h"
#include "embedding_cache/cache.h"
#include "embedding_cache/dedup.h"
#include "suites/recommender/embedding/pooled_bags.h"
#include "suites/recommender/embedding/row_block.h"
#include "suites/recommender/embedding/row_request.h"

namespace mstrain::recommender {

// The rows of a batch in one table.
struct HeldRows {
  HeldRows() = default;
  // Those of a ticket that has been waited for.
  HeldRows(const embedding_cache::Cache& cache, const embedding_cache::Ticket& ticket)
      : inverse(ticket.inverse()) {
    cache.rows(ticket, weights);
  }

  std::vector<const float*> weights;  // of each distinct id
  std::span<const uint32_t> inverse;  // by position: index into these
};

// A batch's way through the ranks. Every rank makes the same calls, in the same order, one at a time.
class RowTrip {
 public:
  // `group`: null where there is one rank. It and `placement` stay until the end.
  RowTrip(Communicator* group, const Placement& placement, std::vector<RowRequest> requests,
          int64_t micro_batches);
  ~RowTrip();
  RowTrip(const RowTrip&) = delete;
  RowTrip& operator=(const RowTrip&) = delete;

  // Of each table: the keys that all ranks want of this one, once for each micro-batch. Asks first where nobody has.
  const std::vector<std::vector<embedding_cache::Id>>& wanted();

  // Before the batch's turn: the rows of what is wanted that none of `changing` holds, the tickets of what learns until then, to who asked.
  // `tickets` hold what is wanted and have been waited for; where there are none, all rows of this rank come later.
  void bring_early(const embedding_cache::Cache& cache,
                   std::span<const embedding_cache::Ticket> tickets,
                   std::span<const embedding_cache::Ticket> changing, ThreadPool& workers);
  // All others, in the batch's turn.
  void bring(const embedding_cache::Cache& cache, std::span<const HeldRows> held,
             ThreadPool& workers);
  const embedding_cache::Batch& batch(size_t table) const { return tables_[table].asked.batch; }
  // After bring(): of the request's ids, as the library pools them; zeros for those of bags that come pooled.
  const std::byte* const* records(size_t table) const { return tables_[table].records.data(); }
  int64_t rows() const;  // of all tables that the request asks for
  int64_t early_rows() const;
  int64_t sent_bytes() const { return sent_bytes_; }  // to other ranks, so far
  const PooledBags& pooled(size_t table) const { return tables_[table].pooled; }

  // Whether what an id learns goes out with the gradients of its bags.
  bool is_pooled(size_t table, size_t id) const { return tables_[table].comes[id] == Way::kPooled; }
  // Gradients of the rows of the request's ids, [ids, width], and of the table's vectors, rows of them `stride` floats apart, begin their way
  // to who has them.
  void give(size_t table, std::vector<float> gradients, const float* of_vectors, size_t stride);
  // What has come, by position of what is wanted, [positions, width].
  std::span<const float> given(size_t table, const embedding_cache::RowLayout& layout,
                               ThreadPool& workers);

 private:
  enum class Way : uint8_t { kLate, kEarly, kPooled };
  // Rows on their way from who has them.
  struct Rows {
    std::vector<float> sent;
    RowBlock came;
  };
  struct Table {
    RowRequest asked;
    std::vector<int64_t> sends;                // ids to each rank
    std::vector<int64_t> counts;               // of ids wanted, [ranks, micro-batches of a part]
    std::vector<int64_t> receives;             // ids from each rank
    std::vector<embedding_cache::Id> arrived;  // rank by rank
    std::vector<size_t> place;  // of what arrived, among what is wanted; empty: its own
    size_t width = 0;
    std::vector<Way> goes;   // by what arrived
    std::vector<Way> comes;  // by id of the request
    PooledBags pooled;
    Rows early, late;
    RowBlock nothing;                       // a row of zeros
    std::vector<const std::byte*> records;  // of the request's ids
    std::vector<float> sent, learned, in_order;
    std::vector<Event> giving;

    size_t place_of(size_t arrived) const { return place.empty() ? arrived : place[arrived]; }
  };

  int64_t ranks() const;
  // Begins; `events` are waited for.
  void exchange(Elements in, Elements out, std::span<const int64_t> sends,
                std::span<const int64_t> receives, const char* what, std::vector<Event>& events);
  void ask();
  void take_counts(const int64_t* counts);
  template <class T>
  void exchange(Message<T>& message, const char* what, std::vector<Event>& events);
  void put_in_order(Table& table) const;
  void send_rows(Table& table, Rows& rows, Way way, const HeldRows& held, ThreadPool& workers);

  Communicator* group_;
  int64_t micro_batches_;
  std::vector<Table> tables_;
  std::vector<std::vector<embedding_cache::Id>> wanted_;
  std::vector<Event> under_way_;
  int64_t sent_bytes_ = 0;
  bool has_asked_ = false;
};

}  // namespace mstrain::recommender
