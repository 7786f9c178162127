#include "suites/recommender/embedding/row_block.h"

#include "embedding_cache/row.h"

namespace mstrain::recommender {
namespace {

constexpr size_t kHeaderFloats = embedding_cache::kHeaderBytes / sizeof(float);

}  // namespace

void RowBlock::resize(size_t rows, size_t width) {
  floats_.resize(kHeaderFloats + rows * width);
  records_.resize(rows);
  for (size_t i = 0; i < rows; ++i) {
    records_[i] = reinterpret_cast<const std::byte*>(floats_.data() + i * width);
  }
}

float* RowBlock::data() { return floats_.data() + kHeaderFloats; }

Elements RowBlock::elements() {
  return {data(), std::ssize(floats_) - static_cast<int64_t>(kHeaderFloats), Dtype::kF32};
}

}  // namespace mstrain::recommender
