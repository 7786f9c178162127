// Operations among ranks (core/comm). Each names an axis of the mesh and carries its size, so that programs are typed, planned
// and simulated without ranks, and are equal on all of them. An axis of one rank needs none: there they change nothing.
//
// Seen as one function of the values of all ranks, whose objective is the sum over ranks, each has its transpose among them.
// Every rank of a program runs the same collectives in the same order, which is that of the plan.
//
// Kernels take the ranks of the context that they are prepared in (Context::ranks). A rank that is gone or late is a CommError,
// which names the operation and its scope.
#pragma once

#include "core/comm/mesh.h"
#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> collective_ops();

// The reduction of every rank's x, on all of them. Sums of 16 bits are formed in f32 and rounded once.
Tensor all_reduce(const Arg& x, const MeshAxis& axis, Reduction reduction = Reduction::kSum);
// Every rank's x, one after another along `dim`.
Tensor all_gather(const Arg& x, const MeshAxis& axis, int dim);
// Dim `dim` of the sum of every rank's x is dealt out in equal parts: rank i gets part i. `initial`: the part with which the
// sum begins, ((initial + x_0) + x_1) + …, in the type of the result: that of x, or f32 for an x of 16 bits.
Tensor reduce_scatter(const Arg& x, const MeshAxis& axis, int dim,
                      Reduction reduction = Reduction::kSum, const Tensor& initial = {});
// Part i of `split_dim` goes to rank i; what comes stands one after another along `concat_dim`.
Tensor all_to_all(const Arg& x, const MeshAxis& axis, int split_dim, int concat_dim);
// Rank i's x goes to rank to[i]. Each rank is there once.
Tensor permute(const Arg& x, const MeshAxis& axis, std::span<const int64_t> to);
std::vector<int64_t> inverse_of(std::span<const int64_t> to);  // what brings it back
// Rank i's x goes to rank (i + by) mod size.
Tensor shift(const Arg& x, const MeshAxis& axis, int64_t by);
// i32 []: this rank's place along the axis.
Tensor axis_index(const MeshAxis& axis);

// While it lives, collectives that the thread asks for by these functions are, where `waits`, waited for where they begin: nothing
// runs under them. Their values are the same. The innermost one counts.
class WaitScope {
 public:
  explicit WaitScope(bool waits);
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  bool outer_;
};
// Whether such an application is.
bool waits_in_place(const Attrs& attrs);

// The axis of an application.
MeshAxis axis_of(const Attrs& attrs);
Reduction reduction_of(const Attrs& attrs);
std::vector<int64_t> destinations_of(const Attrs& attrs);  // of permute

}  // namespace mstrain
