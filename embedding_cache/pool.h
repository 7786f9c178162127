// Rows pooled into bags, and gradients of bags added up by row; not for users. Compiled for the processors of the day; all versions give the
// same bits.
#pragma once

#include <vector>

#include "core/base/thread_pool.h"
#include "embedding_cache/bags.h"
#include "embedding_cache/dedup.h"
#include "embedding_cache/row.h"

namespace mstrain::embedding_cache {

// The floats of a row that bags are of.
struct Columns {
  uint32_t first = 0, width = 0;
};
// Throws Error where `bags` of so many positions contradict themselves or do not fit rows `stride` floats apart; `call` begins its message.
Columns check_bags(const Bags& bags, size_t positions, const RowLayout& layout, size_t stride,
                   const std::string& call);
// Rows of the matrix that they make.
size_t rows_of(const Bags& bags, size_t positions);

// Weights of a batch's rows as a matrix.
struct PoolJob {
  const std::byte* const* records = nullptr;  // by distinct id
  std::span<const uint32_t> inverse;
  Bags bags;
  Columns columns;
  float* out = nullptr;
  size_t stride = 0;
  size_t first_row = 0;  // of `out`
};
void pool_rows(const PoolJob& job, size_t begin, size_t end);

// Adds up, for each distinct id, what it learns from the gradients of bags.
class BagSums {
 public:
  // `gradients`: of whole rows, or of each segment in their order; checked. What they name, and `batch`, must outlive this.
  BagSums(const Batch& batch, const RowLayout& layout, const std::byte* const* records,
          std::span<const BagGradients> gradients, ThreadPool& workers);

  // In the order of positions, to sum[width of rows]. Thread-safe.
  void add_up(size_t id, float* sum) const;

 private:
  struct Part {
    BagGradients of;
    Columns columns;
    std::vector<uint32_t> bag_of;   // by position; empty: its own number
    std::vector<float> scale;       // by bag, for means; empty: 1
    std::vector<uint32_t> largest;  // by bag and float, for maxima: the position that has it
  };
  void find_largest(Part& part, const std::byte* const* records, ThreadPool& workers) const;
  void add_part(const Part& part, size_t id, float* sum) const;
  void add_largest(const Part& part, size_t id, float* sum) const;

  const Batch& batch_;
  Positions positions_;
  std::vector<Part> parts_;
};

}  // namespace mstrain::embedding_cache
