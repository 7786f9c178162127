// Weights of distinct ids, as the library pools records.
#pragma once

#include <vector>

#include "core/comm/communicator.h"

namespace mstrain::recommender {

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

}  // namespace mstrain::recommender
