// Which samples of every batch a rank takes.
#pragma once

#include <cstdint>

namespace mstrain {

// A batch is micro-batches that follow each other; of each `ranks` of them, rank `rank` takes one. Row i of the part is sample
// sample(i) of the batch.
struct BatchPart {
  int64_t batch = 1;  // samples of all
  int64_t micro = 1;  // of a micro-batch
  int64_t ranks = 1;
  int64_t rank = 0;

  BatchPart(int64_t all) : batch(all), micro(all) {}  // NOLINT: the whole batch
  BatchPart(int64_t all, int64_t rows, int64_t of, int64_t which)
      : batch(all), micro(rows), ranks(of), rank(which) {}

  int64_t rows() const { return batch / ranks; }
  int64_t sample(int64_t row) const { return (row / micro * ranks + rank) * micro + row % micro; }
};

}  // namespace mstrain
