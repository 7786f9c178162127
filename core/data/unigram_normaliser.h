// What a unigram tokenizer does to text before it cuts words into pieces: a character map is
// applied, white space collapses and becomes U+2581, one sign is put before the text.
//
// Sources: SentencePiece's normalizer.cc for .model files, github.com/huggingface/tokenizers for
// tokenizer.json. Where both read a character map differently (keys of several characters), this
// follows SentencePiece: the longest key counts.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/added_tokens.h"
#include "core/data/charsmap.h"

namespace mstrain {

inline constexpr std::string_view kSpaceSign = "\xE2\x96\x81";  // U+2581

struct NormaliserSpec {
  enum class Prefix {
    kNone,
    kAlways,
    kIfMissing,
    kFirst
  };  // kFirst: if missing, at the text's start

  std::string charsmap;             // see core/data/charsmap.h
  bool collapse_spaces = false;     // several in a row count as one
  bool strip_left = false;          // spaces at the start of a segment do not count
  bool strip_right = false;         // nor at its end
  bool strips_white_space = false;  // nor other white space there
  bool any_white_space = false;     // every character with White_Space counts as a space
  Prefix prefix = Prefix::kAlways;  // a space before a segment
};

class UnigramNormaliser {
 public:
  // `source` names the file in errors. `kept`: texts that are left as they are. Throws IoError where
  // the character map is damaged, here and below.
  UnigramNormaliser(NormaliserSpec spec, const std::string& source, std::vector<AddedToken> kept);

  // Where `text` stands in its segment, and that in the text.
  struct Place {
    bool begins_segment = false;
    bool begins_text = false;
    bool ends_segment = false;
  };
  // Leaves the normal form of the start of `text` in `out` and returns how much that is: all where
  // the segment ends with it, else up to the start of a word that what follows cannot change.
  // Bytes that are no UTF-8 count as U+FFFD, one each.
  size_t operator()(std::string_view text, const Place& place, std::string& out) const;

  // What is `margin` bytes or more behind the end of a text is decided; more only where the text's
  // reader needs to see further than that.
  void widen_margin(size_t bytes) { margin_ += bytes; }

 private:
  struct Unit {
    size_t length;           // bytes of the text
    std::string_view bytes;  // that become these
  };
  Unit next_unit(std::string_view text) const;
  bool is_space(std::string_view character) const;

  NormaliserSpec spec_;
  Charsmap charsmap_;
  AddedTokens kept_;
  size_t margin_;
};

}  // namespace mstrain
