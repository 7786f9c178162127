// Cuts the gradient program of a model into the programs of a pipeline.
//
// The model marks where layers begin (core/ops/stage.h). Neighbouring layers make a chunk; what is before the first layer
// belongs to the first chunk, what follows the last to the last. Each chunk has a forward and a backward program, and, where
// the backward pass is split, one for weights: products that no other chunk waits for, and what follows them. What depends on parameters and batch alone,
// such as masks and rotations, is computed wherever it is read.
//
// The programs compute every node once, but for those, and so give the bits of the whole. A sum
// with rows scattered into it is formed by one of them, to which others hand the rows.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "core/ir/graph.h"
#include "core/schedule/schedule.h"

namespace mstrain {

inline constexpr int kStageWorks = 3;  // forward, backward, weights

// A value that one program hands on to others: within a chunk it is saved for a later program of the same micro-batch, else
// it is sent.
struct StageLink {
  TensorType type;
  int from = 0;         // the program that makes it, as an index of PipelineCut::programs
  std::vector<int> to;  // those that read it, ascending
};

struct StageProgram {
  // Where an input comes from.
  struct Source {
    bool is_link = false;
    int index = 0;  // of the links, or of the whole program's inputs
  };
  int chunk = 0;
  Work work = Work::kForward;
  GraphPtr graph;
  std::vector<Source> inputs;  // of `graph`
  std::vector<int> links;      // its first outputs
  std::vector<int> results;    // then these outputs of the whole program
};

struct PipelineCut {
  std::vector<StageProgram>
      programs;  // at chunk * kStageWorks + work; without a graph: nothing to do
  std::vector<StageLink> links;

  int chunks() const { return static_cast<int>(programs.size()) / kStageWorks; }
  static size_t index_of(int chunk, Work work) {
    return static_cast<size_t>(chunk * kStageWorks) + static_cast<size_t>(work);
  }
  const StageProgram& program(int chunk, Work work) const {
    return programs[index_of(chunk, work)];
  }
  static int chunk_of(int program) { return program / kStageWorks; }
};

// How many layers `program` marks, what follows the last one not counted. Throws Error where it marks none.
int64_t marked_layers(const Graph& program);

// Chunk c holds the layers [first[c], first[c + 1]); first[0] is 0. Throws Error where a chunk would hold none.
PipelineCut cut_stages(const Graph& program, std::span<const int64_t> first, bool splits_backward);

}  // namespace mstrain
