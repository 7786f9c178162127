// A language model that reads and writes token by token. Layers with a window keep no more positions than the window has, but in a context that
// is batch invariant, where logits have the bits that a pass over whole texts gives them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/tensor/jit.h"
#include "core/train/sections.h"
#include "suites/transformer/text/causal_model.h"
#include "suites/transformer/text/key_value_cache.h"
#include "suites/transformer/text/shared_model.h"

namespace mstrain {

// One thread at a time. Runs in the current context, without dropout.
class Decoder {
 public:
  // Logits are at `temperature`. `shared`: where ranks write together, each given its parts of the weights, with programs; null: this one alone.
  Decoder(std::shared_ptr<const CausalModel> model, Execution execution, double temperature = 1,
          std::shared_ptr<const SharedModel> shared = nullptr);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  const CausalModel& model() const { return *model_; }

  // The declared lengths of prompts and caches: 64, 128, 256, … and the longest sequence, where there are several sequences, which cost more
  // than programs do, from 16 on. The least that is enough.
  int64_t bucket(int64_t length, int64_t sequences = 1) const;

  // Begins with `prompts`, each of 1 … model().max_positions() tokens, and room for `capacity` tokens in each sequence. Equal ones are read once.
  // Gives the logits of the tokens that follow, row by row: [prompts, vocab].
  std::vector<float> start(const Params& params, std::span<const std::span<const int32_t>> prompts,
                           int64_t capacity);
  // Appends one token to each sequence; likewise. Throws Error where a sequence has no room left. A sequence whose token is kIdle is only beside
  // the others: its row means nothing, and it is not for going on.
  std::vector<float> next(const Params& params, std::span<const int32_t> tokens);
  static constexpr int32_t kIdle = -1;

  // Appends several tokens, at least one, to each sequence; likewise.
  std::vector<float> next(const Params& params, std::span<const std::span<const int32_t>> tokens);

  // Begins anew in these sequences, each with its prompt, which leave room in capacity(); gives the logits of the tokens that follow these
  // prompts: [prompts, vocab].
  std::vector<float> replace(const Params& params, std::span<const int32_t> sequences,
                             std::span<const std::span<const int32_t>> prompts);
  // log p of each target, [rows], by logits[rows, vocab] that it gave. `support`: as in DrawnFrom.
  std::vector<float> log_probs(const Tensor& logits, const Tensor& targets,
                               const Tensor& support) const;
  // Goes on with these sequences alone, in this order.
  void keep(std::span<const int32_t> sequences);

  // What start() and next() of so many sequences take in memory, beside weights of type `dtype`, by the plans of the programs that they would
  // run in the current context.
  int64_t bytes(int64_t sequences, int64_t prompt, int64_t capacity, Dtype dtype) const;

  // What the first sequence has, and has room for.
  int64_t length() const { return lengths_.empty() ? 0 : lengths_[0]; }
  int64_t capacity() const { return capacity_; }

  // Programs compiled so far: one for each bucket and number of rows that was met.
  int64_t compile_count() const {
    return read_.compile_count() + write_.compile_count() + append_.compile_count() +
           put_.compile_count() + take_rows_.compile_count();
  }

 private:
  // tokens_pt, lengths_p: different prompts; prompts_b: which one each sequence begins with, or as many as there are, all in order.
  DecoderStep read(const Params& p, const Tensor& tokens_pt, const Tensor& lengths_p,
                   const Tensor& prompts_b, int64_t capacity) const;
  // repeated_b: as in AttentionOptions.
  DecoderStep write(const Params& p, const KeyValueCache& cache, const Tensor& tokens_b,
                    const Tensor& positions_b, const Tensor& repeated_b) const;
  DecoderStep append(const Params& p, const KeyValueCache& cache, const Tensor& tokens_bt,
                     const Tensor& starts_b, const Tensor& counts_b) const;
  // Tokens in rows that are padded to a bucket, and how many each has.
  struct Padded {
    Tensor tokens_bt;
    Tensor counts_b;
  };
  Padded padded(std::span<const std::span<const int32_t>> tokens, int64_t sequences) const;
  // Equal prompts are read once.
  DecoderStep read_prompts(const Params& params, std::span<const std::span<const int32_t>> prompts);
  void note_repeated();
  std::vector<float> take(DecoderStep step);

  using Read = std::function<DecoderStep(const Params&, const Tensor&, const Tensor&, const Tensor&,
                                         const Tensor&)>;
  using Write = std::function<DecoderStep(const Params&, const KeyValueCache&, const Tensor&,
                                          const Tensor&, const Tensor&)>;

  using Append = std::function<DecoderStep(const Params&, const KeyValueCache&, const Tensor&,
                                           const Tensor&, const Tensor&)>;

  using Put =
      std::function<KeyValueCache(const KeyValueCache&, const KeyValueCache&, const Tensor&)>;
  using TakeRows = std::function<KeyValueCache(const KeyValueCache&, const Tensor&)>;

  // f(p, arguments …), of all ranks that write together.
  template <class F, class... Args>
  DecoderStep together(const F& f, const Params& p, const Args&... args) const {
    return shared_ == nullptr ? f(p, args...) : shared_->divide(f, p, args...);
  }
  Tensor logits(const Params& p, const Tensor& features) const;

  std::shared_ptr<const CausalModel> model_;
  Execution execution_;
  double temperature_;
  std::shared_ptr<const SharedModel> shared_;
  Jit<Read> read_;
  Jit<Write> write_;
  Jit<Append> append_;
  Jit<Put> put_;
  Jit<TakeRows> take_rows_;
  KeyValueCache cache_;
  int64_t capacity_ = 0;
  std::vector<int32_t> lengths_;               // of the sequences
  std::vector<std::vector<int32_t>> prompts_;  // that they began with
  std::vector<int32_t> repeated_;              // tokens that the sequence before began with too
};

}  // namespace mstrain
