// Between a device's memory and the host's. Of a planned program on a device that has such memory (core/runtime/host_memory.h) what
// stow() makes lies in the host's, and only fetch() reads it: inputs that fetch() reads, results that stow() makes, and what lies
// between one and the other. Both copy on queues of their own, under other work. Everywhere else they are copies.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> offload_ops();

Tensor stow(const Arg& x);
Tensor fetch(const Arg& x);

const OpDef& stow_op();
const OpDef& fetch_op();

}  // namespace mstrain
