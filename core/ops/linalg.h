// Linear algebra on the matrices that the last two dims hold; leading dims are a batch, and broadcast where there are two
// operands. Floating types; 16 bits are computed in f32. Derivatives of every order exist where the functions are
// smooth; those of decompositions need distinct singular values or eigenvalues, and treat equal ones as if they stayed
// so. A matrix that cannot be decomposed as asked is an Error when the operation runs, which names its place in the batch.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> linalg_ops();
std::span<const OpDef> decomposition_ops();

// The lower triangular L with a = L Lᵀ, of the symmetric part of a, which must be positive definite.
Tensor cholesky(const Arg& a);

// x with a x = b: a[..., n, n], b[..., n, k] or [..., n]. Throws where a is singular.
Tensor solve(const Arg& a, const Arg& b);

struct TriangularOptions {
  bool lower = true;       // which triangle of a counts; the other one is not read
  bool transpose = false;  // aᵀ x = b
};
Tensor triangular_solve(const Arg& a, const Arg& b, const TriangularOptions& options = {});

Tensor inverse(const Arg& a);

// The determinant as its sign (-1, 0 or 1) and the logarithm of its magnitude, which does not overflow.
struct LogDeterminant {
  Tensor sign, logarithm;
};
LogDeterminant slogdet(const Arg& a);
Tensor det(const Arg& a);

// a[..., m, n] = q[..., m, k] r[..., k, n], k = min(m, n): the columns of q are orthonormal, r is upper triangular with a
// diagonal that is not negative.
struct Qr {
  Tensor q, r;
};
Qr qr(const Arg& a);

// a[..., m, n] = u[..., m, k] diag(s[..., k]) vt[..., k, n], k = min(m, n): s descends and is not negative; the largest
// component of each column of u is positive.
struct Svd {
  Tensor u, s, vt;
};
Svd svd(const Arg& a);

// Of the symmetric part of a: a v = v diag(values). Values ascend; the largest component of each column of v is positive.
struct Eigh {
  Tensor values, vectors;
};
Eigh eigh(const Arg& a);

}  // namespace mstrain
