// How applications of attention and of its gradient lay out their inputs, for rules and kernels.
//
// attention{causal, scale, …}: (q, k, v[, bias][, table][, mask][, segments, segments][, repeated][, start]) -> (out, lse[b, h, t])
//   bias[1|b, 1|h, t, s]; table[1|b, buckets, h] where there are the attributes max_distance and
//   bidirectional; mask bool[b, s] where `masked`; segments i32[b, t] of queries and i32[b, s] of keys where `segmented`; repeated i32[b] where `repeating`; start i32[b] where `placed`; `window`: none where absent.
// attention_grad{…}: (g, q, k, v[, …], out, lse) -> (dq, dk, dv[, dbias][, dtable])
// lse is the logsumexp of the visible scores in the accumulation type; -inf where none is visible.
// attention_dropout{…, rate, site, whole} and its gradient: two more inputs follow the optional ones, the key u32[2] and the
// offset i32[4] of this part [b, h, t, s] in the draw for `whole`. A probability stays, and is divided by 1 - rate, where its
// uniform f32 number (core/ops/random_draw.h) is below 1 - rate. lse is that of all visible scores.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/ir/layout.h"

namespace mstrain {

// Which bucket of a relative bias holds the distance key - query. Buckets grow with the distance's size.
struct RelativeBuckets {
  int64_t count;
  int64_t max_distance;
  bool bidirectional;

  // Of one direction; the first half of them hold one distance each.
  int64_t of_direction() const { return bidirectional ? count / 2 : count; }
  int64_t exact() const { return of_direction() / 2; }
  int64_t of(int64_t distance) const;
  // The least size of a distance in each bucket of a direction. Ascending; two are equal where a bucket is empty.
  std::vector<int64_t> least_sizes() const;
};

struct AttentionForm {
  bool causal = false;
  double scale = 1;
  int64_t window = 0;  // 0: none
  std::optional<RelativeBuckets> buckets;
  // Places of the optional inputs of the forward pass; 0: absent. segments: the queries', the keys' are the next; draw: the
  // key's, the offset's is the next.
  size_t bias = 0, table = 0, mask = 0, segments = 0, repeated = 0, start = 0, draw = 0;
  size_t inputs = 3;  // of the forward pass

  // `types`: of the inputs of the forward pass, which may be fewer or more than the attributes ask for.
  AttentionForm(const Attrs& attrs, std::span<const TensorType> types);
};

struct AttentionDims {
  int64_t b, t, s, h, key_heads, d, e;
  // Query heads of a key head.
  int64_t group() const { return key_heads == 0 ? 1 : h / key_heads; }
};

// What the inputs of the forward pass must be. Throws ShapeError.
AttentionDims check_attention(std::span<const TensorType> in, const AttentionForm& form,
                              const Attrs& attrs);

// attention_decomposed.cc
Tensors decompose_attention(const Attrs& attrs, std::span<const Tensor> in);
Tensors decompose_attention_grad(const Attrs& attrs, std::span<const Tensor> in);

// attention_layout.cc
std::vector<Way> attention_layout(const LayoutRequest& request);
std::vector<Way> attention_grad_layout(const LayoutRequest& request);
// Names of ways: samples or heads in exchange for positions, all keys for some queries, or keys that go around.
inline constexpr std::string_view kExchangeWay = "all_to_all", kGatherWay = "gather",
                                  kRingWay = "ring";
// attention_ring.cc; none where there is a bias.
std::optional<Way> attention_ring(const LayoutRequest& request);
std::optional<Way> attention_grad_ring(const LayoutRequest& request);

// attention_samples.cc
std::vector<Sample> attention_samples(Dtype dtype);
std::vector<Sample> attention_grad_samples(Dtype dtype);
std::vector<Sample> attention_dropout_samples(Dtype dtype);
std::vector<Sample> attention_dropout_grad_samples(Dtype dtype);

}  // namespace mstrain
