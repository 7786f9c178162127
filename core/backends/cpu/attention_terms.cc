#include "core/backends/cpu/attention_terms.h"

namespace mstrain::cpu {
namespace {

Types forward_types(const KernelRequest& request, size_t first) {
  Types types;
  const size_t after = first == 0 ? 0 : 2;  // the gradient's out and lse
  for (size_t i = first; i + after < request.inputs.size(); ++i) {
    types.push_back(request.inputs[i].type);
  }
  return types;
}

}  // namespace

void BiasView::add_to(const ScoreBlock& block, int64_t i, int64_t first) const {
  for (int64_t r = 0; data != nullptr && r < block.rows; ++r) {
    const int64_t begin = block.begin(r);
    const int64_t end = block.end(r);
    const float* from = data + (i + r) * row + first * column;
    float* to = block.s + r * block.ld;
    if (column == 1) {
      loops().f32->add_to(end - begin, from + begin, to + begin);
      continue;
    }
    for (int64_t j = begin; j < end; ++j) {
      to[j] += from[j * column];
    }
  }
}

void SegmentView::hide(const ScoreBlock& block, int64_t i, int64_t first) const {
  for (int64_t r = 0; queries != nullptr && r < block.rows; ++r) {
    const int64_t begin = block.begin(r);
    const int64_t end = block.end(r);
    const int32_t own = queries[(i + r) * query_stride];
    const int32_t* const of = keys + first * key_stride;
    float* const to = block.s + r * block.ld;
    if (key_stride == 1) {
      for (int64_t j = begin; j < end; ++j) {
        to[j] = of[j] == own ? to[j] : -kInfinity;
      }
      continue;
    }
    for (int64_t j = begin; j < end; ++j) {
      to[j] = of[j * key_stride] == own ? to[j] : -kInfinity;
    }
  }
}

AttentionSizes SegmentView::narrowed(AttentionSizes n, int64_t i, int64_t rows, int64_t first,
                                     int64_t count) const {
  if (queries == nullptr || rows == 0) {
    return n;
  }
  int32_t least = queries[i * query_stride];
  int32_t most = least;
  for (int64_t r = 1; r < rows; ++r) {
    least = std::min(least, queries[(i + r) * query_stride]);
    most = std::max(most, queries[(i + r) * query_stride]);
  }
  const auto is_outside = [&](int64_t j) {
    return keys[j * key_stride] < least || keys[j * key_stride] > most;
  };
  n.end_key = std::min(n.end_key, first + count);
  n.first_key = std::max(n.first_key, first);
  while (n.end_key > n.first_key && is_outside(n.end_key - 1)) {
    --n.end_key;
  }
  while (n.first_key < n.end_key && is_outside(n.first_key)) {
    ++n.first_key;
  }
  return n;
}

ScoreTerms::ScoreTerms(const KernelRequest& request, size_t first)
    : form_(request.attrs, forward_types(request, first)),
      sizes_(form_, request.inputs[first].type.shape, request.inputs[first + 1].type.shape,
             request.inputs[first + 2].type.shape),
      first_(first) {
  // The strides of input `which`; a dim of size 1 is shared.
  const auto strides_of = [&](size_t which) {
    Shape strides;
    if (which != 0) {
      const ViewType& view = request.inputs[first + which];
      strides = view.strides;
      for (int d = 0; d < strides.rank(); ++d) {
        strides[d] = view.type.shape[d] == 1 ? 0 : strides[d];
      }
    }
    return strides;
  };
  bias_ = strides_of(form_.bias);
  table_ = strides_of(form_.table);
  mask_ = strides_of(form_.mask);
  query_segments_ = strides_of(form_.segments);
  key_segments_ = strides_of(form_.segments == 0 ? 0 : form_.segments + 1);
  start_ = strides_of(form_.start);
  if (form_.buckets) {
    const std::vector<int64_t> sizes = form_.buckets->least_sizes();
    const auto last = static_cast<int64_t>(sizes.size()) - 1;
    const auto least = [&](int64_t bucket) { return sizes[static_cast<size_t>(bucket)]; };
    std::vector<Segment> segments{{std::numeric_limits<int64_t>::min(), last}};
    for (int64_t bucket = last - 1; bucket >= 0; --bucket) {
      segments.push_back({1 - least(bucket + 1), bucket});
    }
    for (int64_t bucket = 1; form_.buckets->bidirectional && bucket <= last; ++bucket) {
      segments.push_back({least(bucket), form_.buckets->of_direction() + bucket});
    }
    segments_ = std::make_shared<const std::vector<Segment>>(std::move(segments));
  }
}

AttentionSizes ScoreTerms::sizes_of(const KernelMemory& memory, int64_t b) const {
  AttentionSizes n = sizes_;
  if (form_.start != 0) {
    n.start = static_cast<const int32_t*>(memory.inputs[first_ + form_.start])[b * start_[0]];
  }
  if (form_.mask != 0) {
    const auto* mask = static_cast<const bool*>(memory.inputs[first_ + form_.mask]) + b * mask_[0];
    while (n.end_key > 0 && !mask[(n.end_key - 1) * mask_[1]]) {
      --n.end_key;
    }
    while (n.first_key < n.end_key && !mask[n.first_key * mask_[1]]) {
      ++n.first_key;
    }
  }
  return n;
}

ScoreTerms::Buffers::Buffers(const ScoreTerms& terms, Scratch& scratch)
    : by_distance(scratch.take(terms.form_.table == 0 ? 0 : terms.sizes_.t + terms.sizes_.s)),
      hidden(scratch.take(terms.form_.mask == 0 ? 0 : terms.sizes_.s)) {}

template <class F>
void ScoreTerms::for_distances(const AttentionSizes& n, F&& f) const {
  const std::vector<Segment>& segments = *segments_;
  size_t segment = 0;
  for (int64_t place = 0; place < n.t + n.s - 1; ++place) {
    const int64_t distance = place - (n.t - 1) - n.start;
    while (segment + 1 < segments.size() && segments[segment + 1].least <= distance) {
      ++segment;
    }
    f(place, segments[segment].bucket);
  }
}

BiasView ScoreTerms::bias(const KernelMemory& memory, int64_t b, int64_t h) const {
  if (form_.bias == 0) {
    return {};
  }
  return {
      static_cast<const float*>(memory.inputs[first_ + form_.bias]) + b * bias_[0] + h * bias_[1],
      bias_[2], bias_[3]};
}

SegmentView ScoreTerms::segments(const KernelMemory& memory, int64_t b) const {
  if (form_.segments == 0) {
    return {};
  }
  const size_t input = first_ + form_.segments;
  return {static_cast<const int32_t*>(memory.inputs[input]) + b * query_segments_[0],
          static_cast<const int32_t*>(memory.inputs[input + 1]) + b * key_segments_[0],
          query_segments_[1], key_segments_[1]};
}

ScoreTerms::Head ScoreTerms::head(const KernelMemory& memory, const AttentionSizes& n, int64_t b,
                                  int64_t h, const Buffers& buffers) const {
  Head head;
  head.bias = bias(memory, b, h);
  head.segments = segments(memory, b);
  if (form_.table != 0) {
    const float* const table = static_cast<const float*>(memory.inputs[first_ + form_.table]) +
                               b * table_[0] + h * table_[2];
    for_distances(n, [&](int64_t place, int64_t bucket) {
      buffers.by_distance[place] = table[bucket * table_[1]];
    });
    head.relative = {buffers.by_distance + place(0, 0), -1, 1};
  }
  if (form_.mask != 0) {
    const auto* mask = static_cast<const bool*>(memory.inputs[first_ + form_.mask]) + b * mask_[0];
    bool any = false;
    for (int64_t j = n.first_key; j < n.end_key; ++j) {
      const bool seen = mask[j * mask_[1]];
      buffers.hidden[j] = seen ? 0.0F : -kInfinity;
      any = any || !seen;
    }
    head.hidden.data = any ? buffers.hidden : nullptr;  // what lies at the ends is no visible score
  }
  return head;
}

void ScoreTerms::sum_by_bucket(const AttentionSizes& n, const float* by_distance,
                               float* sums) const {
  std::fill_n(sums, form_.buckets->count, 0.0F);
  int64_t current = 0;
  double total = 0;
  for_distances(n, [&](int64_t place, int64_t bucket) {  // the distances of a bucket are neighbours
    total = bucket == current ? total : 0;
    total += by_distance[place];
    sums[bucket] = static_cast<float>(total);
    current = bucket;
  });
}

}  // namespace mstrain::cpu
