#include "suites/transformer/text/text_run.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/data/hf_simple.h"
#include "core/data/utf8.h"
#include "core/train/numbers.h"
#include "suites/run/stored_model.h"

namespace mstrain {
namespace {

// Ids of one tokenizer mean other text to weights that learned another one's.
void warn_of_other_tokenizer(FileSystem& files, const YamlNode& tree, const Tokenizer& chosen) {
  const std::optional<std::string> from = begins_with(tree);
  const auto theirs = from ? stored_tokenizer(files, open_model(files, *from)) : nullptr;
  const auto is_same = [](const TokenizerFile& a, const TokenizerFile& b) {
    return a.name == b.name && a.bytes == b.bytes;
  };
  if (theirs != nullptr && !std::ranges::equal(theirs->files(), chosen.files(), is_same)) {
    log_warning(
        "{}: is not the tokenizer of {}, whose weights model.init.from takes: ids mean other "
        "text to them; leave it out to take that",
        config_where(tree, "data.tokenizer"), *from);
  }
}

}  // namespace

void TextRun::declare_data(ConfigFields& fields) {
  fields("data", data, "text to train and to evaluate on");
}

void TextRun::check(const YamlNode& tree) const { check_data_config(data, tree); }

void TextRun::settle(int64_t ids, const YamlNode& tree) {
  AutoOr<int64_t>& vocab = vocab_size();
  if (vocab.is_word()) {
    vocab = ids;
  } else if (*vocab.value < ids) {
    config_fail(tree, "model.vocab_size",
                fmt::format("{} is less than the {} tokens of data.tokenizer", *vocab.value, ids));
  }
}

void TextRun::fail_unsettled(const YamlNode& tree) const {
  config_fail(tree, "model.vocab_size",
              "auto asks the tokenizer; a plan, and --offline, need a number");
}

std::optional<int64_t> TextRun::known_ids(FileSystem& files, const YamlNode& tree) const {
  return known_vocab_size(files, data, tree);
}

void TextRun::open_data(FileSystem& files, const YamlNode& tree,
                        const std::optional<std::string>& folder) {
  open_text(files, tree, folder);
  check_prompts(tree, [this](const std::string& prompt) { corpus().tokenizer->encode(prompt); });
}

void TextRun::open_text(FileSystem& files, const YamlNode& tree,
                        const std::optional<std::string>& folder) {
  use(open_corpus(files, data, tokenizer_in(files, folder), tree));
  if (!folder) {
    warn_of_other_tokenizer(files, tree, *corpus().tokenizer);
  }
}

std::shared_ptr<const Tokenizer> TextRun::tokenizer_in(FileSystem& files,
                                                       const std::optional<std::string>& folder) {
  return folder && has_tokenizer(files, *folder) ? load_tokenizer(files, *folder) : nullptr;
}

void TextRun::check_prompts(const YamlNode& tree,
                            const std::function<void(const std::string& prompt)>& encode) const {
  for (const std::string& prompt : train.eval.prompts) {
    try {
      encode(prompt);
    } catch (const Error& error) {
      config_fail(tree, "eval.prompts", error.what());
    }
  }
}

void TextRun::find_oddities_of(int64_t ids, const YamlNode& tree, Findings& findings) const {
  find_unused_split(data.valid.has_value(), data.split, decltype(data){}.split, tree, findings);
  // Sizes are rounded up for speed, and a few ids may be kept for later.
  constexpr int64_t kSpare = 1024;
  const int64_t vocab = vocab_size().value_or(ids);
  if (vocab > ids + ids / 10 + kSpare) {
    findings.push_back(fmt::format(
        "{}: {} tokens, but data.tokenizer has {}: the others are never trained; say auto",
        config_where(tree, "model.vocab_size"), grouped(vocab), grouped(ids)));
  }
}

int64_t TextRun::length_for(int64_t needed, int64_t room) const {
  const int64_t unit = 16 * train.parallel.context;  // products like such sizes
  return std::min(room, (needed + unit - 1) / unit * unit);
}

std::vector<Overrides> TextRun::samples_below(int64_t tokens) {
  std::vector<Overrides> out;
  for (int64_t seq = tokens / 2; seq >= 128; seq /= 2) {
    out.push_back({fmt::format("data.seq_length={}", seq)});
  }
  return out;
}

LeastSize TextRun::least_size_with(double parameters, int tensors) const {
  const double tokens =
      static_cast<double>(train.batch.global) * static_cast<double>(data.seq_length);
  return {parameters, tensors * tokens * sizeof(int32_t),
          fmt::format("the {:.3g} tokens of a step", tokens),
          "model.hidden_size, model.num_layers and model.vocab_size"};
}

TrainData TextRun::text_data(const Json& source) const {
  const std::shared_ptr<const Network> network = adapted_network();
  const std::shared_ptr<const Tokenizer> tokenizer = corpus().tokenizer;
  TrainData out;
  out.identity = to_string(corpus().identity);
  out.checkpoint_files = {{"config.json", config_json(source)}};
  for (const auto& files :
       {tokenizer->files(), hugging_face_files(*tokenizer, network->tokens_beside(tokenizer))}) {
    for (const TokenizerFile& file : files) {
      out.checkpoint_files.emplace_back(file.name, file.bytes);
    }
  }
  if (const std::shared_ptr<TextWriter> writer = network->writer(tokenizer, train.run.execution)) {
    out.sample = [writer](const Params& params, const std::string& prompt, int64_t tokens) {
      const WriteOptions options{tokens, {.temperature = 0.8, .seed = 1}, {}};
      const auto texts =
          writer->generate(cast_params(params, Dtype::kF32), std::span(&prompt, 1), options);
      return std::string(writer->separator()) + replace_invalid_utf8(texts.front());
    };
  }
  return out;
}

}  // namespace mstrain
