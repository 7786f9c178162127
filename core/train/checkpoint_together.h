// How the ranks of a run write a checkpoint: into the same files as one rank, each its own bytes, once per byte.
//
// The first rank makes the folder and its files, all write what they have at its place, then read back and digest some of the
// blocks each, and the first commits. The folder's file system must be one that all ranks see.
#pragma once

#include "core/train/checkpoint.h"

namespace mstrain {

// Every rank calls it. Throws what stopped the writing, on all of them.
void save_together(FileSystem& files, const std::string& folder, const CheckpointContents& contents,
                   Communicator& ranks);

}  // namespace mstrain
