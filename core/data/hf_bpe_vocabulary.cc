#include "core/data/hf_bpe_vocabulary.h"

#include "core/base/error.h"
#include "core/data/hf_sections.h"

namespace mstrain::hf {

BpeVocabulary read_bpe_vocabulary(JsonFields& model) {
  BpeVocabulary out;
  if (const Json* dropout = model.find("dropout"); dropout != nullptr && *dropout != 0) {
    model.refuse("dropout", "is not supported; only null is");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (const std::string affix = model.text(key, ""); !affix.empty()) {
      model.refuse(key, fmt::format("\"{}\" is not supported; only null is", affix));
    }
  }
  out.byte_fallback = model.boolean("byte_fallback", false);
  if (const std::string unk = model.text("unk_token", ""); !unk.empty()) {
    out.unk_token = unk;
  }
  out.fuse_unk = model.boolean("fuse_unk", false);
  out.ignore_merges = model.boolean("ignore_merges", false);
  const Json& vocab = model.required("vocab");
  if (!vocab.is_object()) {
    model.refuse("vocab", fmt::format("expected an object, found {}", shown(vocab)));
  }
  out.vocab.reserve(vocab.size());
  for (const auto& [token, id] : vocab.items()) {
    out.vocab.emplace_back(token, token_id(id, model.at("vocab")));
  }
  const Json& merges = model.required("merges");
  if (!merges.is_array()) {
    model.refuse("merges", fmt::format("expected a list, found {}", shown(merges)));
  }
  for (const Json& merge : merges) {
    const size_t index = out.merges.size();
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space != text.npos && text.find(' ', space + 1) == text.npos) {
        out.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
      }
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      out.merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    }
    if (out.merges.size() == index) {
      model.refuse(fmt::format("merges[{}]", index),
                   fmt::format("expected two tokens, found {}", shown(merge)));
    }
  }
  model.finish();
  return out;
}

}  // namespace mstrain::hf
