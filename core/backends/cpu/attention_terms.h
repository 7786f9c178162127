// What the optional inputs of attention do to the scores of a block: they are added where the scores lie, in cache.
#pragma once

#include <memory>
#include <vector>

#include "core/backends/cpu/attention.h"

namespace mstrain::cpu {

// Numbers that are added to the scores of a head, at any strides.
struct BiasView {
  const float* data = nullptr;  // null: none
  int64_t row = 0, column = 1;
  // Adds those of queries i … and keys first … to the visible scores.
  void add_to(const ScoreBlock& block, int64_t i, int64_t first) const;
};

// The segments of a batch element's queries and keys, at any strides.
struct SegmentView {
  const int32_t *queries = nullptr, *keys = nullptr;  // null: none
  int64_t query_stride = 1, key_stride = 1;
  // Hides the scores of queries i … and keys first … of other segments.
  void hide(const ScoreBlock& block, int64_t i, int64_t first) const;
  // `n` without the keys that lie before and after all keys of [first, first + count) in the segments of queries
  // i … i + rows.
  AttentionSizes narrowed(AttentionSizes n, int64_t i, int64_t rows, int64_t first,
                          int64_t count) const;
};

class ScoreTerms {
 public:
  // `first`: which input q is.
  ScoreTerms(const KernelRequest& request, size_t first);

  const AttentionForm& form() const { return form_; }
  const AttentionSizes& sizes() const { return sizes_; }
  // Those of batch element b.
  AttentionSizes sizes_of(const KernelMemory& memory, int64_t b) const;

  struct Buffers {
    float *by_distance, *hidden;  // [t + s] [s]
    Buffers(const ScoreTerms& terms, Scratch& scratch);
  };
  // All terms of one head.
  struct Head {
    BiasView bias, relative, hidden;
    SegmentView segments;
    void add_to(const ScoreBlock& block, int64_t i, int64_t first) const {
      bias.add_to(block, i, first);
      relative.add_to(block, i, first);
      hidden.add_to(block, i, first);
      segments.hide(block, i, first);
    }
  };
  BiasView bias(const KernelMemory& memory, int64_t b, int64_t h) const;
  SegmentView segments(const KernelMemory& memory, int64_t b) const;
  // `n`: the sizes of batch element b.
  Head head(const KernelMemory& memory, const AttentionSizes& n, int64_t b, int64_t h,
            const Buffers& buffers) const;

  // Where a relative bias of query i and key j stands among those by distance.
  int64_t place(int64_t i, int64_t j) const { return j - i + sizes_.t - 1; }
  // Sums by bucket of numbers by distance, as place() orders them.
  void sum_by_bucket(const AttentionSizes& n, const float* by_distance, float* sums) const;

 private:
  // Distances from `least` on, up to that of the next one, have this bucket.
  struct Segment {
    int64_t least, bucket;
  };
  // Calls f(place, bucket) for all distances of a head.
  template <class F>
  void for_distances(const AttentionSizes& n, F&& f) const;

  AttentionForm form_;
  AttentionSizes sizes_;
  size_t first_;
  Shape bias_, table_, mask_, query_segments_, key_segments_, start_;  // strides
  std::shared_ptr<const std::vector<Segment>> segments_;
};

// A kernel that packs neither keys nor values; none (no run function) where the layout or the number of queries asks for
// the one that does.
Kernel attention_of_few_queries(const KernelRequest& request, const ScoreTerms& terms);
// The same of one query, with the bits that it has among many.
Kernel attention_of_one_query(const KernelRequest& request, const ScoreTerms& terms);

}  // namespace mstrain::cpu
