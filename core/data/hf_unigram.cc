#include "core/data/hf_unigram.h"

#include <cmath>

#include "core/base/error.h"
#include "core/data/hf_sections.h"
#include "core/data/sentencepiece_tokenizer.h"

namespace mstrain::hf {
namespace {

using Prefix = NormaliserSpec::Prefix;

std::string decode_base64(std::string_view text, const JsonFields& fields, const std::string& key) {
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  while (text.ends_with('=')) {
    text.remove_suffix(1);
  }
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t digit = kDigits.find(text[i]);
    if (digit == kDigits.npos) {
      fields.refuse(key, fmt::format("no base64 at character {}", i));
    }
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>(bits >> count & 0xFFU));
    }
  }
  return out;
}

// The steps that say together what SentencePiece's remove_extra_whitespaces says: a character map,
// then white space off the end, then several spaces into one U+2581; each may be missing.
void read_normalizer(const Json& json, const std::string& where, SentencePieceSpec& spec) {
  JsonFields fields(json, where);
  const std::string type = fields.text("type");
  if (type == "Sequence") {
    const Json& list = fields.required("normalizers");
    fields.finish();
    if (!list.is_array()) {
      fields.refuse("normalizers", "expected a list");
    }
    for (size_t i = 0; i < list.size(); ++i) {
      read_normalizer(list[i], fields.at(fmt::format("normalizers[{}]", i)), spec);
    }
    return;
  }
  const bool later =
      spec.normal.collapse_spaces || spec.normal.strip_left || spec.normal.strip_right;
  if (type == "Precompiled") {
    if (later || !spec.normal.charsmap.empty()) {
      fields.refuse("type", "\"Precompiled\" is not supported after another step");
    }
    if (const std::string map = fields.text("precompiled_charsmap", ""); !map.empty()) {
      spec.normal.charsmap = decode_base64(map, fields, "precompiled_charsmap");
    }
  } else if (type == "Strip") {
    spec.normal.strip_left = fields.boolean("strip_left", true);
    spec.normal.strip_right = fields.boolean("strip_right", true);
    spec.normal.strips_white_space = true;
  } else if (type == "Replace") {
    JsonFields pattern(fields.required("pattern"), fields.at("pattern"));
    const std::string content = fields.text("content");
    if (const std::string regex = pattern.text("Regex", ""); regex != " {2,}") {
      pattern.refuse("Regex",
                     fmt::format("{} is not supported; \" {{2,}}\" is", shown(Json(regex))));
    }
    pattern.finish();
    if (content != kSpaceSign && content != " ") {
      fields.refuse("content", fmt::format("{} is not supported; \"{}\" is", shown(Json(content)),
                                           kSpaceSign));
    }
    spec.normal.collapse_spaces = true;
  } else {
    fields.refuse("type", fmt::format("\"{}\" is not supported for Unigram; Precompiled, Strip and "
                                      "Replace are",
                                      type));
  }
  fields.finish();
}

void read_pre_tokenizer(const Json& json, const std::string& where, SentencePieceSpec& spec) {
  JsonFields fields(json, where);
  const std::string type = fields.text("type");
  if (type == "Metaspace") {
    const Metaspace metaspace = read_metaspace(fields);
    spec.normal.prefix = metaspace.prefix;
    if (!metaspace.split) {
      fields.refuse("split", "false is not supported");
    }
    return;
  }
  if (type != "Sequence") {
    fields.refuse("type", fmt::format("\"{}\" is not supported for Unigram; Metaspace is", type));
  }
  const Json& list = fields.required("pretokenizers");
  fields.finish();
  if (!list.is_array() || list.empty() || list.size() > 2) {
    fields.refuse("pretokenizers", "expected Metaspace, or WhitespaceSplit and Metaspace");
  }
  if (list.size() == 2) {
    JsonFields first(list[0], fields.at("pretokenizers[0]"));
    if (const std::string kind = first.text("type"); kind != "WhitespaceSplit") {
      first.refuse("type", fmt::format("\"{}\" is not supported before Metaspace; "
                                       "WhitespaceSplit is",
                                       kind));
    }
    first.finish();
  }
  JsonFields last(list.back(), fields.at(fmt::format("pretokenizers[{}]", list.size() - 1)));
  if (const std::string kind = last.text("type"); kind != "Metaspace") {
    last.refuse("type", fmt::format("\"{}\" is not supported for Unigram; Metaspace is", kind));
  }
  const Metaspace metaspace = read_metaspace(last);
  spec.normal.prefix = metaspace.prefix;
  if (list.size() == 2) {
    // White space separates words and is gone; each word begins with the sign.
    if (metaspace.prefix != Prefix::kIfMissing) {
      last.refuse("prepend_scheme", "only \"always\" is implemented after WhitespaceSplit");
    }
    spec.normal.any_white_space = true;
    spec.normal.collapse_spaces = spec.normal.strip_left = spec.normal.strip_right = true;
  } else if (!metaspace.split) {
    last.refuse("split", "false is not supported");
  }
}

void read_decoder(const Json& json, const std::string& where, SentencePieceSpec& spec) {
  JsonFields fields(json, where);
  if (const std::string type = fields.text("type"); type != "Metaspace") {
    fields.refuse("type", fmt::format("\"{}\" is not supported for Unigram; Metaspace is", type));
  }
  spec.decode_strips_prefix = read_metaspace(fields).prefix != Prefix::kNone;
}

void read_model(JsonFields& model, SentencePieceSpec& spec) {
  spec.byte_fallback = model.boolean("byte_fallback", false);
  const Json& vocab = model.required("vocab");
  if (!vocab.is_array()) {
    model.refuse("vocab", fmt::format("expected a list, found {}", shown(vocab)));
  }
  for (const Json& piece : vocab) {
    if (!piece.is_array() || piece.size() != 2 || !piece[0].is_string() || !piece[1].is_number()) {
      model.refuse(fmt::format("vocab[{}]", spec.pieces.size()),
                   fmt::format("expected a piece and its score, found {}", shown(piece)));
    }
    spec.pieces.push_back({piece[0].get<std::string>(), piece[1].get<double>()});
  }
  if (const Json* unknown = model.find("unk_id"); unknown != nullptr) {
    spec.unknown = token_id(*unknown, model.at("unk_id"));
    if (static_cast<size_t>(*spec.unknown) >= spec.pieces.size()) {
      model.refuse("unk_id", fmt::format("{} is no piece", *spec.unknown));
    }
  }
  model.finish();
}

}  // namespace

Metaspace read_metaspace(JsonFields& fields) {
  Metaspace out;
  if (const std::string sign = fields.text("replacement"); sign != kSpaceSign) {
    fields.refuse("replacement",
                  fmt::format("{} is not supported; \"{}\" is", shown(Json(sign)), kSpaceSign));
  }
  fields.text("str_rep", "");  // files of before 2024 repeat the replacement
  const bool adds = fields.boolean("add_prefix_space", true);
  const std::string scheme = fields.text("prepend_scheme", adds ? "always" : "never");
  if (scheme == "never") {
    out.prefix = Prefix::kNone;
  } else if (scheme == "first") {
    out.prefix = Prefix::kFirst;
  } else if (scheme != "always") {
    fields.refuse("prepend_scheme", fmt::format("{} is unknown", shown(Json(scheme))));
  }
  out.split = fields.boolean("split", true);
  fields.finish();
  return out;
}

SentencePieceSpec begun_spec(HfCommon& common) {
  SentencePieceSpec spec;
  spec.source = std::move(common.source);
  spec.files = std::move(common.files);
  spec.added = std::move(common.added);
  spec.normal.prefix = Prefix::kNone;
  spec.decode_strips_prefix = false;
  return spec;
}

void finish_spec(const HfCommon& common, SentencePieceSpec& spec) {
  for (const AddedToken& token : spec.added) {
    if (token.content == "</s>") {
      spec.end_of_text = token.id;
    }
  }
  find_named(common.named, spec);
  if (common.special) {
    spec.special = *common.special;
  }
}

std::shared_ptr<const Tokenizer> read_unigram(JsonFields& top, JsonFields& model, HfCommon common) {
  SentencePieceSpec spec = begun_spec(common);
  if (const Json* normalizer = top.find("normalizer"); normalizer != nullptr) {
    read_normalizer(*normalizer, top.at("normalizer"), spec);
  }
  const Json* pre = top.find("pre_tokenizer");
  if (pre == nullptr) {
    top.refuse("pre_tokenizer", "null is not supported for Unigram; Metaspace is");
  }
  read_pre_tokenizer(*pre, top.at("pre_tokenizer"), spec);
  if (const Json* decoder = top.find("decoder"); decoder != nullptr) {
    read_decoder(*decoder, top.at("decoder"), spec);
  }
  read_model(model, spec);
  finish_spec(common, spec);
  for (const AddedToken& token : spec.added) {
    // The text of one is found as that, or, where a text must not name it, spelled by other pieces.
    if (token.special && static_cast<size_t>(token.id) < spec.pieces.size()) {
      spec.pieces[static_cast<size_t>(token.id)].kind = SentencePieceSpec::Kind::kUnused;
    }
  }
  if (!common.special && spec.end_of_text) {
    spec.special.after = {*spec.end_of_text};
  }
  return std::make_shared<SentencePieceTokenizer>(std::move(spec));
}

}  // namespace mstrain::hf
