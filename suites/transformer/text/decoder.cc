#include "suites/transformer/text/decoder.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <unordered_map>

#include "core/base/error.h"
#include "core/nn/attention.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "suites/transformer/text/drawn.h"
#include "suites/transformer/text/window_cache.h"

namespace mstrain {
namespace {

// Whether a layer of these options keeps `slots` positions in a ring, of whatever capacity. Sums over a ring would begin where it does.
bool is_ring(const AttentionOptions& options, int64_t slots) {
  return options.window > 0 && options.window <= slots && !current_context().batch_invariant;
}

}  // namespace

// The capacity enters read() as the length of a tensor without elements, since it decides the types of the results.
Decoder::Decoder(std::shared_ptr<const CausalModel> model, Execution execution, double temperature,
                 std::shared_ptr<const SharedModel> shared)
    : model_(std::move(model)),
      execution_(execution),
      temperature_(temperature),
      shared_(std::move(shared)),
      read_(
          [this](const Params& p, const Tensor& tokens, const Tensor& lengths,
                 const Tensor& prompts, const Tensor& room) {
            return together(
                [this](const Params& all, const Tensor& tokens_pt, const Tensor& lengths_p,
                       const Tensor& prompts_b, const Tensor& capacity) {
                  return read(all, tokens_pt, lengths_p, prompts_b, capacity.dim(0));
                },
                p, tokens, lengths, prompts, room);
          },
          {.name = "read", .keeps_results = false, .tells = false}),
      write_(
          [this](const Params& p, const KeyValueCache& cache, const Tensor& tokens,
                 const Tensor& positions, const Tensor& repeated) {
            return together(std::bind_front(&Decoder::write, this), p, cache, tokens, positions,
                            repeated);
          },
          {.donate = {1}, .name = "write", .tells = false}),
      append_(
          [this](const Params& p, const KeyValueCache& cache, const Tensor& tokens,
                 const Tensor& starts, const Tensor& counts) {
            return together(std::bind_front(&Decoder::append, this), p, cache, tokens, starts,
                            counts);
          },
          {.donate = {1}, .name = "append", .tells = false}),
      put_([](const KeyValueCache& cache, const KeyValueCache& other,
              const Tensor& rows) { return cache.with(other, rows); },
           {.donate = {0}, .name = "put", .tells = false}),
      take_rows_([](const KeyValueCache& cache, const Tensor& rows) { return cache.rows(rows); },
                 {.name = "take_rows", .keeps_results = false, .tells = false}) {}

std::vector<float> Decoder::log_probs(const Tensor& logits, const Tensor& targets,
                                      const Tensor& support) const {
  return to_vector<float>(shared_ != nullptr && !support.defined()
                              ? shared_->log_probs(logits, targets)
                              : drawn_log_probs(logits, targets, support));
}

Tensor Decoder::logits(const Params& p, const Tensor& features) const {
  return model_->logits(p, at_temperature(features, temperature_));
}

int64_t Decoder::bucket(int64_t length, int64_t sequences) const {
  return std::min(length_bucket(length, sequences), model_->max_positions());
}

DecoderStep Decoder::read(const Params& p, const Tensor& tokens_pt, const Tensor& lengths_p,
                          const Tensor& prompts_b, int64_t capacity) const {
  const int64_t b = tokens_pt.dim(0);
  const int64_t t = tokens_pt.dim(1);
  const auto by_sequence = [&](const Tensor& x) {
    return prompts_b.dim(0) == b ? x : gather(x, prompts_b, 0);
  };
  DecoderStep out;
  // Attention is causal: padding after a prompt changes nothing in it, and is kept as zeros.
  const Tensor is_token = reshape(less(iota({b, t}, 1), reshape(lengths_p, {b, 1})), {b, t, 1, 1});
  const auto kept = [&](const Tensor& x_bthd) {
    return pad(where(is_token, x_bthd, 0), {0, 0, 0, 0}, {0, capacity - t, 0, 0});
  };
  TokenView view{.lengths_b = lengths_p};
  view.attend = [&](int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v) {
    const AttentionOptions options = model_->attention_options(layer);
    const auto keep = [&](const Tensor& x_bthd) {
      return by_sequence(is_ring(options, capacity) ? ring_of(x_bthd, zeros({Dtype::kI32, {b}}),
                                                              lengths_p - 1, options.window)
                                                    : kept(x_bthd));
    };
    out.cache.keys.push_back(keep(k));
    out.cache.values.push_back(keep(v));
    return attention(q, k, v, options);
  };
  const Tensor x_ptc = model_->features(p, tokens_pt, view);
  const Tensor last_p = row_offsets(b, t) + lengths_p - 1;
  out.logits = by_sequence(logits(p, gather(flatten(x_ptc, 0, 1), last_p, 0)));
  return out;
}

DecoderStep Decoder::write(const Params& p, const KeyValueCache& cache, const Tensor& tokens_b,
                           const Tensor& positions_b, const Tensor& repeated_b) const {
  const int64_t b = tokens_b.dim(0);
  DecoderStep out;
  TokenView view{.positions_bt = reshape(positions_b, {b, 1}), .lengths_b = positions_b + 1};
  view.attend = [&](int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v) {
    const auto i = static_cast<size_t>(layer);
    AttentionOptions options = model_->attention_options(layer);
    if (const int64_t slots = cache.keys[i].dim(1); is_ring(options, slots)) {
      out.cache.keys.push_back(ring_with(cache.keys[i], k, positions_b));
      out.cache.values.push_back(ring_with(cache.values[i], v, positions_b));
      options.causal = false;  // the ring is what the token sees
      options.window = 0;
      options.key_mask = ring_holds(positions_b, slots);
    } else {
      cache.extend(i, k, v, positions_b, out.cache);
      options.start = positions_b;
      options.repeated_keys = repeated_b;
    }
    return attention(q, out.cache.keys[i], out.cache.values[i], options);
  };
  const Tensor x_btc = model_->features(p, reshape(tokens_b, {b, 1}), view);
  out.logits = logits(p, flatten(x_btc, 0, 1));
  return out;
}

DecoderStep Decoder::append(const Params& p, const KeyValueCache& cache, const Tensor& tokens_bt,
                            const Tensor& starts_b, const Tensor& counts_b) const {
  const int64_t b = tokens_bt.dim(0);
  const int64_t t = tokens_bt.dim(1);
  const Tensor is_token_bt = less(iota({b, t}, 1), reshape(counts_b, {b, 1}));
  // Padding adds zeros to the first slot.
  const Tensor positions_bt = where(is_token_bt, reshape(starts_b, {b, 1}) + iota({b, t}, 1), 0);
  const auto kept = [&](const Tensor& x_bthd) {
    return where(reshape(is_token_bt, {b, t, 1, 1}), x_bthd, 0);
  };
  DecoderStep out;
  TokenView view{.positions_bt = positions_bt, .lengths_b = starts_b + counts_b};
  view.attend = [&](int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v) {
    const auto i = static_cast<size_t>(layer);
    AttentionOptions options = model_->attention_options(layer);
    if (const int64_t slots = cache.keys[i].dim(1); is_ring(options, slots)) {
      const Tensor keys = unrolled(cache.keys[i], k, starts_b);
      const Tensor values = unrolled(cache.values[i], v, starts_b);
      const Tensor first_b = starts_b - slots;
      const Tensor last_b = starts_b + counts_b - 1;
      out.cache.keys.push_back(ring_of(keys, first_b, last_b, slots));
      out.cache.values.push_back(ring_of(values, first_b, last_b, slots));
      options.start = full({}, slots, Dtype::kI32);
      options.key_mask = greater_equal(iota({b, slots + t}, 1) + reshape(first_b, {b, 1}), 0);
      return attention(q, keys, values, options);
    }
    cache.extend(i, kept(k), kept(v), positions_bt, out.cache);
    options.start = starts_b;
    return attention(q, out.cache.keys[i], out.cache.values[i], options);
  };
  const Tensor x_btc = model_->features(p, tokens_bt, view);
  const Tensor last_b = row_offsets(b, t) + counts_b - 1;
  out.logits = logits(p, gather(flatten(x_btc, 0, 1), last_b, 0));
  return out;
}

Decoder::Padded Decoder::padded(std::span<const std::span<const int32_t>> tokens,
                                int64_t sequences) const {
  check(!tokens.empty(), "there is no prompt");
  size_t longest = 0;
  std::vector<int32_t> counts;
  for (const auto& row : tokens) {
    check(!row.empty(), "a prompt has no token");
    longest = std::max(longest, row.size());
    counts.push_back(static_cast<int32_t>(row.size()));
  }
  check(static_cast<int64_t>(longest) <= model_->max_positions(),
        "a prompt of {} tokens is longer than the model's {}", longest, model_->max_positions());
  const int64_t t = bucket(static_cast<int64_t>(longest), sequences);
  std::vector<int32_t> all;
  for (const auto& row : tokens) {
    all.insert(all.end(), row.begin(), row.end());
    all.resize(all.size() + static_cast<size_t>(t) - row.size(), 0);
  }
  const auto rows = static_cast<int64_t>(tokens.size());
  return {tensor<int32_t>(all, {rows, t}), tensor<int32_t>(counts, {rows})};
}

DecoderStep Decoder::read_prompts(const Params& params,
                                  std::span<const std::span<const int32_t>> prompts) {
  std::vector<std::span<const int32_t>> different;
  std::vector<int32_t> which;
  std::unordered_map<std::string_view, int32_t> seen;
  for (const std::span<const int32_t> prompt : prompts) {
    const std::string_view bytes(reinterpret_cast<const char*>(prompt.data()), prompt.size_bytes());
    const auto [at, is_new] = seen.emplace(bytes, static_cast<int32_t>(different.size()));
    if (is_new) {
      different.push_back(prompt);
    }
    which.push_back(at->second);
  }
  // In sixteenths of the sequences, so that few programs are compiled.
  const size_t part = std::max<size_t>(prompts.size() / 16, 1);
  const size_t read_at_once = (different.size() + part - 1) / part * part;
  if (read_at_once >= prompts.size()) {
    different.assign(prompts.begin(), prompts.end());
  } else {
    different.resize(read_at_once, different.front());
  }
  const Padded given = padded(different, std::ssize(lengths_));
  const Tensor prompts_b = tensor<int32_t>(which, {std::ssize(prompts)});
  return execution_ == Execution::kEager
             ? read(params, given.tokens_bt, given.counts_b, prompts_b, capacity_)
             : read_(params, given.tokens_bt, given.counts_b, prompts_b, full({capacity_, 0}, 0));
}

std::vector<float> Decoder::start(const Params& params,
                                  std::span<const std::span<const int32_t>> prompts,
                                  int64_t capacity) {
  const Context context = for_inference();
  const ContextScope scope(context);
  lengths_.clear();
  prompts_.clear();
  for (const std::span<const int32_t> prompt : prompts) {
    lengths_.push_back(static_cast<int32_t>(prompt.size()));
    prompts_.emplace_back(prompt.begin(), prompt.end());
    capacity = std::max(capacity, std::ssize(prompt));
  }
  capacity_ = bucket(capacity, std::ssize(prompts));
  note_repeated();
  cache_ = {};
  return take(read_prompts(params, prompts));
}

std::vector<float> Decoder::replace(const Params& params, std::span<const int32_t> sequences,
                                    std::span<const std::span<const int32_t>> prompts) {
  const Context context = for_inference();
  const ContextScope scope(context);
  check(sequences.size() == prompts.size() && !prompts.empty(), "{} prompts for {} sequences",
        prompts.size(), sequences.size());
  // The last one again and again, so that few programs are compiled.
  std::vector<int32_t> places(sequences.begin(), sequences.end());
  std::vector<std::span<const int32_t>> read(prompts.begin(), prompts.end());
  const size_t count = std::min(std::bit_ceil(read.size()), lengths_.size());
  places.resize(count, places.back());
  read.resize(count, read.back());
  for (size_t i = 0; i < sequences.size(); ++i) {
    check(std::ssize(prompts[i]) <= capacity_, "a prompt of {} tokens, where there is room for {}",
          prompts[i].size(), capacity_);
    const auto place = static_cast<size_t>(sequences[i]);
    lengths_.at(place) = static_cast<int32_t>(prompts[i].size());
    prompts_.at(place).assign(prompts[i].begin(), prompts[i].end());
  }
  note_repeated();
  DecoderStep step = read_prompts(params, read);
  const Tensor places_m = tensor<int32_t>(places, {std::ssize(places)});
  cache_ = execution_ == Execution::kEager ? cache_.with(step.cache, places_m)
                                           : put_(std::move(cache_), step.cache, places_m);
  std::vector<float> logits = to_vector<float>(cast(step.logits, Dtype::kF32));
  logits.resize(logits.size() / count * prompts.size());
  return logits;
}

void Decoder::keep(std::span<const int32_t> sequences) {
  const Context context = for_inference();
  const ContextScope scope(context);
  std::vector<int32_t> lengths;
  std::vector<std::vector<int32_t>> prompts;
  for (const int32_t sequence : sequences) {
    lengths.push_back(lengths_.at(static_cast<size_t>(sequence)));
    prompts.push_back(prompts_.at(static_cast<size_t>(sequence)));
  }
  lengths_ = std::move(lengths);
  prompts_ = std::move(prompts);
  note_repeated();
  const Tensor rows = tensor<int32_t>(sequences, {std::ssize(sequences)});
  cache_ = execution_ == Execution::kEager ? cache_.rows(rows) : take_rows_(cache_, rows);
}

std::vector<float> Decoder::next(const Params& params,
                                 std::span<const std::span<const int32_t>> tokens) {
  const Context context = for_inference();
  const ContextScope scope(context);
  check(tokens.size() == lengths_.size(), "tokens for {} sequences instead of {}", tokens.size(),
        lengths_.size());
  const Padded given = padded(tokens, std::ssize(tokens));
  const Tensor starts_b = tensor<int32_t>(lengths_, {static_cast<int64_t>(lengths_.size())});
  for (size_t i = 0; i < tokens.size(); ++i) {
    lengths_[i] += static_cast<int32_t>(tokens[i].size());
    check(lengths_[i] <= capacity_, "a sequence has no room for more than {} tokens", capacity_);
  }
  return take(execution_ == Execution::kEager
                  ? append(params, cache_, given.tokens_bt, starts_b, given.counts_b)
                  : append_(params, std::move(cache_), given.tokens_bt, starts_b, given.counts_b));
}

std::vector<float> Decoder::next(const Params& params, std::span<const int32_t> tokens) {
  const Context context = for_inference();
  const ContextScope scope(context);
  check(tokens.size() == lengths_.size(), "{} tokens for {} sequences", tokens.size(),
        lengths_.size());
  std::vector<int32_t> given(tokens.begin(), tokens.end());
  std::vector<int32_t> positions = lengths_;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] == kIdle) {
      given[i] = 0;
      positions[i] = std::min(positions[i], static_cast<int32_t>(capacity_ - 1));
      continue;
    }
    check(lengths_[i] < capacity_, "a sequence has no room for more than {} tokens", capacity_);
    ++lengths_[i];
  }
  const Shape rows{static_cast<int64_t>(tokens.size())};
  const Tensor tokens_b = tensor<int32_t>(given, rows);
  const Tensor positions_b = tensor<int32_t>(positions, rows);
  const Tensor repeated_b = tensor<int32_t>(repeated_, rows);
  return take(execution_ == Execution::kEager
                  ? write(params, cache_, tokens_b, positions_b, repeated_b)
                  : write_(params, std::move(cache_), tokens_b, positions_b, repeated_b));
}

void Decoder::note_repeated() {
  repeated_.assign(prompts_.size(), 0);
  for (size_t i = 1; i < prompts_.size(); ++i) {
    const std::vector<int32_t>&before = prompts_[i - 1], &here = prompts_[i];
    const auto end = std::ranges::mismatch(before, here).in2 - here.begin();
    // Where keys turn by the length of a text, those of texts of other lengths differ.
    const bool alike = before.size() == here.size() || !model_->turns_by_length(capacity_);
    repeated_[i] = alike ? static_cast<int32_t>(end) : 0;
  }
}

std::vector<float> Decoder::take(DecoderStep step) {
  cache_ = std::move(step.cache);
  return to_vector<float>(cast(step.logits, Dtype::kF32));
}

}  // namespace mstrain
