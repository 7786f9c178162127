// How the table of the back end is filled.
#pragma once

#include "core/ir/backend.h"
#include "core/runtime/buffer.h"

namespace mstrain::cuda {

void register_texts(Backend& table);
void register_host_kernels(Backend& table);
void register_offload_kernels(Backend& table);

constexpr int64_t aligned_bytes(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace mstrain::cuda
