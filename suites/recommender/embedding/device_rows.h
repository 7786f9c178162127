// The rows that a step uses in the memory of the device that computes it, as embedding_cache/hot_rows.h keeps the books of them. Hits stay
// there; what misses is copied in, and changed rows whose slots it gets are copied out and given back, beside the step before. Rows are
// pooled there, and learn there.
//
// A row is a part of matrices [slots, floats], of the weights and of the state of each segment: two rows beyond those of the cache's are zeros, for what
// admission turned away, and nobody's. Numbers of rows vary from batch to batch: programs are made for the next larger one of few.
#pragma once

#include <functional>
#include <optional>

#include "core/ir/tensor.h"
#include "embedding_cache/hot_rows.h"
#include "suites/recommender/embedding/device_batch.h"

namespace mstrain::recommender {

// Of the device's memory that so many rows of a table take.
uint64_t device_bytes(const embedding_cache::TableOptions& table, uint64_t rows);

// Of one table. The thread that trains calls it. Its memory is the current context's.
class DeviceRows {
 public:
  DeviceRows(embedding_cache::Cache& cache, uint32_t table, uint64_t rows);

  const embedding_cache::HotRows& hot() const { return hot_; }
  // The rows of a batch come to the device. Throws Error, with nothing changed, where they do not fit.
  void hold(const DeviceBatch& batch, uint64_t step);
  bool is_held() const { return held_.has_value(); }
  size_t asked() const { return is_held() ? held_->ticket.ids().size() : 0; }  // of host memory

  // Of the rows that are held: bags of one segment, [bags / beside, beside, width], or [bags] where `beside` is 0 and it is one float wide.
  Tensor look_up(const DeviceBatch& batch, const embedding_cache::Bags& bags, int64_t beside);
  // Weights of all segments of each distinct id, on the host, [ids, width].
  std::vector<float> weights();

  // The rows that are held learn from gradients of what was looked up, in the order of segments.
  void learn(const DeviceBatch& batch, const Tensors& gradients, float lr_scale);
  // Or from gradients by position, [positions, width].
  void learn(const DeviceBatch& batch, std::span<const float> gradients, float lr_scale);
  void drop();  // they do not learn

  // Changed rows to the cache: with nothing held.
  void bring_home();
  void forget();  // after that: all rows come anew

 private:
  struct Leaving {
    embedding_cache::LeavingRows rows;
    Tensor values;
  };
  struct Learning;  // what learning is given

  void settle();
  void check_finite();
  Leaving copy_out(embedding_cache::LeavingRows rows) const;
  void copy_in(const embedding_cache::HotRows::Batch& batch);
  void learn(const DeviceBatch& batch, Learning given, float lr_scale);

  embedding_cache::RowLayout layout_;
  std::string name_;
  embedding_cache::HotRows hot_;
  Tensors parts_;  // weights of each segment, then their states: a record's floats in their order
  std::optional<embedding_cache::HotRows::Batch> held_;
  Tensor slots_, learns_;           // of the distinct ids of what is held, and more
  std::optional<Leaving> leaving_;  // on its way
  struct Learned {
    uint64_t step;
    size_t ids;
    Tensor bad;  // i32 []: rows whose gradients were not finite
  };
  std::optional<Learned> learned_;  // that nobody has looked at

  std::function<Tensors(Tensors parts, Tensor slots, Tensor rows)> put_in_;
  std::function<Tensor(Tensors parts, Tensor slots)> take_out_;
  std::function<Tensor(Tensor rows, Tensor slots, Tensor inverse, std::optional<Tensor> weights,
                       std::optional<Tensor> offsets, int64_t beside)>
      pool_;
  std::function<Tensors(Tensors parts, Learning given)> learn_;
};

}  // namespace mstrain::recommender
