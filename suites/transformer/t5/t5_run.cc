#include "suites/transformer/t5/t5_run.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/log.h"

namespace mstrain::t5 {

void T5Run::declare_data(ConfigFields& fields) {
  fields("data", section_, "text, or pairs of texts, to train and to evaluate on");
}

void T5Run::check(const YamlNode& tree) const {
  TextRun::check(tree);
  check_config(model, tree);
  if (is_pairs()) {
    return;
  }
  try {
    const SpanCorruption::Sizes longest = corruption().longest();
    if (longest.spans > model.extra_ids) {
      config_fail(tree, "model.extra_ids",
                  fmt::format("{} sentinels, but samples have up to {} spans: lower "
                              "data.seq_length or data.span_corruption.rate, or raise it",
                              model.extra_ids, longest.spans));
    }
  } catch (const ConfigError&) {
    throw;
  } catch (const Error& error) {
    config_fail(tree, "data.seq_length", error.what());
  }
  if (sampling.target_length) {
    config_fail(tree, "data.target_length",
                "is for pairs; of span corruption it follows from data.seq_length");
  }
}

void T5Run::settle(int64_t ids, const YamlNode& tree) {
  // Sentinels that no tokenizer has are the model's to leave out.
  if (vocabulary_ != nullptr && model.vocab_size.value.value_or(ids) < ids) {
    const auto added = std::ranges::count_if(
        vocabulary_->beside().added,
        [](const std::string& token) { return token.starts_with("<extra_id_"); });
    if (added > 0) {
      config_fail(tree, "model.extra_ids",
                  fmt::format("with {} sentinels there are {} tokens, and the model has {}; say {}",
                              added, ids, *model.vocab_size.value,
                              std::max<int64_t>(0, added - (ids - *model.vocab_size.value))));
    }
  }
  TextRun::settle(ids, tree);
  if (vocabulary_ == nullptr) {
    return;  // a plan of a model whose data cannot be opened
  }
  if (model.pad_token.is_word()) {
    model.pad_token = vocabulary_->pad();
  }
  if (model.decoder_start_token.is_word()) {
    model.decoder_start_token = *model.pad_token.value;
  }
  if (model.eos_token.is_word()) {
    model.eos_token = vocabulary_->end();
  } else if (*model.eos_token.value != vocabulary_->end()) {
    config_fail(tree, "model.eos_token",
                fmt::format("{}, but texts of data.tokenizer end with {}", *model.eos_token.value,
                            vocabulary_->end()));
  }
}

std::optional<int64_t> T5Run::known_ids(FileSystem& files, const YamlNode& tree) const {
  if (!TextRun::known_ids(files, tree)) {
    return std::nullopt;
  }
  const std::string path = data.tokenizer.path.value_or("byte");
  return Seq2SeqVocabulary(load_tokenizer(files, path), model.tokens()).size();
}

void T5Run::open_data(FileSystem& files, const YamlNode& tree,
                      const std::optional<std::string>& folder) {
  if (is_pairs()) {
    pairs_ = std::make_shared<const PairCorpus>(
        open_pairs(files, data, model.tokens(), tokenizer_in(files, folder), tree));
    use({.tokenizer = pairs_->tokenizer, .identity = pairs_->identity});
  } else {
    open_text(files, tree, folder);
  }
  vocabulary_ = std::make_shared<const Seq2SeqVocabulary>(corpus().tokenizer, model.tokens());
  if (!is_pairs() && corruption().longest().spans > vocabulary_->sentinels()) {
    config_fail(tree, "data.tokenizer",
                fmt::format("has {} sentinels, counted on from <extra_id_0>, but samples have up "
                            "to {} spans: lower data.seq_length or data.span_corruption.rate",
                            vocabulary_->sentinels(), corruption().longest().spans));
  }
  check_prompts(tree, [this](const std::string& prompt) { vocabulary_->encode(prompt); });
}

void T5Run::take_data_of(const ModelRun& opened) {
  if (const auto* const other = dynamic_cast<const T5Run*>(&opened)) {
    pairs_ = other->pairs_;
  }
}

void T5Run::find_oddities_of(int64_t ids, const YamlNode& tree, Findings& findings) const {
  TextRun::find_oddities_of(ids, tree, findings);
  if (train.precision.params == FloatType::kFp16) {
    findings.push_back(
        fmt::format("{}: the stream of a T5 grows beyond the range of fp16; say bf16",
                    config_where(tree, "precision.params")));
  }
}

BatchShape T5Run::batch_shape() const {
  if (is_pairs()) {
    const int64_t target = sampling.target_length.value_or(data.seq_length);
    if (data.packing || pairs_ == nullptr) {
      return {data.packing ? Rows::kPacked : Rows::kPadded, data.seq_length, target};
    }
    int64_t longest_source = 0;
    int64_t longest_target = 0;
    const auto add = [&](const Pairs& pairs) {
      longest_source = std::max(longest_source, pairs.longest_source());
      longest_target = std::max(longest_target, pairs.longest_target());
    };
    for (const WeightedPairs& pairs : pairs_->train) {
      add(*pairs.pairs);
    }
    for (const PairCorpus::HeldOut& set : pairs_->valid) {
      add(*set.pairs);
    }
    // Each text has an end.
    return {Rows::kPadded, length_for(longest_source + 1, data.seq_length),
            length_for(longest_target + 1, target)};
  }
  const SpanCorruption::Sizes longest = corruption().longest();
  return {data.packing ? Rows::kFull : Rows::kPadded, longest.source(), longest.target()};
}

TrainTask T5Run::task() const {
  return make_task(T5(model, train.memory.recompute), *network(), batch_shape());
}

RowTokens T5Run::row_tokens() const {
  return {.pad = static_cast<int32_t>(*model.pad_token.value),
          .start = static_cast<int32_t>(*model.decoder_start_token.value),
          .end = static_cast<int32_t>(*model.eos_token.value)};
}

TrainData T5Run::samples(const Json& source) const {
  TrainData out = text_data(source);
  if (is_pairs()) {
    add_pairs(out);
  } else {
    add_corrupted(out);
  }
  return out;
}

void T5Run::add_held_out(const std::string& name, std::shared_ptr<const Seq2SeqSource> source,
                         const RowTokens& tokens, int64_t samples, TrainData& out) {
  const auto first = [source = std::move(source), tokens](const BatchPart& part, int64_t count) {
    return batches_of(std::make_shared<FirstSamples>(source, tokens, count), part, 0);
  };
  out.evaluation.push_back({name, first, samples});
}

void T5Run::add_corrupted(TrainData& out) const {
  constexpr uint64_t kSeedOfEvaluation =
      0;  // the same for all runs: what they measure is comparable
  const SpanCorruption corruption = this->corruption();
  const int64_t length = corruption.longest().text;
  const bool packing = data.packing;
  const RowTokens tokens = row_tokens();
  const auto corrupted = [vocabulary = vocabulary_, corruption, tokens, packing](
                             std::shared_ptr<const WindowSource> windows, uint64_t seed) {
    return std::make_shared<CorruptedWindows>(std::move(windows), corruption, vocabulary, tokens,
                                              packing, seed);
  };
  out.training = [streams = corpus().train, length, shuffle = data.shuffle, packing, corrupted](
                     uint64_t seed, const BatchPart& part, int64_t first) {
    auto windows = std::make_shared<TrainingWindows>(
        streams, TrainingWindows::Options{
                     .seq_length = length, .shuffle = shuffle, .seed = seed, .packing = packing});
    return batches_of(corrupted(std::move(windows), seed), part, first);
  };
  for (const auto& [name, stream] : corpus().valid) {
    if (packing) {
      const auto windows = std::make_shared<WholeWindows>(stream, length);
      add_held_out(name, corrupted(windows, kSeedOfEvaluation), tokens, windows->samples(), out);
    } else {
      const auto windows =
          std::make_shared<EvaluationWindows>(stream, length, -1, /*packing=*/false);
      add_held_out(name, corrupted(windows, kSeedOfEvaluation), tokens, windows->samples(), out);
    }
  }
}

std::shared_ptr<const PairRows> T5Run::rows_of(std::shared_ptr<const Pairs> pairs) const {
  const BatchShape shape = batch_shape();
  const int64_t count = pairs->size();
  auto rows = std::make_shared<PairRows>(std::move(pairs), shape.source_length, shape.target_length,
                                         data.packing);
  if (rows->cut() > 0) {
    log_warning("{} of {} pairs are longer than data.seq_length or data.target_length, and cut off",
                rows->cut(), count);
  }
  return rows;
}

void T5Run::add_pairs(TrainData& out) const {
  const RowTokens tokens = row_tokens();
  std::vector<WeightedRows> sources;
  for (const WeightedPairs& pairs : pairs_->train) {
    sources.push_back({rows_of(pairs.pairs), pairs.weight});
  }
  out.training = [sources, tokens, shuffle = data.shuffle](uint64_t seed, const BatchPart& part,
                                                           int64_t first) {
    return batches_of(std::make_shared<TrainingPairs>(sources, tokens, shuffle, seed), part, first);
  };
  for (const PairCorpus::HeldOut& set : pairs_->valid) {
    const std::vector<WeightedRows> rows{{rows_of(set.pairs), 1}};
    add_held_out(set.name, std::make_shared<TrainingPairs>(rows, tokens, /*shuffle=*/false, 0),
                 tokens, rows[0].rows->count(), out);
  }
}

// Nearly: norms and distances are left out.
LeastSize T5Run::least_size() const {
  const auto width = static_cast<double>(model.hidden_size);
  const double attention =
      4 * width * static_cast<double>(model.num_attention_heads) * static_cast<double>(model.d_kv);
  const double inner = (model.gated ? 3 : 2) * width * static_cast<double>(model.ffn_hidden_size);
  const double parameters =
      static_cast<double>(model.vocab_size.value_or(1)) * width * (model.tie_embeddings ? 1 : 2) +
      static_cast<double>(model.num_layers) * (attention + inner) +
      static_cast<double>(model.decoder_layers()) * (2 * attention + inner);
  return least_size_with(parameters, 3);
}

std::vector<Overrides> T5Run::smaller_samples() const {
  return is_pairs() ? samples_below(batch_shape().source_length) : TextRun::smaller_samples();
}

Overrides T5Run::with_layers(int64_t layers) const {
  // Both stacks keep their shares.
  const int64_t all = model.num_layers + model.decoder_layers();
  const int64_t encoder =
      std::clamp<int64_t>((layers * model.num_layers + all / 2) / all, 1, layers - 1);
  return {fmt::format("model.num_layers={}", encoder),
          fmt::format("model.num_decoder_layers={}", layers - encoder)};
}

ModelEntry entry() { return entry_of<T5Run, T5Network, config_from_hf>("t5", {"t5", "mt5"}); }

}  // namespace mstrain::t5
