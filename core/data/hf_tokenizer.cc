// Hugging Face's tokenizer.json.
#include <algorithm>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/data/bpe_tokenizer.h"
#include "core/data/hf_bpe_vocabulary.h"
#include "core/data/hf_sections.h"
#include "core/data/hf_sentencepiece_bpe.h"
#include "core/data/hf_unigram.h"
#include "core/data/json_fields.h"
#include "core/data/tokenizer_files.h"

namespace mstrain {
namespace {

struct KnownPattern {
  std::string_view regex;
  SplitPattern split;
};
constexpr KnownPattern kPatterns[] = {{kGpt2Pattern, SplitPattern::kGpt2},
                                      {kLlama3Pattern, SplitPattern::kLlama3},
                                      {kQwen2Pattern, SplitPattern::kQwen2}};

// How a byte-level BPE cuts text into pieces.
void read_bpe_pre_tokenizer(const Json& json, const std::string& where, BpeSpec& spec) {
  JsonFields fields(json, where);
  const std::string type = fields.text("type");
  const auto byte_level = [&](JsonFields& of) {
    spec.add_prefix_space = of.boolean("add_prefix_space", true);
    of.boolean("trim_offsets", true);  // moves offsets, not ids
    const bool split = of.boolean("use_regex", true);
    of.finish();
    return split;
  };
  if (type == "ByteLevel") {
    spec.split = byte_level(fields) ? SplitPattern::kGpt2 : SplitPattern::kNone;
    return;
  }
  if (type != "Sequence") {
    fields.refuse("type", fmt::format("\"{}\" is not supported for BPE; ByteLevel is", type));
  }
  const Json& steps = fields.required("pretokenizers");
  fields.finish();
  if (!steps.is_array() || steps.empty() || steps.size() > 2) {
    fields.refuse("pretokenizers", "expected ByteLevel, or Split and ByteLevel");
  }
  if (steps.size() == 1) {
    read_bpe_pre_tokenizer(steps[0], fields.at("pretokenizers[0]"), spec);
    return;
  }
  JsonFields split(steps[0], fields.at("pretokenizers[0]"));
  const std::string first = split.text("type");
  if (first != "Split") {
    split.refuse("type", fmt::format("\"{}\" is not supported before ByteLevel; Split is", first));
  }
  JsonFields pattern(split.required("pattern"), split.at("pattern"));
  const std::string regex = pattern.text("Regex");
  const auto known = std::find_if(std::begin(kPatterns), std::end(kPatterns),
                                  [&](const KnownPattern& each) { return each.regex == regex; });
  if (known == std::end(kPatterns)) {
    pattern.refuse("Regex",
                   fmt::format("{} is not supported; GPT-2's pattern {}, Llama 3's {} and "
                               "Qwen2's {} are",
                               shown(Json(regex)), kGpt2Pattern, kLlama3Pattern, kQwen2Pattern));
  }
  spec.split = known->split;
  pattern.finish();
  // Every character belongs to a match, so these two say the same.
  const std::string behavior = split.text("behavior");
  const bool invert = split.boolean("invert", false);
  if (!(behavior == "Isolated" && !invert) && !(behavior == "Removed" && invert)) {
    split.refuse("behavior", fmt::format("\"{}\" with invert {} is not supported; \"Isolated\" "
                                         "with invert false is",
                                         behavior, invert));
  }
  split.finish();
  JsonFields bytes(steps[1], fields.at("pretokenizers[1]"));
  if (const std::string second = bytes.text("type"); second != "ByteLevel") {
    bytes.refuse("type", fmt::format("\"{}\" is not supported after Split; ByteLevel is", second));
  }
  if (byte_level(bytes) || spec.add_prefix_space) {
    bytes.refuse(spec.add_prefix_space ? "add_prefix_space" : "use_regex",
                 "true is not supported after Split");
  }
}

std::shared_ptr<const Tokenizer> read_bpe(JsonFields& top, JsonFields& model, BpeSpec spec) {
  if (const Json* normalizer = top.find("normalizer"); normalizer != nullptr) {
    JsonFields fields(*normalizer, top.at("normalizer"));
    if (const std::string type = fields.text("type"); type != "NFC") {
      fields.refuse("type",
                    fmt::format("\"{}\" is not supported for byte-level BPE; NFC is", type));
    }
    fields.finish();
    spec.nfc = true;
  }
  const Json* pre = top.find("pre_tokenizer");
  if (pre == nullptr) {
    top.refuse("pre_tokenizer", "null is not supported for BPE; ByteLevel is");
  }
  read_bpe_pre_tokenizer(*pre, top.at("pre_tokenizer"), spec);
  if (const Json* decoder = top.find("decoder"); decoder != nullptr) {
    JsonFields fields(*decoder, top.at("decoder"));
    if (const std::string type = fields.text("type"); type != "ByteLevel") {
      fields.refuse("type", fmt::format("\"{}\" is not supported for BPE; ByteLevel is", type));
    }
  }
  hf::BpeVocabulary given = hf::read_bpe_vocabulary(model);
  if (given.byte_fallback) {
    model.refuse("byte_fallback", "true is not supported for byte-level BPE");
  }
  spec.vocab = std::move(given.vocab);
  spec.merges = std::move(given.merges);
  spec.unk_token = std::move(given.unk_token);
  spec.fuse_unk = given.fuse_unk;
  spec.ignore_merges = given.ignore_merges;
  return std::make_shared<BpeTokenizer>(std::move(spec));
}

// The template may name ids of another vocabulary.
std::shared_ptr<const Tokenizer> with_checked_template(std::shared_ptr<const Tokenizer> tokenizer,
                                                       const JsonFields& top) {
  const SpecialIds special = tokenizer->special();
  for (const auto* ids : {&special.before, &special.after}) {
    for (const int32_t id : *ids) {
      if (id >= tokenizer->vocab_size()) {
        top.refuse("post_processor", fmt::format("id {} is not below the vocabulary's size {}", id,
                                                 tokenizer->vocab_size()));
      }
    }
  }
  return tokenizer;
}

}  // namespace

std::shared_ptr<const Tokenizer> tokenizer_from_hf(const NamedText& file,
                                                   std::vector<TokenizerFile> beside) {
  const Json json = parse_json(file.text, file.path);
  JsonFields top(json, file.path);
  if (const std::string version = top.text("version", "1.0"); version != "1.0") {
    top.refuse("version", fmt::format("\"{}\" is unknown; \"1.0\" is known", version));
  }
  for (const char* key : {"truncation", "padding"}) {  // how whoever saved it made batches
    if (const Json* of_batches = top.find(key); of_batches != nullptr && !of_batches->is_object()) {
      top.refuse(key, "expected an object or null");
    }
  }
  JsonFields model(top.required("model"), top.at("model"));
  std::string type = model.text("type", "");
  if (type.empty()) {  // files of before 2021
    const Json* vocab = model.find("vocab");
    type = model.find("merges") != nullptr         ? "BPE"
           : vocab != nullptr && vocab->is_array() ? "Unigram"
                                                   : "";
  }
  hf::HfCommon common{file.path, hf::read_added_tokens(top), hf::read_post_processor(top),
                      std::move(beside)};
  common.named = hf::named_tokens(common.files, common.source);
  common.files.insert(common.files.begin(), {"tokenizer.json", std::string(file.text)});
  for (const char* key : {"normalizer", "pre_tokenizer", "decoder"}) {
    top.find(key);  // read below
  }
  top.finish();
  if (type == "BPE" && hf::is_over_characters(top)) {
    return with_checked_template(hf::read_sentencepiece_bpe(top, model, std::move(common)), top);
  }
  if (type == "BPE") {
    BpeSpec spec;
    spec.source = std::move(common.source);
    spec.added = std::move(common.added);
    spec.special = std::move(common.special);
    spec.named = std::move(common.named);
    spec.files = std::move(common.files);
    return with_checked_template(read_bpe(top, model, std::move(spec)), top);
  }
  if (type == "Unigram") {
    return with_checked_template(hf::read_unigram(top, model, std::move(common)), top);
  }
  model.refuse("type", fmt::format("\"{}\" is not supported; BPE and Unigram are", type));
}

}  // namespace mstrain
