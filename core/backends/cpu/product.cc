// From the dims of a dot_general to matrices. Dims are rows (of a and the result), columns (of b and the result), inner (of a
// and b) or batch (of all three); neighbours of a kind that every tensor steps through evenly become one. What is left of
// rows and columns beside the fastest dim is walked as a batch; an operand that cannot be read so is copied.
#include "core/backends/cpu/product.h"

#include <algorithm>
#include <limits>

namespace mstrain::cpu {
namespace {

constexpr int kA = 0, kB = 1, kC = 2;
// Products of fewer rows or columns than that are not worth a call of their own where a copy would join them.
constexpr int64_t kFewRows = 16;

struct Dim {
  char letter;
  int64_t size;
  std::array<int64_t, 3> step;  // of a, b and c; 0: the tensor repeats
};
using Dims = std::vector<Dim>;

void sort_by_step(Dims& dims, int tensor) {
  const auto at = static_cast<size_t>(tensor);
  std::stable_sort(dims.begin(), dims.end(), [at](const Dim& x, const Dim& y) {
    return std::abs(x.step[at]) > std::abs(y.step[at]);
  });
}

// Neighbours joined where all of `tensors` allow it; letters of joined dims are those of the fastest.
Dims folded(const Dims& dims, std::initializer_list<int> tensors) {
  Dims result;
  for (const Dim& dim : dims) {
    const bool joins =
        !result.empty() && std::all_of(tensors.begin(), tensors.end(), [&](int tensor) {
          const auto at = static_cast<size_t>(tensor);
          return result.back().step[at] == dim.step[at] * dim.size;
        });
    if (joins) {
      result.back() = {dim.letter, result.back().size * dim.size, dim.step};
    } else {
      result.push_back(dim);
    }
  }
  return result;
}

class Layout {
 public:
  Layout(const DotDims& dims, const ViewType& a, const ViewType& b, const Shape& out) {
    const auto step = [](const std::string& letters, const Shape& steps, char letter) {
      const size_t at = letters.find(letter);
      return at == std::string::npos ? 0 : steps[static_cast<int>(at)];
    };
    const Shape of_c = contiguous_strides(out);
    const auto add = [&](Dims& to, char letter, int64_t size) {
      if (size != 1) {
        to.push_back({letter,
                      size,
                      {step(dims.a, a.strides, letter), step(dims.b, b.strides, letter),
                       step(dims.out, of_c, letter)}});
      }
    };
    for (size_t i = 0; i < dims.out.size(); ++i) {
      const char letter = dims.out[i];
      const bool in_a = dims.a.find(letter) != std::string::npos;
      const bool in_b = dims.b.find(letter) != std::string::npos;
      // What an operand repeats along a dim of both is a dim of the other alone.
      const bool of_a = in_a && (!in_b || step(dims.b, b.strides, letter) == 0);
      const bool of_b = in_b && (!in_a || step(dims.a, a.strides, letter) == 0);
      add(of_a ? rows_ : of_b ? columns_ : batch_, letter, out[static_cast<int>(i)]);
    }
    for (size_t i = 0; i < dims.a.size(); ++i) {
      if (dims.out.find(dims.a[i]) == std::string::npos) {
        add(inner_, dims.a[i], a.type.shape[static_cast<int>(i)]);
      }
    }
    order_result();
  }

  ProductLayout find(std::array<bool, 2> converted) {
    const std::array<bool, 2> first = swapped_ ? std::array{converted[1], converted[0]} : converted;
    const bool a_is_smaller = elements(rows_) <= elements(columns_);
    const std::array<std::array<bool, 2>, 4> attempts = {{
        {false, false},
        {a_is_smaller, !a_is_smaller},
        {!a_is_smaller, a_is_smaller},
        {true, true},
    }};
    for (const auto& [a, b] : attempts) {
      if ((a || !first[kA]) && (b || !first[kB])) {
        if (auto result = attempt(a, b)) {
          return std::move(*result);
        }
      }
    }
    fail("a product of dense matrices has no layout");
  }

 private:
  static int64_t elements(const Dims& dims) {
    int64_t product = 1;
    for (const Dim& dim : dims) {
      product *= dim.size;
    }
    return product;
  }

  // Columns of c are dense: where its fastest dim is a row, the operands change places; where it is a batch dim, c is made
  // in an order of its own.
  void order_result() {
    const auto fastest = [](const Dims& dims) {
      int64_t least = std::numeric_limits<int64_t>::max();
      for (const Dim& dim : dims) {
        least = std::min(least, dim.step[kC]);
      }
      return least;
    };
    if (!columns_.empty() && !rows_.empty() && fastest(rows_) < fastest(columns_)) {
      swapped_ = true;
      std::swap(rows_, columns_);
      for (Dims* dims : {&batch_, &rows_, &columns_, &inner_}) {
        for (Dim& dim : *dims) {
          std::swap(dim.step[kA], dim.step[kB]);
        }
      }
    }
    if (!columns_.empty() && fastest(columns_) != 1) {
      own_order_ = make_dense({&batch_, &rows_, &columns_}, kC);
    }
  }

  // The steps of a tensor that has its dims in this order; gives their letters.
  static std::string make_dense(std::initializer_list<Dims*> order, int tensor) {
    std::string letters;
    for (const Dims* dims : order) {
      for (const Dim& dim : *dims) {
        letters.push_back(dim.letter);
      }
    }
    int64_t step = 1;
    for (auto dims = std::rbegin(order); dims != std::rend(order); ++dims) {
      for (auto it = (*dims)->rbegin(); it != (*dims)->rend(); ++it) {
        it->step[static_cast<size_t>(tensor)] = step;
        step *= it->size;
      }
    }
    return letters;
  }

  // Rows or columns that would be one dim were it not for the operand, and are few as they are.
  static bool are_torn(const Dims& dims, const Dims& joined) {
    return joined.size() > 1 && joined.back().size < kFewRows && folded(dims, {kC}).size() == 1;
  }

  // Whether a matrix has one dense dim and no two of its elements share a place.
  static bool is_matrix(int64_t rows, int64_t columns, int64_t row, int64_t column) {
    return (column == 1 && (row >= columns || rows == 1)) ||
           (row == 1 && (column >= rows || columns == 1)) || (rows == 1 && columns == 1);
  }

  std::optional<ProductLayout> attempt(bool copy_a, bool copy_b) const {
    Dims batch = batch_, rows = rows_, columns = columns_, inner = inner_;
    ProductLayout result;
    result.swapped = swapped_;
    sort_by_step(inner, copy_a ? kB : kA);
    if (copy_a) {
      result.copied[kA] = make_dense({&batch, &rows, &inner}, kA);
    }
    if (copy_b) {
      result.copied[kB] = make_dense({&batch, &inner, &columns}, kB);
    }
    const Dims m = folded(rows, {kA, kC});
    const Dims n = folded(columns, {kB, kC});
    const Dims k = folded(inner, {kA, kB});
    if (k.size() > 1 || (!copy_a && are_torn(rows, m)) || (!copy_b && are_torn(columns, n))) {
      return std::nullopt;
    }
    Dims walked = batch;
    walked.insert(walked.end(), m.begin(), m.empty() ? m.end() : m.end() - 1);
    walked.insert(walked.end(), n.begin(), n.empty() ? n.end() : n.end() - 1);
    for (const Dim& dim : walked) {
      // The libraries take no batch along which both operands repeat: a copy of one joins what it repeats.
      const bool repeats = dim.step[kA] == 0 && dim.step[kB] == 0;
      if (dim.step[kA] < 0 || dim.step[kB] < 0 || repeats) {
        return std::nullopt;
      }
    }
    if (!set_matrices(result.product, m, n, k)) {
      return std::nullopt;
    }
    set_batch(result.product, walked);
    if (own_order_) {
      result.result = own_order_;
    } else if (n.size() <= 1) {
      result.columns.emplace();
      for (const Dim& dim : columns_) {
        result.columns->push_back(dim.letter);
      }
    }
    if (swapped_) {
      std::swap(result.copied[0], result.copied[1]);
    }
    return result;
  }

  static bool set_matrices(Product& p, const Dims& m, const Dims& n, const Dims& k) {
    const auto step = [](const Dims& dims, int tensor) {
      return dims.empty() ? 0 : dims.back().step[static_cast<size_t>(tensor)];
    };
    p.m = m.empty() ? 1 : m.back().size;
    p.n = n.empty() ? 1 : n.back().size;
    p.k = k.empty() ? 1 : k.back().size;
    p.a_row = step(m, kA);
    p.a_column = step(k, kA);
    p.b_row = step(k, kB);
    p.b_column = step(n, kB);
    p.c_row = m.empty() ? p.n : step(m, kC);
    fit_strides(p);
    return is_matrix(p.m, p.k, p.a_row, p.a_column) && is_matrix(p.k, p.n, p.b_row, p.b_column);
  }

  static void set_batch(Product& p, Dims walked) {
    sort_by_step(walked, kC);
    Shape shape;
    std::array<Shape, 3> steps;
    for (const Dim& dim : walked) {
      shape.push_back(dim.size);
      for (size_t i = 0; i < steps.size(); ++i) {
        steps[i].push_back(dim.step[i]);
      }
    }
    p.batch = make_nest(shape, steps);
  }

  Dims batch_, rows_, columns_, inner_;
  bool swapped_ = false;
  std::optional<std::string> own_order_;  // of c
};

}  // namespace

void fit_strides(Product& p) {
  const auto fit = [](int64_t rows, int64_t columns, int64_t& row, int64_t& column) {
    if (columns == 1) {
      column = row == 1 ? std::max<int64_t>(rows, 1) : 1;
    }
    if (rows == 1) {
      row = column == 1 ? columns : 1;
    }
  };
  fit(p.m, p.k, p.a_row, p.a_column);
  fit(p.k, p.n, p.b_row, p.b_column);
}

ProductLayout layout_of(const DotDims& dims, const ViewType& a, const ViewType& b, const Shape& out,
                        std::array<bool, 2> converted) {
  return Layout(dims, a, b, out).find(converted);
}

}  // namespace mstrain::cpu
