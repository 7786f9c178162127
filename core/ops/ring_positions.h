// Which positions of a sequence the ranks of a ring attend from and to.
//
// Ranks have equal parts of it, in order. Under a causal mask the last would have the most to do; where there are as many keys
// as queries, positions are then dealt out anew: in twice as many pieces as ranks, of which rank i of n has i and 2n - 1 - i.
// Whatever keys come by, each rank then has equally many pairs that see each other (the zigzag of Zhu 2024,
// "ring-flash-attention").
#pragma once

#include "core/comm/mesh.h"
#include "core/ir/tensor.h"

namespace mstrain {

class RingPositions {
 public:
  RingPositions(bool zigzag, const MeshAxis& axis);

  // Of a rank, each of positions that follow each other.
  int64_t pieces() const { return zigzag_ ? 2 : 1; }

  // This rank's pieces of x, whose dim `dim` is that of positions, for its part; and back.
  Tensor dealt(const Tensor& x, int dim) const;
  Tensor returned(const Tensor& x, int dim) const;
  // Of what was dealt.
  Tensor piece(const Tensor& x, int dim, int64_t index) const;

  // i32 []: the first position of a piece of the rank whose place is `rank`; `size`: positions of a piece.
  Tensor first_of(const Tensor& rank, int64_t index, int64_t size) const;
  // False: no position of the one piece sees any of the other, whichever ranks have them.
  bool sees(int64_t query_piece, int64_t key_piece) const {
    return !zigzag_ || query_piece >= key_piece;
  }

  const Tensor& rank() const { return rank_; }  // i32 []: this one's

 private:
  // To whom ranks send the first of their pieces in order, or the second: one has an even number, the other an odd one, and
  // each rank gets one of both.
  std::vector<int64_t> owners(int64_t second) const;
  Tensors swapped_if_odd(const Tensor& a, const Tensor& b) const;

  bool zigzag_;
  MeshAxis axis_;
  Tensor rank_, odd_;
};

}  // namespace mstrain
