#include "core/comm/sums.h"

#include <algorithm>
#include <type_traits>

namespace mstrain {
namespace {

constexpr int64_t kBlock = 1024;  // of sums, which stay in the first cache

// What elements of T are added up in.
template <class T>
using Wide = std::conditional_t<std::is_class_v<T>, float, T>;

template <class T>
Wide<T> widened(T x) {
  return static_cast<Wide<T>>(x);
}

template <Reduction reduction, class W>
W combined(W a, W b) {
  if constexpr (std::is_same_v<W, bool>) {
    return reduction == Reduction::kMin ? a && b : a || b;
  } else if constexpr (reduction == Reduction::kMax) {
    return a > b || a != a ? a : b;
  } else if constexpr (reduction == Reduction::kMin) {
    return a < b || a != a ? a : b;
  } else if constexpr (std::is_integral_v<W>) {
    // Wraps around, as the sums of kernels do.
    using U = std::make_unsigned_t<W>;
    return static_cast<W>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return a + b;
  }
}

// `S`: the type of the sum and of the result. `rounds`: to S after every addition. `n` is known to the compiler where a block is
// full, and loops over it become vector code.
template <Reduction reduction, class T, class S, bool rounds>
[[gnu::always_inline]] inline void reduce_block(std::span<const void* const> pieces,
                                                const void* initial, void* out, int64_t at,
                                                int64_t n) {
  using W = Wide<S>;
  W sums[kBlock];
  size_t next = 0;
  if (initial != nullptr) {
    const S* const from = static_cast<const S*>(initial) + at;
    for (int64_t i = 0; i < n; ++i) {
      sums[i] = widened(from[i]);
    }
  } else {
    const T* const first = static_cast<const T*>(pieces[next++]) + at;
    for (int64_t i = 0; i < n; ++i) {
      sums[i] = static_cast<W>(widened(first[i]));
    }
  }
  for (; next < pieces.size(); ++next) {
    const T* const piece = static_cast<const T*>(pieces[next]) + at;
    for (int64_t i = 0; i < n; ++i) {
      sums[i] = combined<reduction, W>(sums[i], static_cast<W>(widened(piece[i])));
      if constexpr (rounds && std::is_class_v<S>) {
        sums[i] = widened(S(sums[i]));
      }
    }
  }
  S* const to = static_cast<S*>(out) + at;
  for (int64_t i = 0; i < n; ++i) {
    to[i] = S(sums[i]);
  }
}

template <Reduction reduction, class T, class S, bool rounds>
void reduce(std::span<const void* const> pieces, const void* initial, void* out, int64_t count) {
  int64_t at = 0;
  for (; at + kBlock <= count; at += kBlock) {
    reduce_block<reduction, T, S, rounds>(pieces, initial, out, at, kBlock);
  }
  reduce_block<reduction, T, S, rounds>(pieces, initial, out, at, count - at);
}

template <Reduction reduction, class T>
void reduce_pieces(std::span<const void* const> pieces, Elements initial, Elements out) {
  if (initial.data == nullptr) {
    reduce<reduction, T, T, false>(pieces, nullptr, out.data, out.count);
    return;
  }
  // Sums of 16 bits are carried on in their own type or in f32; all others in their own.
  if (initial.dtype == dtype_of<T>) {
    reduce<reduction, T, T, true>(pieces, initial.data, out.data, out.count);
  } else if constexpr (std::is_class_v<T>) {
    check(initial.dtype == Dtype::kF32, "a sum of {} is carried on in {}, not in {} or f32",
          name_of(dtype_of<T>), name_of(initial.dtype), name_of(dtype_of<T>));
    reduce<reduction, T, float, true>(pieces, initial.data, out.data, out.count);
  } else {
    fail("a sum of {} is carried on in {}, not in its own type", name_of(dtype_of<T>),
         name_of(initial.dtype));
  }
}

}  // namespace

void reduce_in_order(Reduction reduction, Dtype type, std::span<const void* const> pieces,
                     Elements initial, Elements out) {
  check(!pieces.empty(), "a reduction of no pieces");
  check(out.dtype == (initial.data == nullptr ? type : initial.dtype),
        "a reduction of {} gives {}, not {}", name_of(type),
        name_of(initial.data == nullptr ? type : initial.dtype), name_of(out.dtype));
  visit_dtype(type, [&]<class T>(T) {
    switch (reduction) {
      case Reduction::kSum:
      case Reduction::kFastSum: reduce_pieces<Reduction::kSum, T>(pieces, initial, out); break;
      case Reduction::kMax: reduce_pieces<Reduction::kMax, T>(pieces, initial, out); break;
      case Reduction::kMin: reduce_pieces<Reduction::kMin, T>(pieces, initial, out); break;
    }
  });
}

std::vector<int64_t> even_pieces(const Elements& all, int64_t ranks) {
  const int64_t line = 64 / size_of(all.dtype);
  const int64_t part = ((all.count + ranks - 1) / ranks + line - 1) / line * line;
  std::vector<int64_t> out;
  for (int64_t rest = all.count; std::ssize(out) < ranks; rest -= out.back()) {
    out.push_back(std::min(part, rest));
  }
  return out;
}

}  // namespace mstrain
