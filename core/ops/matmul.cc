#include "core/ops/matmul.h"

#include "core/ops/build.h"
#include "core/ops/dot_general.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

// Letters of an operand: of its leading dims, then those of its matrix (or vector).
struct Letters {
  std::string leading;
  std::string matrix;
  std::string all() const { return leading + matrix; }
};

// The common leading dims; dims that only one operand has are its own.
std::string leading_letters(int rank, int longest) {
  return std::string("abcdefghij")
      .substr(static_cast<size_t>(longest - rank), static_cast<size_t>(rank));
}

void check_inner(const Tensor& a, const Tensor& b, const Letters& la, const Letters& lb,
                 const MatmulOptions& options, const SourceLocation& where) {
  const auto size = [](const Tensor& x, const Letters& letters, char letter) {
    return x.dim(static_cast<int>(letters.all().find(letter)));
  };
  const int64_t inner_a = size(a, la, 'k');
  const int64_t inner_b = size(b, lb, 'k');
  const bool fits = b.rank() > 1 && inner_a == size(b, lb, 'n');
  check(inner_a == inner_b, "matmul: inner dimensions differ: {}{} x {}{} ({} vs {}), at {}{}",
        to_string(a.shape()), options.transpose_a ? "ᵀ" : "", to_string(b.shape()),
        options.transpose_b ? "ᵀ" : "", inner_a, inner_b, to_string(where),
        fits ? "; did you forget transpose()?" : "");
}

}  // namespace

Tensor matmul(const Arg& arg_a, const Arg& arg_b, const MatmulOptions& options) {
  Tensor a = arg_a.tensor();
  Tensor b = arg_b.tensor();
  check(a.rank() >= 1 && b.rank() >= 1, "matmul: a scalar is no matrix: {} x {}, at {}",
        to_string(a.shape()), to_string(b.shape()), to_string(arg_a.where()));
  const bool row = a.rank() == 1;
  const bool column = b.rank() == 1;
  const int leading_a = row ? 0 : a.rank() - 2;
  const int leading_b = column ? 0 : b.rank() - 2;
  const int leading = std::max(leading_a, leading_b);
  const Letters la{leading_letters(leading_a, leading), row                   ? "k"
                                                        : options.transpose_a ? "km"
                                                                              : "mk"};
  const Letters lb{leading_letters(leading_b, leading), column                ? "k"
                                                        : options.transpose_b ? "nk"
                                                                              : "kn"};
  check_inner(a, b, la, lb, options, arg_a.where());
  if (leading_a > 0 && leading_b > 0) {
    const auto shape_of = [](const Tensor& x, int count) {
      return Shape(std::span(x.shape().begin(), static_cast<size_t>(count)));
    };
    const Shape common =
        broadcast_shape("matmul", shape_of(a, leading_a), shape_of(b, leading_b), arg_a.where());
    // Dims of size 1 are repeated; missing ones are not.
    const auto repeated = [&](const Tensor& x, int count) {
      Shape shape = x.shape();
      for (int i = 0; i < count; ++i) {
        shape[i] = common[leading - count + i];
      }
      return shape == x.shape() ? x : broadcast_to(x, shape);
    };
    a = repeated(a, leading_a);
    b = repeated(b, leading_b);
  }
  const std::string result =
      leading_letters(leading, leading) + (row ? "" : "m") + (column ? "" : "n");
  return apply1(kDotGeneral, {a, b}, {{"dims", to_text({la.all(), lb.all(), result})}},
                arg_a.where());
}

}  // namespace mstrain
