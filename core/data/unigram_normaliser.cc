#include "core/data/unigram_normaliser.h"

#include <algorithm>

#include "core/data/unicode_class.h"
#include "core/data/utf8.h"

namespace mstrain {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool is_white_space(std::string_view character) {
  return char_class(decode_utf8(character, 0).code) == CharClass::kSpace;
}

// Writes a segment's normal form, character by character.
class Writer {
 public:
  Writer(const NormaliserSpec& spec, const UnigramNormaliser::Place& place, std::string& out)
      : spec_(spec),
        out_(out),
        needs_prefix_(place.begins_segment && has_prefix(spec.prefix, place.begins_text)),
        stripping_(place.begins_segment && spec.strip_left) {}

  void put_space() {
    if (stripping_ || (spec_.collapse_spaces && after_space_)) {
      return;
    }
    if (needs_prefix_ && spec_.prefix == NormaliserSpec::Prefix::kAlways) {
      out_ += kSpaceSign;
    }
    needs_prefix_ = false;
    out_ += kSpaceSign;
    after_space_ = after_white_space_ = true;
  }
  void put(std::string_view character) {
    after_white_space_ = spec_.strips_white_space && is_white_space(character);
    if (stripping_ && after_white_space_) {
      return;
    }
    const bool is_there =
        spec_.prefix != NormaliserSpec::Prefix::kAlways && character == kSpaceSign;
    if (needs_prefix_ && !is_there) {
      out_ += kSpaceSign;
    }
    out_ += character;
    needs_prefix_ = after_space_ = stripping_ = false;
  }
  // Or after what may be stripped together with the spaces behind it.
  bool after_space() const { return after_space_ || after_white_space_; }

 private:
  static bool has_prefix(NormaliserSpec::Prefix prefix, bool begins_text) {
    return prefix == NormaliserSpec::Prefix::kAlways ||
           prefix == NormaliserSpec::Prefix::kIfMissing ||
           (prefix == NormaliserSpec::Prefix::kFirst && begins_text);
  }

  const NormaliserSpec& spec_;
  std::string& out_;
  bool needs_prefix_;
  bool stripping_;
  bool after_space_ = false;
  bool after_white_space_ = false;
};

// Where `out` ends without what strip_right takes from it.
size_t stripped_size(const NormaliserSpec& spec, std::string_view out) {
  size_t size = out.size();
  while (size > 0) {
    size_t begin = size - 1;
    while (begin > 0 && (static_cast<unsigned char>(out[begin]) >> 6) == 2) {
      --begin;
    }
    const std::string_view last = out.substr(begin, size - begin);
    if (last != kSpaceSign && !(spec.strips_white_space && is_white_space(last))) {
      break;
    }
    size = begin;
  }
  return size;
}

}  // namespace

UnigramNormaliser::UnigramNormaliser(NormaliserSpec spec, const std::string& source,
                                     std::vector<AddedToken> kept)
    : spec_(std::move(spec)),
      charsmap_(spec_.charsmap, source),
      kept_(std::move(kept)),
      margin_(Charsmap::kLongestKey + kept_.longest()) {}

UnigramNormaliser::Unit UnigramNormaliser::next_unit(std::string_view text) const {
  if (const auto found = kept_.empty() ? std::nullopt : kept_.at(text, 0)) {
    return {found->end, text.substr(0, found->end)};
  }
  if (const Charsmap::Found found = charsmap_.longest(text); found.length > 0) {
    return {found.length, found.replacement};
  }
  const int size = decode_utf8(text, 0).length;
  return size == 0 ? Unit{1, kReplacement}
                   : Unit{static_cast<size_t>(size), text.substr(0, static_cast<size_t>(size))};
}

bool UnigramNormaliser::is_space(std::string_view character) const {
  return character == " " || (spec_.any_white_space && is_white_space(character));
}

size_t UnigramNormaliser::operator()(std::string_view text, const Place& place,
                                     std::string& out) const {
  out.clear();
  Writer writer(spec_, place, out);
  size_t taken = 0;  // the last start of a word, in `text`
  size_t kept = 0;   // and in `out`
  const size_t limit = place.ends_segment      ? text.size()
                       : text.size() < margin_ ? 0
                                               : text.size() - margin_;
  for (size_t at = 0; at < limit;) {
    const Unit unit = next_unit(text.substr(at));
    for (size_t i = 0; i < unit.bytes.size();) {
      const int size = std::max(1, decode_utf8(unit.bytes, i).length);
      const std::string_view character = unit.bytes.substr(i, static_cast<size_t>(size));
      if (!is_space(character)) {
        writer.put(character);
      } else {
        // The sign itself, where it stands in the text, begins the word.
        if (i == 0 && !writer.after_space() && !out.empty() && !out.ends_with(kSpaceSign)) {
          taken = at;
          kept = out.size();
        }
        writer.put_space();
      }
      i += static_cast<size_t>(size);
    }
    at += unit.length;
  }
  if (!place.ends_segment) {
    out.resize(kept);
    return taken;
  }
  if (spec_.strip_right) {
    out.resize(stripped_size(spec_, out));
  }
  return text.size();
}

}  // namespace mstrain
