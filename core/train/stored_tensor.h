// A tensor of a checkpoint, and which of its bytes a rank has.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/comm/mesh.h"
#include "core/io/safetensors.h"
#include "core/ir/tensor.h"

namespace mstrain {

// A tensor as it is stored: same elements in the same order, perhaps under another shape.
struct StoredTensor {
  std::string name;
  Shape shape;
  Tensor value;  // empty where other ranks have it: those of another stage of a pipeline
  // Where `value` is one rank's part of the elements: the ranks that have all of them, equally many each, with padding behind the
  // last. Null: it is the whole.
  const MeshAxis* parts = nullptr;
  int64_t neighbours = 1;  // ranks that have each such part, or the whole, or share it
  // The first of those that share it: in every one of so many rows the stored tensor has what the first has, then the second, of
  // `width` elements each. Its rows may end before the last ones' do: those are filled up. `rows` 0: all have the same.
  const MeshAxis* shared_by = nullptr;
  int64_t rows = 0;
  int64_t width = 0;
  // How many such groups of neighbours there are, each with the next part, or the whole; after the last part comes the first again.
  int64_t groups = 1;
  // Among the ranks that save together, the first of those that have some of it; the others follow: neighbours, then the next
  // group.
  int first = 0;
  TensorType elsewhere = {};  // that of the value, where it is empty

  // How many share it.
  int64_t columns() const { return rows == 0 ? 1 : shared_by->size; }
  TensorType type() const { return value.defined() ? value.type() : elsewhere; }
  // Of a column, with what fills it up, where the stored tensor has `stored`.
  uint64_t column_bytes(uint64_t stored) const {
    return rows == 0 ? stored : static_cast<uint64_t>(rows * width * size_of(type().dtype));
  }
};

// For each stretch of the stored tensor, of `stored` bytes, that a rank has: where it begins there, and in the rank's bytes,
// and its length. The rank has part `part` of column `column`; of its bytes those in [begin, end) count.
using Stretch = std::function<void(uint64_t stored_at, uint64_t held_at, uint64_t bytes)>;
void for_stretches(const StoredTensor& tensor, uint64_t stored, int64_t part, int64_t column,
                   uint64_t begin, uint64_t end, const Stretch& stretch);
// Bytes that this part of a column has, without the padding behind the last part.
uint64_t held_bytes(const StoredTensor& tensor, uint64_t stored, int64_t part);

// The same for what a rank writes where all that have some of a tensor share the work: those that have the same bytes
// write some each.
void for_share(const StoredTensor& tensor, uint64_t stored, int rank, const Stretch& stretch);

std::map<std::string_view, const StoredTensor*> by_name(const std::vector<StoredTensor>& tensors);
// The file of such tensors.
SafetensorsLayout layout_of(const std::vector<StoredTensor>& tensors);

}  // namespace mstrain
