// One step of AdamW for a parameter whose state is stored in fewer bits: what core/ops/adamw.h computes, in f32, between
// reading and storing. One pass over memory on backends that have a kernel.
#pragma once

#include "core/ops/adamw.h"

namespace mstrain {

std::span<const OpDef> adamw_stored_ops();

// A tensor of a state as it is stored: f32, bf16, or u8 codes with scales (core/ops/rounding.h).
struct StoredTensorState {
  Tensor values;
  Tensor scales;
};

struct AdamwStored {
  Tensor value;         // the parameter, or its master: f32 or bf16
  StoredTensorState m;  // signed
  StoredTensorState v;  // unsigned
};

struct AdamwStoredOptions {
  AdamwOptions rule;
  // Another dtype in which the new value is wanted as well, rounded to nearest: f32 for none.
  Dtype copy = Dtype::kF32;
  Tensor
      apply;  // bool []: whether the step is taken; else everything stays as it is, whatever the gradient holds
  Tensor key;        // u32 [2] or [3], for what is rounded stochastically: bf16 and blocks
  int64_t site = 0;  // random_site() of the parameter; the moments' are the two that follow
};

struct AdamwStoredResult {
  AdamwStored state;
  Tensor copy;  // empty for f32
};

// Scalars are f32. The gradient has any floating type and the shape of `value`.
AdamwStoredResult adamw_stored_update(const AdamwStored& state, const Arg& gradient,
                                      const AdamwScalars& scalars,
                                      const AdamwStoredOptions& options);

// `x`, f32, stored as `like` is; where not `apply`: `like` itself.
StoredTensorState store(const Tensor& x, const StoredTensorState& like, const Tensor& apply,
                        const Tensor& key, int64_t site, bool is_signed);
// f32.
Tensor load(const StoredTensorState& stored, bool is_signed);

// How many times the root of the second moment the first can be, by the inequality of Cauchy and Schwarz over the gradients that
// both are sums of; infinite where nothing bounds it.
double most_of_first_moment(double beta1, double beta2);
// `m`, read from codes, within that of `v`. A first moment far below its block's scale is now and then rounded up to 1/1984 of
// it while the second is near 0, or 0: the step by their ratio would have no bound.
Tensor limited_first_moment(const Tensor& m, const Tensor& v, double beta1, double beta2);

}  // namespace mstrain
