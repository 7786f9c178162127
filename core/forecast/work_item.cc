#include "core/forecast/work_item.h"

#include <map>
#include <tuple>

#include "core/ops/dot_general.h"

namespace mstrain {

void set_sizes(WorkItem& item, const PlanStep& step) {
  const DotDims dims = dot_dims(step.attrs);
  const auto each = [&](const std::string& letters, size_t input, const auto& f) {
    for (size_t i = 0; i < letters.size(); ++i) {
      f(letters[i], static_cast<double>(step.inputs[input].view.type.shape[static_cast<int>(i)]));
    }
  };
  each(dims.a, 0, [&](char letter, double size) {
    const bool in_b = dims.b.find(letter) != std::string::npos;
    const bool in_out = dims.out.find(letter) != std::string::npos;
    (in_b ? (in_out ? item.batch : item.summed) : item.rows) *= size;
  });
  each(dims.b, 1, [&](char letter, double size) {
    if (dims.a.find(letter) == std::string::npos) {
      item.columns *= size;
    }
  });
}

// Each takes part in two products over the width of a head, backward in five.
double scores_of(const PlanStep& step) {
  const bool is_backward = step.outputs.size() > 2;
  const Shape& q = step.inputs[is_backward ? 1 : 0].view.type.shape;
  return step.cost.flops / ((is_backward ? 5 : 2) * 2 * static_cast<double>(q[3]));
}

std::vector<WorkItem> merged(std::span<const WorkItem> items) {
  const auto key_of = [](const WorkItem& it) {
    return std::tuple(it.kind, it.region, it.backward, it.weights, it.divided, it.dtype, it.flops,
                      it.bytes, it.scores, it.batch, it.rows, it.columns, it.summed, it.divides);
  };
  std::vector<WorkItem> out;
  std::map<decltype(key_of(WorkItem())), size_t> known;
  for (const WorkItem& it : items) {
    const auto [found, is_new] = known.emplace(key_of(it), out.size());
    if (is_new) {
      out.push_back(it);
    } else {
      out[found->second].count += it.count;
    }
  }
  return out;
}

}  // namespace mstrain
