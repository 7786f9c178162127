// What the machine can do at most, measured where and when it is asked.
#pragma once

#include <cstdint>

#include "core/runtime/context.h"
#include "core/runtime/dtype.h"

namespace mstrain {

struct MachineLimits {
  double flops_per_second = 0;  // of a product of two f32 matrices of product_size rows and columns
  double bytes_per_second = 0;  // read and written, of a copy of copied_bytes
  int64_t product_size = 0;
  int64_t copied_bytes = 0;
};

// Operations a second of a product of two such matrices of `dtype`, the fastest of a few runs.
double product_rate(const Context& context, Dtype dtype);

// The fastest of a few runs of the context's own kernels with its threads. Takes about a second, and for as long as it
// takes four times the processor's third cache in memory, at least 128 MiB and at most 256 MiB, which do not count in the process's peak.
MachineLimits measure_limits(const Context& context);

}  // namespace mstrain
