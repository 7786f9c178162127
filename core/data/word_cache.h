// A bounded memory of words and their ids, so that a word that comes again costs one look-up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/hash.h"

namespace mstrain {

// Open addressing over the bytes of words; nothing is allocated for a word. When it is half full it
// forgets everything, so that it stays small enough for the processor's caches whatever the text.
// One thread at a time.
class WordCache {
 public:
  static constexpr size_t kSlots = size_t{1} << 16;
  static constexpr size_t kLongestWord = 128;  // longer ones are not kept
  static constexpr size_t kMostIds = 64;

  WordCache() : slots_(kSlots) {}

  // Appends the ids of `word`, which is not empty, to `ids`: those that are known, or else what make() gives, a vector of
  // them, which is then known.
  template <class Make>
  void append_ids(std::string_view word, std::vector<int32_t>& ids, const Make& make) {
    if (word.size() > kLongestWord) {
      const std::vector<int32_t>& made = make();
      ids.insert(ids.end(), made.begin(), made.end());
      return;
    }
    Slot& slot = find(word);
    if (slot.size == 0) {
      const std::vector<int32_t>& made = make();
      ids.insert(ids.end(), made.begin(), made.end());
      insert(slot, word, made);
    } else if (slot.count == 1) {
      ids.push_back(arena_[slot.where]);
    } else {
      const auto known = arena_.begin() + slot.where;
      ids.insert(ids.end(), known, known + slot.count);
    }
  }

 private:
  struct Slot {
    uint64_t head = 0;   // the first eight bytes, or all of them
    uint64_t tail = 0;   // the last eight of at most 16
    uint32_t where = 0;  // in arena_: the ids, then what the word has beyond 16 bytes
    uint16_t size = 0;   // of the word in bytes; 0: the slot is free
    uint16_t count = 0;  // of ids
  };

  // The slot of `word`, which must not be empty and at most kLongestWord long: with `size` 0 where
  // it is not known. Valid until insert().
  Slot& find(std::string_view word) {
    const Slot wanted = head_of(word);
    uint64_t hash = hash_combine(wanted.head + word.size(), wanted.tail);
    for (size_t at = 16; at < word.size(); at += 8) {
      hash = hash_combine(hash, load(word.data() + at, word.size() - at));
    }
    for (size_t i = hash & (kSlots - 1);; i = (i + 1) & (kSlots - 1)) {
      Slot& slot = slots_[i];
      if (slot.size == 0 ||
          (slot.head == wanted.head && slot.tail == wanted.tail && slot.size == word.size() &&
           (word.size() <= 16 || std::memcmp(arena_.data() + slot.where + slot.count,
                                             word.data() + 16, word.size() - 16) == 0))) {
        return slot;
      }
    }
  }

  // Fills the free `slot` that find(word) gave. Lists longer than kMostIds are not kept.
  void insert(Slot& slot, std::string_view word, std::span<const int32_t> ids);

  static uint64_t load(const char* bytes, size_t size) {
    uint64_t out = 0;
    std::memcpy(&out, bytes, size < 8 ? size : 8);
    return out;
  }
  static Slot head_of(std::string_view word) {
    const char* bytes = word.data();
    const size_t size = word.size();
    if (size >= 8) {
      return {load8(bytes), load8(bytes + (size < 16 ? size - 8 : 8))};
    }
    if (size >= 4) {
      return {load4(bytes), load4(bytes + size - 4)};
    }
    const auto byte = [&](size_t i) {
      return static_cast<uint64_t>(static_cast<uint8_t>(bytes[i]));
    };
    return {byte(0) | byte(size / 2) << 8 | byte(size - 1) << 16, 0};
  }
  static uint64_t load8(const char* bytes) {
    uint64_t out;
    std::memcpy(&out, bytes, 8);
    return out;
  }
  static uint64_t load4(const char* bytes) {
    uint32_t out;
    std::memcpy(&out, bytes, 4);
    return out;
  }

  std::vector<Slot> slots_;
  std::vector<int32_t> arena_;
  size_t used_ = 0;
};

}  // namespace mstrain
