// Hugging Face's tokenizer.json.
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/data/bpe_tokenizer.h"
#include "core/data/hf_sections.h"
#include "core/data/hf_unigram.h"
#include "core/data/json_fields.h"
#include "core/data/tokenizer_files.h"

namespace mstrain {
namespace {

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
    spec.split = byte_level(fields);
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
  if (const std::string regex = pattern.text("Regex"); regex != kGpt2Pattern) {
    pattern.refuse("Regex", fmt::format("{} is not supported; GPT-2's pattern {} is",
                                        shown(Json(regex)), kGpt2Pattern));
  }
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

void read_bpe_model(JsonFields& model, BpeSpec& spec) {
  if (const Json* dropout = model.find("dropout"); dropout != nullptr && *dropout != 0) {
    model.refuse("dropout", "is not supported; only null is");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (const std::string affix = model.text(key, ""); !affix.empty()) {
      model.refuse(key, fmt::format("\"{}\" is not supported; only null is", affix));
    }
  }
  if (model.boolean("byte_fallback", false)) {
    model.refuse("byte_fallback", "true is not supported for byte-level BPE");
  }
  if (const std::string unk = model.text("unk_token", ""); !unk.empty()) {
    spec.unk_token = unk;
  }
  spec.fuse_unk = model.boolean("fuse_unk", false);
  spec.ignore_merges = model.boolean("ignore_merges", false);
  const Json& vocab = model.required("vocab");
  if (!vocab.is_object()) {
    model.refuse("vocab", fmt::format("expected an object, found {}", shown(vocab)));
  }
  spec.vocab.reserve(vocab.size());
  for (const auto& [token, id] : vocab.items()) {
    spec.vocab.emplace_back(token, hf::token_id(id, model.at("vocab")));
  }
  const Json& merges = model.required("merges");
  if (!merges.is_array()) {
    model.refuse("merges", fmt::format("expected a list, found {}", shown(merges)));
  }
  for (const Json& merge : merges) {
    const size_t index = spec.merges.size();
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space != text.npos && text.find(' ', space + 1) == text.npos) {
        spec.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
      }
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      spec.merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    }
    if (spec.merges.size() == index) {
      model.refuse(fmt::format("merges[{}]", index),
                   fmt::format("expected two tokens, found {}", shown(merge)));
    }
  }
  model.finish();
}

std::shared_ptr<const Tokenizer> read_bpe(JsonFields& top, JsonFields& model, BpeSpec spec) {
  if (const Json* normalizer = top.find("normalizer"); normalizer != nullptr) {
    JsonFields fields(*normalizer, top.at("normalizer"));
    fields.refuse(
        "type", fmt::format("\"{}\" is not supported for BPE; only null is", fields.text("type")));
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
  read_bpe_model(model, spec);
  return std::make_shared<BpeTokenizer>(std::move(spec));
}

}  // namespace

std::shared_ptr<const Tokenizer> tokenizer_from_hf(const NamedText& file) {
  const Json json = parse_json(file.text, file.path);
  JsonFields top(json, file.path);
  if (const std::string version = top.text("version", "1.0"); version != "1.0") {
    top.refuse("version", fmt::format("\"{}\" is unknown; \"1.0\" is known", version));
  }
  for (const char* key : {"truncation", "padding"}) {
    if (top.find(key) != nullptr) {
      top.refuse(key, "is not supported; set it to null");
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
  hf::HfCommon common{file.path,
                      hf::read_added_tokens(top),
                      hf::read_post_processor(top),
                      {{"tokenizer.json", std::string(file.text)}}};
  for (const char* key : {"normalizer", "pre_tokenizer", "decoder"}) {
    top.find(key);  // read below
  }
  top.finish();
  if (type == "BPE") {
    BpeSpec spec;
    spec.source = std::move(common.source);
    spec.added = std::move(common.added);
    spec.special = std::move(common.special);
    spec.files = std::move(common.files);
    return read_bpe(top, model, std::move(spec));
  }
  if (type == "Unigram") {
    return hf::read_unigram(top, model, std::move(common));
  }
  model.refuse("type", fmt::format("\"{}\" is not supported; BPE and Unigram are", type));
}

}  // namespace mstrain
