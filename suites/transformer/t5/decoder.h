// A T5 that answers token by token: the encoder runs once, and keys and values of what it read and of what was written are
// kept, so that a further token costs one pass over the decoder's weights.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/tensor/jit.h"
#include "core/train/sections.h"
#include "suites/transformer/t5/model.h"
#include "suites/transformer/text/key_value_cache.h"

namespace mstrain::t5 {

// In every layer of the decoder, of what it reads: [rows, source, heads, d_kv].
struct Memory {
  Tensors keys, values;
  Tensor seen;  // bool [rows, source]

  template <class V>
  void fields(V& v) {
    v("keys", keys);
    v("values", values);
    v("seen", seen);
  }
};

// One thread at a time. Runs in the current context, without dropout.
class Decoder {
 public:
  Decoder(T5 model, Execution execution);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  const T5Config& config() const { return model_.config(); }

  // Reads `sources`, each of at least one token, for `copies` answers to each, of up to `capacity` tokens: row i answers
  // source i / copies.
  void start(const Params& params, std::span<const std::vector<int32_t>> sources, int64_t copies,
             int64_t capacity);
  // Appends one token to each row, the first of which is decoder_start_token. Gives the logits of the tokens that follow,
  // row by row: [rows, vocab]. Throws Error where no room is left.
  std::vector<float> next(const Params& params, std::span<const int32_t> tokens);
  // As next(), where row i goes on from what row from[i] was, an answer to the same source.
  std::vector<float> next_from(const Params& params, std::span<const int32_t> tokens,
                               std::span<const int32_t> from);

 private:
  Memory read(const Params& p, const Tensor& sources_bs, const Tensor& lengths_b,
              int64_t copies) const;
  DecoderStep write(const Params& p, const KeyValueCache& written, const Memory& memory,
                    const Tensor& tokens_b, const Tensor& position) const;
  std::vector<float> take(DecoderStep step);

  using Read = std::function<Memory(const Params&, const Tensor&, const Tensor&, const Tensor&)>;
  using Write = std::function<DecoderStep(const Params&, const KeyValueCache&, const Memory&,
                                          const Tensor&, const Tensor&)>;
  using Reorder = std::function<KeyValueCache(const KeyValueCache&, const Tensor&)>;

  T5 model_;
  Execution execution_;
  Jit<Read> read_;
  Jit<Write> write_;
  Jit<Reorder> reorder_;
  Memory memory_;
  KeyValueCache written_;
  int64_t rows_ = 0;
  int64_t capacity_ = 0;
  int64_t length_ = 0;  // tokens that each row has
};

}  // namespace mstrain::t5
