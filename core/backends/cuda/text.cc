#include "core/backends/cuda/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/backends/cuda/group.h"
#include "core/base/hash.h"
#include "core/ops/elementwise.h"

namespace mstrain::cuda {
namespace {

std::string with_name(std::string_view text, std::string_view name) {
  std::string result;
  for (char c : text) {
    c == '@' ? result.append(name) : result.append(1, c);
  }
  return result;
}

// Where no result has an element there is nothing to do.
bool is_empty(const KernelRequest& request) {
  return std::ranges::all_of(request.outputs,
                             [](const ViewType& view) { return view.type.elements() == 0; });
}
KernelText print_group_or_nothing(const KernelRequest& request) {
  return is_empty(request) ? KernelText{} : print_group(request);
}
bool has_group_or_nothing(const KernelRequest& request) {
  return is_empty(request) || has_group_text(request);
}

std::vector<TextEntry> all_entries() {
  std::vector<TextEntry> entries;
  const auto add_group = [&](std::string_view op) {
    entries.push_back({op, print_group_or_nothing, has_group_or_nothing, true});
  };
  for (const OpDef& op : elementwise_ops()) {
    add_group(op.name);
  }
  for (const char* op :
       {"fused", "sum_squares", "softmax", "log_softmax", "softmax_grad", "log_softmax_grad",
        "layer_norm", "layer_norm_grad", "rms_norm", "rms_norm_grad"}) {
    add_group(op);
  }
  for (const auto add :
       {add_move_texts, add_index_texts, add_reduce_texts, add_sort_texts, add_random_texts,
        add_float8_texts, add_image_texts, add_product_texts, add_loss_texts, add_table_row_texts,
        add_warp_group_attention_texts, add_attention_texts}) {
    add(entries);
  }
  return entries;
}

}  // namespace

KernelText named(KernelText text) {
  const std::string name = fmt::format("kernel_{:016x}", hash_bytes(text.text).lo);
  text.text = with_name(text.text, name);
  for (KernelLaunch& launch : text.launches) {
    launch.name = with_name(launch.name, name);
  }
  return text;
}

const std::vector<TextEntry>& text_entries() {
  static const std::vector<TextEntry> entries = all_entries();
  return entries;
}

const TextEntry* entry_for(const KernelRequest& request, std::string_view architecture) {
  const auto serves = [&](const TextEntry& entry) {
    return entry.op == request.op.name &&
           (entry.architecture.empty() || entry.architecture == architecture) &&
           request.inputs.size() + request.outputs.size() <= kMostOperands &&
           (entry.supports == nullptr || entry.supports(request));
  };
  const auto it = std::ranges::find_if(text_entries(), serves);
  return it == text_entries().end() ? nullptr : &*it;
}

Reach reach_of(const ViewType& view) {
  Reach reach;
  for (int d = 0; d < view.type.shape.rank(); ++d) {
    const int64_t step = (view.type.shape[d] - 1) * view.strides[d];
    (step < 0 ? reach.first : reach.end) += step;
  }
  const int64_t size = size_of(view.type.dtype);
  return {reach.first * size, (reach.end + 1) * size};
}

bool is_short(std::span<const ViewType> inputs, std::span<const ViewType> outputs) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const auto is_small = [](const ViewType& view) {
    int64_t reach = 0;
    for (int d = 0; d < view.type.shape.rank(); ++d) {
      reach += std::abs(view.strides[d]) * view.type.shape[d];
    }
    return std::max(reach, view.type.elements()) < kMost;
  };
  return std::ranges::all_of(inputs, is_small) && std::ranges::all_of(outputs, is_small);
}

std::string message_of(const Report& report) {
  return fmt::format("{}: id {} at position {} is outside of [0, {})",
                     kReporters.at(static_cast<size_t>(report.operation - 1)), report.id,
                     report.position, report.limit);
}

}  // namespace mstrain::cuda
