// What decoders keep of the tokens that they have seen (Pope et al. 2022), so that a further token costs one pass over the
// weights.
#pragma once

#include "core/ir/tensor.h"
#include "core/runtime/context.h"

namespace mstrain {

// Keys and values of `rows` sequences in every layer, as attention reads them: [rows, capacity, heads, head_dim], zero where
// nothing was seen yet; of a layer with a window that is shorter, in a ring (window_cache.h).
struct KeyValueCache {
  Tensors keys, values;

  // Appends to `longer` layer i of this cache with t tokens more in each row: keys and values [rows, t, heads, head_dim] are
  // added at positions[rows, t] (i32; [rows] where t is 1), where it is zero.
  void extend(size_t layer, const Tensor& key_bthd, const Tensor& value_bthd,
              const Tensor& positions_bt, KeyValueCache& longer) const;

  // With the sequences of `other`, of equal capacity, in the place of these[m] (i32); with these alone.
  KeyValueCache with(const KeyValueCache& other, const Tensor& rows_m) const;
  KeyValueCache rows(const Tensor& rows_m) const;

  template <class V>
  void fields(V& v) {
    v("keys", keys);
    v("values", values);
  }
};

struct DecoderStep {
  Tensor logits;  // [rows, vocab], of the token that follows
  KeyValueCache cache;

  template <class V>
  void fields(V& v) {
    v("logits", logits);
    v("cache", cache);
  }
};

// The current context, without dropout.
Context for_inference();

// Lengths that programs are compiled for: the least of 64, 128, 256, …, of several sequences of 16, 32, 64, …, that is enough.
int64_t length_bucket(int64_t length, int64_t sequences = 1);

// [rows]: the number of the row, times `stride`.
Tensor row_offsets(int64_t rows, int64_t stride);

}  // namespace mstrain
