// How the rows or elements of a group are dealt out to threads.
//
// Rows: a team of whole warps has a row at a time, each of its threads every so many packs of neighbours. Sums over a row are
// shuffles where a team is one warp, and go through shared memory once where it is more. A block has several teams.
// Elements: a thread has packs. In both, what a thread reads is on its way before it uses the first of it: `ahead` rows of a
// team, or packs of a thread.
#pragma once

#include "core/backends/cuda/group_terms.h"

namespace mstrain::cuda {

struct GroupLayout {
  bool by_rows = false;
  int64_t pack = 1;   // elements
  int64_t packs = 1;  // of a row, that a thread has
  int64_t warps = 1;  // of a team
  int64_t teams = 1;  // of a block
  int64_t ahead = 1;
  int64_t threads = 32;  // of a block
  int64_t blocks = 1;
  int64_t resident =
      1;  // blocks that a processor has at a time, where there are no more than all have

  int64_t team() const { return warps * 32; }
  int64_t rows() const { return teams * ahead; }  // that a block has at a time
};

GroupLayout layout_of(const GroupTerms& terms);

}  // namespace mstrain::cuda
