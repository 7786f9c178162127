#include "core/data/hf_sentencepiece_bpe.h"

#include <unordered_map>

#include "core/base/error.h"
#include "core/data/hf_bpe_vocabulary.h"
#include "core/data/hf_sections.h"
#include "core/data/sentencepiece_tokenizer.h"

namespace mstrain::hf {
namespace {

using Prefix = NormaliserSpec::Prefix;

// The steps of a section: itself, or those of a Sequence.
std::vector<std::pair<const Json*, std::string>> steps_of(const Json& json,
                                                          const std::string& where,
                                                          const char* list_key) {
  if (!json.is_object() || json.value("type", "") != "Sequence") {
    return {{&json, where}};
  }
  JsonFields fields(json, where);
  fields.text("type");
  const Json& list = fields.required(list_key);
  fields.finish();
  if (!list.is_array()) {
    fields.refuse(list_key, "expected a list");
  }
  std::vector<std::pair<const Json*, std::string>> out;
  for (size_t i = 0; i < list.size(); ++i) {
    out.emplace_back(&list[i], fields.at(fmt::format("{}[{}]", list_key, i)));
  }
  return out;
}

// A Replace of one string by another one.
bool replaces(JsonFields& fields, std::string_view from, std::string_view to) {
  JsonFields pattern(fields.required("pattern"), fields.at("pattern"));
  const bool is_it = pattern.text("String", "") == from && fields.text("content") == to;
  pattern.finish();
  fields.finish();
  return is_it;
}

// Prepend and Replace: what a Metaspace says too.
void read_spaces(const Json& json, const std::string& where, SentencePieceSpec& spec) {
  for (const auto& [step, place] : steps_of(json, where, "normalizers")) {
    JsonFields fields(*step, place);
    const std::string type = fields.text("type");
    if (type == "Prepend") {
      if (const std::string sign = fields.text("prepend"); sign != kSpaceSign) {
        fields.refuse("prepend",
                      fmt::format("{} is not supported; \"{}\" is", shown(Json(sign)), kSpaceSign));
      }
      fields.finish();
      spec.normal.prefix = Prefix::kAlways;
    } else if (type != "Replace") {
      fields.refuse("type", fmt::format("\"{}\" is not supported for BPE over characters; Prepend "
                                        "and Replace are",
                                        type));
    } else if (!replaces(fields, " ", kSpaceSign)) {
      fields.refuse("content", fmt::format("only spaces can be replaced, by \"{}\"", kSpaceSign));
    }
  }
}

void read_sign(const Json& json, const std::string& where, SentencePieceSpec& spec) {
  JsonFields fields(json, where);
  if (const std::string type = fields.text("type"); type != "Metaspace") {
    fields.refuse("type", fmt::format("\"{}\" is not supported for BPE over characters; Metaspace "
                                      "is",
                                      type));
  }
  const Metaspace metaspace = read_metaspace(fields);
  if (metaspace.split) {
    fields.refuse("split", "true is not supported for BPE");
  }
  if (spec.normal.prefix != Prefix::kNone) {
    fields.refuse("type", "\"Metaspace\" is not supported after Prepend");
  }
  spec.normal.prefix = metaspace.prefix;
}

// Signs become spaces, bytes characters, and one space in front is taken off.
void read_bpe_decoder(const Json& json, const std::string& where, SentencePieceSpec& spec) {
  for (const auto& [step, place] : steps_of(json, where, "decoders")) {
    JsonFields fields(*step, place);
    const std::string type = fields.text("type");
    if (type == "Metaspace") {
      spec.decode_strips_prefix = read_metaspace(fields).prefix != Prefix::kNone;
    } else if (type == "Replace") {
      if (!replaces(fields, kSpaceSign, " ")) {
        fields.refuse("content",
                      fmt::format("only \"{}\" can be replaced, by a space", kSpaceSign));
      }
    } else if (type == "Strip") {
      const bool strips_one = fields.text("content") == " " && fields.required("start") == 1 &&
                              fields.required("stop") == 0;
      if (!strips_one) {
        fields.refuse("type", "\"Strip\" is supported for one space in front alone");
      }
      fields.finish();
      spec.decode_strips_prefix = true;
    } else if (type == "ByteFallback" || type == "Fuse") {
      fields.finish();
    } else {
      fields.refuse("type", fmt::format("\"{}\" is not supported for BPE over characters; Replace, "
                                        "ByteFallback, Fuse, Strip and Metaspace are",
                                        type));
    }
  }
}

void place_pieces(const BpeVocabulary& given, JsonFields& model, SentencePieceSpec& spec) {
  spec.pieces.resize(given.vocab.size());
  std::vector<bool> is_there(given.vocab.size());
  std::unordered_map<std::string_view, int32_t> ids;
  for (const auto& [token, id] : given.vocab) {
    const auto at = static_cast<size_t>(id);
    if (at >= is_there.size() || is_there[at]) {
      model.refuse("vocab", fmt::format("\"{}\" has id {}: ids are to be 0 … {}, each once", token,
                                        id, is_there.size() - 1));
    }
    is_there[at] = true;
    spec.pieces[at].text = token;
    ids.emplace(token, id);
  }
  std::vector<BpeMerges::Merge> merges;
  const auto id_of = [&](const std::string& token) {
    const auto found = ids.find(token);
    if (found == ids.end()) {
      model.refuse(fmt::format("merges[{}]", merges.size()),
                   fmt::format("names \"{}\", which is not in the vocabulary", token));
    }
    return found->second;
  };
  for (const auto& [left, right] : given.merges) {
    merges.push_back({id_of(left), id_of(right), id_of(left + right)});
  }
  spec.merges = std::move(merges);
  if (given.unk_token) {
    const auto found = ids.find(*given.unk_token);
    if (found == ids.end()) {
      model.refuse("unk_token", fmt::format("\"{}\" is not in the vocabulary", *given.unk_token));
    }
    spec.unknown = found->second;
    spec.pieces[static_cast<size_t>(found->second)].kind = SentencePieceSpec::Kind::kUnknown;
    spec.shown_unknown = *given.unk_token;
  }
}

}  // namespace

bool is_over_characters(JsonFields& top) {
  const Json* pre = top.find("pre_tokenizer");
  const Json* decoder = top.find("decoder");
  const auto is = [](const Json* json, const char* type) {
    return json != nullptr && json->is_object() && json->value("type", "") == type;
  };
  return pre == nullptr ? is(decoder, "Sequence") : is(pre, "Metaspace");
}

std::shared_ptr<const Tokenizer> read_sentencepiece_bpe(JsonFields& top, JsonFields& model,
                                                        HfCommon common) {
  SentencePieceSpec spec = begun_spec(common);
  if (const Json* normalizer = top.find("normalizer"); normalizer != nullptr) {
    read_spaces(*normalizer, top.at("normalizer"), spec);
  }
  if (const Json* pre = top.find("pre_tokenizer"); pre != nullptr) {
    read_sign(*pre, top.at("pre_tokenizer"), spec);
  }
  if (const Json* decoder = top.find("decoder"); decoder != nullptr) {
    read_bpe_decoder(*decoder, top.at("decoder"), spec);
  }
  const BpeVocabulary given = read_bpe_vocabulary(model);
  if (given.ignore_merges) {
    model.refuse("ignore_merges", "true is not supported for BPE over characters");
  }
  if (!given.byte_fallback && given.unk_token && !given.fuse_unk) {
    model.refuse("fuse_unk", "false is not supported for BPE over characters");
  }
  spec.byte_fallback = given.byte_fallback;
  place_pieces(given, model, spec);
  for (const AddedToken& token : spec.added) {
    if (token.normalized && spec.normal.prefix == Prefix::kAlways) {
      top.refuse(
          "added_tokens",
          fmt::format("\"{}\" is normalized, which is not supported after Prepend", token.content));
    }
  }
  finish_spec(common, spec);
  return std::make_shared<SentencePieceTokenizer>(std::move(spec));
}

}  // namespace mstrain::hf
