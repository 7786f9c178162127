// together{body}: operations that ask nothing of each other, as one: what a backend may run in one launch, where each of them alone
// is over before it has begun. The body's nodes read its inputs only. Made by compilers (core/compile/run_together.cc), never by users.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> together_ops();
const OpDef& together_op();

}  // namespace mstrain
