#include "suites/transformer/t5/decoder.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"

namespace mstrain::t5 {
namespace {

// Each row `copies` times.
Tensor repeated(const Tensor& x, int64_t copies) {
  if (copies == 1) {
    return x;
  }
  const Tensors same(static_cast<size_t>(copies), x);
  return flatten(stack(same, 1), 0, 1);
}

KeyValueCache reordered(const KeyValueCache& written, const Tensor& from_b) {
  KeyValueCache out;
  for (size_t i = 0; i < written.keys.size(); ++i) {
    out.keys.push_back(gather(written.keys[i], from_b, 0));
    out.values.push_back(gather(written.values[i], from_b, 0));
  }
  return out;
}

}  // namespace

// The number of copies enters read() as the length of a tensor without elements, since it decides the types of the results.
Decoder::Decoder(T5 model, Execution execution)
    : model_(std::move(model)),
      execution_(execution),
      read_([this](const Params& p, const Tensor& sources, const Tensor& lengths,
                   const Tensor& copies) { return read(p, sources, lengths, copies.dim(0)); },
            {.name = "read", .keeps_results = false, .tells = false}),
      write_([this](const Params& p, const KeyValueCache& written, const Memory& memory,
                    const Tensor& tokens,
                    const Tensor& position) { return write(p, written, memory, tokens, position); },
             {.donate = {1}, .name = "write", .tells = false}),
      reorder_(reordered, {.name = "reorder", .keeps_results = false, .tells = false}) {}

Memory Decoder::read(const Params& p, const Tensor& sources_bs, const Tensor& lengths_b,
                     int64_t copies) const {
  const int64_t b = sources_bs.dim(0);
  const int64_t s = sources_bs.dim(1);
  const Tensor seen_bs = less(iota({b, s}, 1), reshape(lengths_b, {b, 1}));
  const Tensor memory_bsc = model_.encode(p, {sources_bs, seen_bs});
  Memory out;
  for (int64_t layer = 0; layer < config().decoder_layers(); ++layer) {
    const KeysValues of_memory = model_.memory_keys(p, layer, memory_bsc);
    out.keys.push_back(repeated(of_memory.keys, copies));
    out.values.push_back(repeated(of_memory.values, copies));
  }
  out.seen = repeated(seen_bs, copies);
  return out;
}

DecoderStep Decoder::write(const Params& p, const KeyValueCache& written, const Memory& memory,
                           const Tensor& tokens_b, const Tensor& position) const {
  const int64_t b = tokens_b.dim(0);
  DecoderStep out;
  const Tensor at_b = broadcast_to(reshape(position, {1}), {b});
  DecoderView view;
  view.to_text = [&](int64_t layer, const Tensor& q, const KeysValues& own,
                     const Tensor& distances) {
    const auto i = static_cast<size_t>(layer);
    written.extend(i, own.keys, own.values, at_b, out.cache);
    return attend(p, config(), q, out.cache.keys[i], out.cache.values[i],
                  {.distances = distances, .causal = true, .start = at_b});
  };
  view.to_memory = [&](int64_t layer, const Tensor& q) {
    const auto i = static_cast<size_t>(layer);
    return attend(p, config(), q, memory.keys[i], memory.values[i], {.seen_bs = memory.seen});
  };
  const Tensor x_btc = model_.decode(p, {reshape(tokens_b, {b, 1})}, Tensor(), {}, view);
  out.logits = model_.logits(p, flatten(x_btc, 0, 1));
  return out;
}

void Decoder::start(const Params& params, std::span<const std::vector<int32_t>> sources,
                    int64_t copies, int64_t capacity) {
  const Context context = for_inference();
  const ContextScope scope(context);
  check(!sources.empty(), "there is no text to answer");
  size_t longest = 0;
  for (const auto& source : sources) {
    check(!source.empty(), "a text to answer has no token");
    longest = std::max(longest, source.size());
  }
  const auto s = static_cast<size_t>(length_bucket(static_cast<int64_t>(longest)));
  std::vector<int32_t> tokens;
  std::vector<int32_t> lengths;
  for (const auto& source : sources) {
    tokens.insert(tokens.end(), source.begin(), source.end());
    tokens.resize(tokens.size() + s - source.size(), 0);
    lengths.push_back(static_cast<int32_t>(source.size()));
  }
  const auto b = static_cast<int64_t>(sources.size());
  const Tensor sources_bs = tensor<int32_t>(tokens, {b, static_cast<int64_t>(s)});
  const Tensor lengths_b = tensor<int32_t>(lengths, {b});
  memory_ = execution_ == Execution::kEager
                ? read(params, sources_bs, lengths_b, copies)
                : read_(params, sources_bs, lengths_b, full({copies, 0}, 0));
  rows_ = b * copies;
  capacity_ = length_bucket(capacity);
  length_ = 0;
  written_ = {};
  const Tensor& keys = memory_.keys.at(0);
  for (int64_t layer = 0; layer < config().decoder_layers(); ++layer) {
    const TensorType type{keys.dtype(), {rows_, capacity_, keys.dim(2), keys.dim(3)}};
    written_.keys.push_back(copy(zeros(type)));
    written_.values.push_back(copy(zeros(type)));
  }
}

std::vector<float> Decoder::next(const Params& params, std::span<const int32_t> tokens) {
  const Context context = for_inference();
  const ContextScope scope(context);
  check(static_cast<int64_t>(tokens.size()) == rows_, "{} tokens for {} rows", tokens.size(),
        rows_);
  check(length_ < capacity_, "an answer has no room for more than {} tokens", capacity_);
  const Tensor tokens_b = tensor<int32_t>(tokens, {rows_});
  const Tensor position = full({}, static_cast<double>(length_), Dtype::kI32);
  ++length_;
  return take(execution_ == Execution::kEager
                  ? write(params, written_, memory_, tokens_b, position)
                  : write_(params, std::move(written_), memory_, tokens_b, position));
}

std::vector<float> Decoder::next_from(const Params& params, std::span<const int32_t> tokens,
                                      std::span<const int32_t> from) {
  {
    const Context context = for_inference();
    const ContextScope scope(context);
    const Tensor from_b = tensor<int32_t>(from, {rows_});
    written_ =
        execution_ == Execution::kEager ? reordered(written_, from_b) : reorder_(written_, from_b);
  }
  return next(params, tokens);
}

std::vector<float> Decoder::take(DecoderStep step) {
  written_ = std::move(step.cache);
  return to_vector<float>(cast(step.logits, Dtype::kF32));
}

}  // namespace mstrain::t5
