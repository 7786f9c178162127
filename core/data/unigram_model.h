// A unigram language model over pieces: the most probable way to cut a string into them.
// Source: Kudo, "Subword regularization" (ACL 2018), section 3.2; SentencePiece for what happens
// where no piece fits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mstrain {

class UnigramModel {
 public:
  struct Piece {
    std::string text;  // not empty; unique
    double score = 0;  // log probability, finite
    int32_t id = 0;
  };

  // A character that begins no piece of its own length costs `unknown_score`.
  UnigramModel(const std::vector<Piece>& pieces, double unknown_score);

  static constexpr int32_t kUnknown = -1;
  struct Part {
    int32_t id = kUnknown;  // kUnknown: one character
    uint32_t size = 0;      // in bytes
  };
  // Buffers of one thread, kept between calls.
  struct Work {
    struct Best {
      double score = 0;
      int64_t begin = -1;  // -1: not reached
      int32_t id = kUnknown;
    };
    std::vector<Best> best;
    std::vector<Part> parts;
  };

  // Leaves the parts of `text` (valid UTF-8) in work.parts. Of ways with equal scores, the one that
  // was found first by going through the text from left to right. Sums are doubles.
  void cut(std::string_view text, Work& work) const;

 private:
  struct Edge {
    uint64_t from = ~uint64_t{0};  // node * 256 + byte
    uint32_t node = 0;
  };
  struct Node {
    int32_t id = kUnknown;
    double score = 0;
  };
  uint32_t child(uint32_t node, uint8_t byte) const;  // 0: none
  uint32_t add_child(uint32_t node, uint8_t byte);

  double unknown_score_;
  std::vector<Edge> edges_;  // open addressing, a power of two, at most half full
  size_t used_ = 0;
  std::vector<Node> nodes_;  // of a trie over the bytes of pieces; 0 is the root
};

}  // namespace mstrain
