// Bags of fields that a rank has as wholes ("table_wise"): it pools them for who asks, so that vectors come back instead of rows, and their
// gradients go out. Each rank decides for its part of each batch and each field, by what is less to send. No bit depends on it: a bag, and what
// an id learns, are added up in the order of the positions of a micro-batch either way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/thread_pool.h"
#include "embedding_cache/row.h"
#include "suites/recommender/embedding/placement.h"

namespace mstrain::recommender {

// The bags of a field in a rank's part of a batch.
struct FieldBags {
  std::vector<uint32_t> offsets;  // by sample; empty: rows are sent, not bags
  std::vector<uint32_t>
      ids;  // by position: place among the ids that are asked for, or that arrived

  bool are_pooled() const { return !offsets.empty(); }
};

// What ranks give each other, rank by rank.
template <class T>
struct Message {
  std::vector<T> sent, came;
  std::vector<int64_t> sends, receives;  // to, and from each rank
};

// Of one table and one part of a batch, on the rank that asks and on those that pool. A step of the way fills what is sent; the caller exchanges it.
class PooledBags {
 public:
  // `wholes`, which outlive this, and the bags of each of them; an id's place is among those for all ranks, `sends` for each. All ranks have parts of
  // `samples`.
  PooledBags(const std::vector<Placement::Whole>& wholes, std::vector<FieldBags> asked,
             std::span<const int64_t> sends, size_t samples, int rank);

  bool is_possible() const { return !wholes_->empty(); }
  int64_t bags() const;  // that this rank has pooled

  // How many positions rank `rank` is to pool, by field: -1, none. `take_counts` is told what a rank said, and returns what follows.
  void put_counts(int rank, std::vector<int64_t>& out) const;
  int64_t counts_from_each() const { return std::ssize(mine_); }
  const int64_t* take_counts(const int64_t* counts);
  // Which they are.
  Message<uint32_t>& ask();
  void asked(std::span<const int64_t> receives);  // ids that arrived from each rank
  // The places of ids of pooled bags: of those asked for, of those that arrived.
  template <class F>
  void each_asked(const F& visit) const {
    each_id(asked_, visit);
  }
  template <class F>
  void each_arrived(const F& visit) const {
    each_id(to_pool_, visit);
  }

  // Vectors of `width` floats, from the records of what arrived.
  Message<float>& pool(const std::byte* const* records, size_t width, ThreadPool& workers);
  // The vectors that came, each to its field's place in the row of its sample.
  void take(float* out, size_t stride) const;
  // Gradients of such rows.
  Message<float>& give(const float* gradients, size_t stride);
  // What ids learn from the gradients that came, to their places in learned[what arrived, width].
  void learn(const embedding_cache::RowLayout& layout, ThreadPool& workers, float* learned) const;

 private:
  template <class F>
  static void each_id(const std::vector<FieldBags>& bags, const F& visit) {
    for (const FieldBags& of : bags) {
      for (const uint32_t id : of.ids) {
        visit(id);
      }
    }
  }
  // Calls visit(field, of which rank, first float of its vectors in the message) for those pooled, in the order of messages.
  template <class F>
  void each_own(const F& visit) const;  // for others
  template <class F>
  void each_others(const F& visit) const;  // by others
  std::vector<float> weights_of(size_t own) const;

  const std::vector<Placement::Whole>* wholes_;
  std::vector<size_t> mine_;        // of wholes_: this rank's
  std::vector<FieldBags> asked_;    // of each whole
  std::vector<size_t> first_id_;    // of each rank, among those asked for
  std::vector<int64_t> positions_;  // of [ranks, mine_]; -1: none
  std::vector<FieldBags> to_pool_;  // likewise
  size_t samples_, width_ = 0;
  Message<uint32_t> bags_;
  Message<float> vectors_, gradients_;
};

}  // namespace mstrain::recommender
