#include "core/train/stored_tensor.h"

#include <algorithm>

#include "core/base/error.h"

namespace mstrain {
namespace {

// Fewer are written by one of those that have them.
constexpr uint64_t kWorthSharing = 1 << 20;

}  // namespace

uint64_t held_bytes(const StoredTensor& tensor, uint64_t stored, int64_t part) {
  const uint64_t column = tensor.column_bytes(stored);
  const auto each = static_cast<uint64_t>(tensor.type().bytes());
  const uint64_t begin = std::min(column, static_cast<uint64_t>(part) * each);
  return std::min(column - begin, each);
}

void for_stretches(const StoredTensor& tensor, uint64_t stored, int64_t part, int64_t column,
                   uint64_t begin, uint64_t end, const Stretch& stretch) {
  const uint64_t before =
      static_cast<uint64_t>(part) * static_cast<uint64_t>(tensor.type().bytes());
  if (tensor.rows == 0) {
    if (begin < end) {
      stretch(before + begin, begin, end - begin);
    }
    return;
  }
  const auto rows = static_cast<uint64_t>(tensor.rows);
  const uint64_t width = tensor.column_bytes(stored) / rows;
  const uint64_t row_bytes = stored / rows;
  for (uint64_t at = begin; at < end;) {
    const uint64_t row = (before + at) / width;
    const uint64_t in_row = (before + at) % width;
    const uint64_t place = static_cast<uint64_t>(column) * width + in_row;
    const uint64_t bytes = std::min(end - at, width - in_row);
    if (place < row_bytes) {
      stretch(row * row_bytes + place, at, std::min(bytes, row_bytes - place));
    }
    at += bytes;
  }
}

void for_share(const StoredTensor& tensor, uint64_t stored, int rank, const Stretch& stretch) {
  const int64_t place = rank - tensor.first;
  const int64_t group = place / tensor.neighbours;
  const int64_t parts = tensor.parts == nullptr ? 1 : tensor.parts->size;
  if (place < 0 || group >= tensor.groups) {
    return;
  }
  const int64_t columns = tensor.columns();
  const int64_t within = place % tensor.neighbours;
  const int64_t part = group % parts;
  const int64_t each = tensor.neighbours / columns;
  const auto holder = static_cast<uint64_t>(group / parts * each + within / columns);
  const auto holders = static_cast<uint64_t>(tensor.groups / parts * each);
  const uint64_t held = held_bytes(tensor, stored, part);
  if (held < kWorthSharing) {
    if (holder == 0) {
      for_stretches(tensor, stored, part, within % columns, 0, held, stretch);
    }
    return;
  }
  for_stretches(tensor, stored, part, within % columns, held / holders * holder,
                holder + 1 == holders ? held : held / holders * (holder + 1), stretch);
}

std::map<std::string_view, const StoredTensor*> by_name(const std::vector<StoredTensor>& tensors) {
  std::map<std::string_view, const StoredTensor*> out;
  for (const StoredTensor& tensor : tensors) {
    out[tensor.name] = &tensor;
  }
  return out;
}

SafetensorsLayout layout_of(const std::vector<StoredTensor>& tensors) {
  std::vector<SafetensorsLayout::Tensor> entries;
  for (const StoredTensor& tensor : tensors) {
    const TensorType type = tensor.type();
    const int64_t held =
        type.elements() * tensor.columns() * (tensor.parts == nullptr ? 1 : tensor.parts->size);
    const bool may_be_filled_up = tensor.parts != nullptr || tensor.columns() > 1;
    check(tensor.shape.elements() == held || (may_be_filled_up && tensor.shape.elements() < held),
          "{}: {} is to be stored as {}", tensor.name, to_string(type), to_string(tensor.shape));
    entries.push_back({tensor.name, type.dtype, {tensor.shape.begin(), tensor.shape.end()}});
  }
  return SafetensorsLayout(entries, {{"format", "pt"}});
}

}  // namespace mstrain
