// Rows of the conformance matrix that are files of their own.
#pragma once

#include "core/ir/op.h"

namespace mstrain {

namespace samples {
std::vector<Sample> dot_general(Dtype dtype);
std::vector<Sample> reshape(Dtype dtype);
std::vector<Sample> transpose(Dtype dtype);
std::vector<Sample> broadcast(Dtype dtype);
std::vector<Sample> slice(Dtype dtype);
std::vector<Sample> pad(Dtype dtype);
std::vector<Sample> concat(Dtype dtype);
std::vector<Sample> split(Dtype dtype);
std::vector<Sample> flip(Dtype dtype);
std::vector<Sample> copy(Dtype dtype);
}  // namespace samples

}  // namespace mstrain
