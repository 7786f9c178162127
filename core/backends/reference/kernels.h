// How the families of the reference backend are written: one plain function for each operation.
#pragma once

#include "core/backends/reference/elements.h"
#include "core/ir/backend.h"

namespace mstrain::reference {

struct Call {
  const OpDef& op;
  const Attrs& attrs;
  std::span<const Elements> in;
  std::span<const Elements> out;
};
using Function = void (*)(const Call&);

// The back end's own, which is being filled.
Backend& table();

Kernel prepare_function(const KernelRequest& request, Function function);

template <Function function>
Kernel prepare(const KernelRequest& request) {
  return prepare_function(request, function);
}

// Registers `function` for an operation.
template <Function function>
void define(std::string_view op) {
  register_kernel(table(), op, {.prepare = prepare<function>, .strided_inputs = true});
}

// An id in [0, n), or the Error that names it.
int64_t checked_id(const Call& call, const Elements& ids, int64_t position, int64_t n);

void register_elementwise();
void register_movement();
void register_reductions();
void register_dot_general();
void register_index();
void register_sort();
void register_convolution();
void register_pooling();
void register_random();
void register_rounding();
void register_coded_weight();
void register_float8();
void register_linalg();
void register_decompositions();
void register_fft();

}  // namespace mstrain::reference
