// How ranks share attention: by samples, by heads, by queries, which then see all keys, or by both (attention_ring.cc).
//
// Fewer key heads than ranks: each rank takes the key head that its query heads read, and the gradients of keys and values are
// terms of a sum.
#include <array>

#include "core/ops/attention_form.h"
#include "core/ops/build.h"
#include "core/ops/collective.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/layouts.h"
#include "core/ops/random_draw.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();
constexpr int kWhole = layout::kWhole;

enum class By : uint8_t { kSamples, kHeads, kSharedKeyHeads, kQueries };

// Dims of the inputs of the forward pass. What is one for all samples or heads is whole.
std::vector<int> input_dims(By by, const AttentionForm& form, std::span<const TensorType> in) {
  std::vector<int> dims(form.inputs, kWhole);
  const auto set = [&](size_t input, int dim) {
    if (input != 0) {
      dims[input] = in[input].shape[dim] == 1 ? kWhole : dim;
    }
  };
  switch (by) {
    case By::kSamples:
      dims[0] = dims[1] = dims[2] = 0;
      set(form.bias, 0);
      set(form.table, 0);
      set(form.mask, 0);
      set(form.repeated, 0);
      set(form.start, 0);
      set(form.segments, 0);
      set(form.segments == 0 ? 0 : form.segments + 1, 0);
      break;
    case By::kHeads: dims[1] = dims[2] = 2; [[fallthrough]];
    case By::kSharedKeyHeads:
      dims[0] = 2;
      set(form.bias, 1);
      set(form.table, 2);
      break;
    case By::kQueries:
      dims[0] = 1;
      set(form.bias, 2);
      set(form.segments, 1);
      break;
  }
  return dims;
}

// Of (out, lse).
std::array<int, 2> result_dims(By by) {
  switch (by) {
    case By::kSamples: return {0, 0};
    case By::kHeads:
    case By::kSharedKeyHeads: return {2, 1};
    case By::kQueries: return {1, 2};
  }
  return {};
}

// The key head that this rank's query heads read, of `key_heads`.
Tensor own_key_head(int64_t key_heads, const MeshAxis& axis) {
  const Tensor head = axis_index(axis) * static_cast<double>(key_heads);
  return reshape(floor_divide(head, static_cast<double>(axis.size)), {1});
}

std::string_view name_of(By by) { return by == By::kQueries ? kGatherWay : kExchangeWay; }

// What the operation gets of the parts of the inputs of the forward pass, and its attributes.
struct Local {
  Tensors inputs;
  Attrs attrs;
};
Local localised(By by, const Attrs& attrs, std::span<const Tensor> parts, int64_t all_queries,
                const MeshAxis& axis) {
  Local local{Tensors(parts.begin(), parts.end()), attrs};
  const AttentionForm form(attrs, types_of(parts));
  Tensors& in = local.inputs;
  if (by == By::kSharedKeyHeads) {
    const Tensor head = own_key_head(in[1].dim(2), axis);
    in[1] = gather(in[1], head, 2);
    in[2] = gather(in[2], head, 2);
  }
  const int drawn = by == By::kSamples ? 0 : by == By::kQueries ? 2 : 1;
  const int shared = by == By::kSamples ? 0 : by == By::kQueries ? 1 : 2;
  if (form.draw != 0 && shared == 1 && all_queries % axis.size != 0) {
    local.attrs.set(kPastEnd, true);
  }
  if (form.draw != 0) {
    in[form.draw + 1] =
        in[form.draw + 1] +
        layout::offset_along(layout::first_of_part(in[0].dim(shared), axis), drawn, 4);
  }
  if (by == By::kQueries) {
    const int64_t queries = in[0].dim(1);
    const Tensor first = broadcast_to(layout::first_of_part(queries, axis), {in[0].dim(0)});
    if (form.start != 0) {
      in[form.start] = in[form.start] + first;
    } else {
      // Unplaced queries are the last ones.
      const int64_t before = in[1].dim(1) - all_queries;
      local.attrs.set("placed", true);
      in.insert(form.draw != 0 ? in.begin() + static_cast<int64_t>(form.draw) : in.end(),
                first + static_cast<double>(before));
    }
  }
  return local;
}

// The ways that the numbers of heads allow.
std::vector<By> all_ways(std::span<const TensorType> in, const MeshAxis& axis) {
  const int64_t heads = in[0].shape[2];
  const int64_t key_heads = in[1].shape[2];
  std::vector<By> ways{By::kSamples, By::kQueries};
  if (heads % axis.size == 0 && key_heads > 0) {
    if (key_heads % axis.size == 0) {
      ways.push_back(By::kHeads);
    } else if (axis.size % key_heads == 0) {
      ways.push_back(By::kSharedKeyHeads);
    }
  }
  return ways;
}

}  // namespace

std::vector<Way> attention_layout(const LayoutRequest& request) {
  const AttentionForm form(request.attrs, request.inputs);
  std::vector<Way> ways;
  for (const By by : all_ways(request.inputs, request.axis)) {
    Way way = layout::by_dims(request, input_dims(by, form, request.inputs), result_dims(by));
    way.name = name_of(by);
    way.uneven = by == By::kQueries;
    way.program = [by, queries = request.inputs[0].shape[1], attrs = request.attrs,
                   &op = request.op](std::span<const Tensor> parts, const MeshAxis& axis) {
      const Local local = localised(by, attrs, parts, queries, axis);
      return apply(op, local.inputs, local.attrs, kHere);
    };
    ways.push_back(std::move(way));
  }
  if (std::optional<Way> ring = attention_ring(request)) {
    ways.push_back(std::move(*ring));
  }
  return ways;
}

// (g, inputs of the forward pass…, out, lse) -> (dq, dk, dv[, dbias][, dtable]). What all ranks read gets terms of its
// gradient from each.
std::vector<Way> attention_grad_layout(const LayoutRequest& request) {
  const auto forward = request.inputs.subspan(1, request.inputs.size() - 3);
  const AttentionForm form(request.attrs, forward);
  std::vector<Way> ways;
  for (const By by : all_ways(forward, request.axis)) {
    const std::array<int, 2> results = result_dims(by);
    const std::vector<int> of_forward = input_dims(by, form, forward);
    std::vector<int> inputs{results[0]};
    inputs.insert(inputs.end(), of_forward.begin(), of_forward.end());
    inputs.insert(inputs.end(), results.begin(), results.end());
    std::vector<int> outputs(of_forward.begin(), of_forward.begin() + 3);
    for (const size_t input : {form.bias, form.table}) {
      if (input != 0) {
        outputs.push_back(of_forward[input]);
      }
    }
    Way way = layout::by_dims(request, inputs, outputs);
    way.name = name_of(by);
    way.uneven = by == By::kQueries;
    for (Placement& output : way.outputs) {
      output = output.replicated() ? partial() : output;
    }
    way.program = [by, queries = forward[0].shape[1], attrs = request.attrs, &op = request.op](
                      std::span<const Tensor> parts, const MeshAxis& axis) -> Tensors {
      const int64_t key_heads = parts[2].dim(2);
      Local local = localised(by, attrs, parts.subspan(1, parts.size() - 3), queries, axis);
      local.inputs.insert(
          local.inputs.begin(),
          by == By::kQueries ? layout::without_filling(parts[0], 1, queries, axis) : parts[0]);
      local.inputs.insert(local.inputs.end(), parts.end() - 2, parts.end());
      Tensors gradients = apply(op, local.inputs, local.attrs, kHere);
      for (size_t i = 1; by == By::kSharedKeyHeads && i < 3; ++i) {
        TensorType whole = gradients[i].type();
        whole.shape[2] = key_heads;
        gradients[i] = scatter_add(zeros(whole), own_key_head(key_heads, axis), gradients[i], 2);
      }
      return gradients;
    };
    ways.push_back(std::move(way));
  }
  if (std::optional<Way> ring = attention_grad_ring(request)) {
    ways.push_back(std::move(*ring));
  }
  return ways;
}

}  // namespace mstrain
