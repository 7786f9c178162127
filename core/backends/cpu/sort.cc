// sort, argsort and topk: elements become unsigned keys in the wanted order, and keys travel with their positions. Long lines
// are sorted by radix, which is stable; short ones, and the few greatest of a line, by comparing keys and then positions.
#include <array>
#include <bit>
#include <cstring>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/parallel.h"
#include "core/backends/cpu/words.h"

namespace mstrain::cpu {
namespace {

constexpr int64_t kShortLine = 256;  // below: counting digits takes longer than comparing

template <class T>
using KeyOf = Word<sizeof(T)>;

// Ascending keys are elements in the wanted order; equal elements, -0 and 0 among them, have equal keys, and all NaN the
// greatest.
template <class T>
KeyOf<T> key_of(T value, bool descending) {
  using Key = KeyOf<T>;
  constexpr Key kSign = static_cast<Key>(Key{1} << (sizeof(Key) * 8 - 1));
  const Key flip = descending ? static_cast<Key>(-1) : Key{0};
  Key bits = std::bit_cast<Key>(value);
  if constexpr (is_floating(dtype_of<T>)) {
    if (value != value) {
      return static_cast<Key>(-1);
    }
    bits = bits == kSign ? Key{0} : bits;
    bits = static_cast<Key>(bits ^ ((bits & kSign) != 0 ? static_cast<Key>(-1) : kSign));
  } else if constexpr (std::is_signed_v<T>) {
    bits = static_cast<Key>(bits ^ kSign);
  }
  return static_cast<Key>(bits ^ flip);
}

template <class Key>
struct Item {
  Key key;
  int32_t position;
  friend bool operator<(const Item& a, const Item& b) {
    return a.key != b.key ? a.key < b.key : a.position < b.position;
  }
};

// Sorts items[0, n); `other` is as large. Returns which of the two holds the result.
template <class Key>
Item<Key>* sort_items(Item<Key>* items, Item<Key>* other, int64_t n) {
  if (n < kShortLine) {
    std::sort(items, items + n);
    return items;
  }
  constexpr size_t kDigits = sizeof(Key);
  std::array<std::array<int32_t, 256>, kDigits> counts{};
  for (int64_t i = 0; i < n; ++i) {
    for (size_t digit = 0; digit < kDigits; ++digit) {
      ++counts[digit][items[i].key >> (8 * digit) & 0xff];
    }
  }
  for (size_t digit = 0; digit < kDigits; ++digit) {
    std::array<int32_t, 256>& place = counts[digit];
    if (place[items[0].key >> (8 * digit) & 0xff] == n) {
      continue;  // the same in all
    }
    int32_t before = 0;
    for (int32_t& count : place) {
      before += std::exchange(count, before);
    }
    for (int64_t i = 0; i < n; ++i) {
      other[place[items[i].key >> (8 * digit) & 0xff]++] = items[i];
    }
    std::swap(items, other);
  }
  return items;
}

// The first `count` of n items, of which `item(j)` gives the one at position j: what comes before the last of those kept is
// kept as well, and cut back to `count` now and then. For counts far below n.
template <class Key, class Make>
void first_items(int64_t n, int64_t count, Item<Key>* items, const Make& item) {
  const int64_t room = std::max<int64_t>(2 * count, kShortLine / 4);
  int64_t kept = 0;
  bool bounded = false;
  Key bound = 0;
  const auto cut = [&] {
    std::nth_element(items, items + count - 1, items + kept);
    bounded = true;
    bound = items[count - 1].key;
    kept = count;
  };
  for (int64_t j = 0; j < n; ++j) {
    const Item<Key> next = item(j);
    if (!bounded || next.key < bound) {  // of equal ones the earlier is kept
      items[kept++] = next;
      if (kept == room) {
        cut();
      }
    }
  }
  if (kept > count) {
    cut();
  }
  std::sort(items, items + count);
}

// x[outer, n, inner], of whose lines along n the first `count` are wanted; results [outer, count, inner].
struct Lines {
  int64_t outer = 1, n = 0, inner = 1, count = 0;
  bool descending = false;
  int threads = 1;

  Lines(const KernelRequest& request, int axis, int64_t wanted, bool from_greatest)
      : descending(from_greatest) {
    const Shape& x = request.inputs[0].type.shape;
    n = x[axis];
    count = wanted < 0 ? n : wanted;
    for (int d = 0; d < x.rank(); ++d) {
      (d < axis ? outer : inner) *= d == axis ? 1 : x[d];
    }
    constexpr int64_t kWeight = 16;  // of an element against an addition
    threads = useful_threads(request.threads, outer * inner, outer * inner * n * kWeight);
  }

  bool few() const { return n >= kShortLine && count > 0 && count <= n / 8; }
};

template <class T>
int64_t bytes_of_items(const Lines& lines) {
  return (lines.n * static_cast<int64_t>(sizeof(Item<KeyOf<T>>)) + 63) / 64 * 64;
}

// `values` and `positions`: which output each is, -1 for none.
template <class T>
Kernel make_ordered(const Lines& lines, int values, int positions) {
  using Key = KeyOf<T>;
  const int64_t room = bytes_of_items<T>(lines);
  return {[lines, room, values, positions](const KernelMemory& memory) {
            const T* const x = static_cast<const T*>(memory.inputs[0]);
            parallel_chunks(
                lines.threads, lines.outer * lines.inner, 1,
                [&](int64_t begin, int64_t end, int thread) {
                  std::byte* const scratch = static_cast<std::byte*>(memory.workspace);
                  auto* const items =
                      reinterpret_cast<Item<Key>*>(scratch + int64_t{2} * thread * room);
                  auto* const other =
                      reinterpret_cast<Item<Key>*>(scratch + (int64_t{2} * thread + 1) * room);
                  for (int64_t line = begin; line < end; ++line) {
                    const int64_t outer = line / lines.inner;
                    const int64_t inner = line % lines.inner;
                    const T* const from = x + outer * lines.n * lines.inner + inner;
                    const auto item = [&](int64_t j) {
                      return Item<Key>{key_of(from[j * lines.inner], lines.descending),
                                       static_cast<int32_t>(j)};
                    };
                    const Item<Key>* sorted = items;
                    if (lines.few()) {
                      first_items(lines.n, lines.count, items, item);
                    } else {
                      for (int64_t j = 0; j < lines.n; ++j) {
                        items[j] = item(j);
                      }
                      sorted = sort_items(items, other, lines.n);
                    }
                    const int64_t to = outer * lines.count * lines.inner + inner;
                    for (int64_t j = 0; values >= 0 && j < lines.count; ++j) {
                      static_cast<T*>(
                          memory.outputs[static_cast<size_t>(values)])[to + j * lines.inner] =
                          from[sorted[j].position * lines.inner];
                    }
                    for (int64_t j = 0; positions >= 0 && j < lines.count; ++j) {
                      static_cast<int32_t*>(
                          memory.outputs[static_cast<size_t>(positions)])[to + j * lines.inner] =
                          sorted[j].position;
                    }
                  }
                });
          },
          2 * lines.threads * room};
}

Kernel ordered(const KernelRequest& request, const Lines& lines, int values, int positions) {
  return visit_dtype(request.inputs[0].type.dtype, [&]<class T>(T) -> Kernel {
    if constexpr (std::is_same_v<T, bool>) {
      fail("{}: no kernel for bool", request.op.name);
    } else {
      return make_ordered<T>(lines, values, positions);
    }
  });
}

Lines whole_lines(const KernelRequest& request) {
  return {request, static_cast<int>(request.attrs.integer("axis")), -1,
          request.attrs.flag("descending")};
}

Kernel prepare_sort(const KernelRequest& request) {
  return ordered(request, whole_lines(request), 0, -1);
}
Kernel prepare_argsort(const KernelRequest& request) {
  return ordered(request, whole_lines(request), -1, 0);
}
Kernel prepare_topk(const KernelRequest& request) {
  const Lines lines(request, request.inputs[0].type.shape.rank() - 1, request.attrs.integer("k"),
                    true);
  return ordered(request, lines, 0, 1);
}

}  // namespace

void register_sort() {
  register_kernel(table(), "sort", {.prepare = prepare_sort});
  register_kernel(table(), "argsort", {.prepare = prepare_argsort});
  register_kernel(table(), "topk", {.prepare = prepare_topk});
}

}  // namespace mstrain::cpu
