// What device/warp_group.cuh offers, on the emulator. Products are made as late as they may be, when they are waited for: until then
// their sums are no numbers. What they read in shared memory must be there from the beginning to the end.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "core/backends/cuda/device/mma.cuh"

namespace mstrain::cuda {

// a[64, 16] b[16, n] of a warp group, as one thread of it sees that.
struct WarpGroupProduct {
  float* c = nullptr;  // [parts][4]
  int parts = 0;
  bool keep = false;
  float (*load)(uint16_t) = nullptr;
  const Fragment* fragment = nullptr;  // null: a is in shared memory
  Fragment held{};                     // what was in it
  uint16_t rows[2][16] = {};           // of a, from registers
  uint64_t a = 0, b = 0;
  bool a_turned = false, b_turned = false;
};

// Those of a thread that are on their way.
struct WarpGroupProducts {
  std::vector<std::vector<WarpGroupProduct>> groups{1};  // the last one is not ended
  std::map<float*, std::vector<float>> sums;
};

// This thread's, as they are made for each block anew.
inline WarpGroupProducts& products_of_thread() {
  static std::map<unsigned, std::pair<uint64_t, WarpGroupProducts>> all;
  auto& [block, it] = all[hardware->here.thread.x];
  if (block != hardware->block_number) {
    block = hardware->block_number;
    it = WarpGroupProducts();
  }
  return it;
}

// An operand as its descriptor says (PTX ISA, "matrix descriptor", "canonical layouts" swizzled by 128 bytes).
struct WarpGroupOperand {
  uint64_t desc;
  bool turned;

  // Of number `k` of row or column `i`.
  uint32_t address(int i, int k) const {
    const auto field = [&](int shift) {
      return static_cast<uint32_t>(desc >> shift & 0x3fffU) << 4U;
    };
    const uint32_t start = field(0), leading = field(16), stride = field(32);
    if (desc >> 62U != 1 || (desc >> 49U & 7U) != 0 || start % 1024 >= 128 ||
        (turned && start % 1024 != 0)) {
      hardware->mistake("multiplies what is no tile swizzled by 128 bytes");
    }
    const auto row = static_cast<uint32_t>(i), summand = static_cast<uint32_t>(k);
    const uint32_t at = turned ? start + row / 64 * leading + row % 64 * 2 + summand / 8 * stride +
                                     summand % 8 * 128
                               : start + row / 8 * stride + row % 8 * 128 + summand * 2;
    return at ^ ((at >> 7U & 7U) << 4U);
  }
  uint16_t number(int i, int k) const {
    uint16_t value = 0;
    std::memcpy(&value, hardware->at_shared_address(address(i, k), 2), 2);
    return value;
  }
  // The warp reads all of rows [first, first + rows): each lane says so of its share.
  void note_reads(int first, int rows) const {
    for (int i = static_cast<int>(threadIdx.x) % kWarp; i < 2 * rows; i += kWarp) {
      const int row = turned ? i % (rows / 8) * 8 : i / 2, k = turned ? i / (rows / 8) : i % 2 * 8;
      hardware->multiplier_reads(hardware->at_shared_address(address(first + row, k), 16), 16);
    }
  }
};

inline void note_reads(const WarpGroupProduct& p) {
  const int warp = static_cast<int>(threadIdx.x) % 128 / kWarp;
  if (p.fragment == nullptr) {
    WarpGroupOperand{p.a, p.a_turned}.note_reads(warp * 16, 16);
  }
  WarpGroupOperand{p.b, p.b_turned}.note_reads(0, p.parts * 8);
}

inline void make_product(const WarpGroupProduct& p, std::vector<float>& sums) {
  const int thread = static_cast<int>(threadIdx.x) % 128, warp = thread / kWarp;
  const int g = thread % kWarp / 4, t = thread % 4;
  const WarpGroupOperand a{p.a, p.a_turned}, b{p.b, p.b_turned};
  note_reads(p);
  if (p.fragment != nullptr && std::memcmp(p.fragment, &p.held, sizeof(Fragment)) != 0) {
    hardware->mistake("changes registers that a product on its way reads");
  }
  float rows[2][16];
  for (int half = 0; half < 2; ++half) {
    for (int k = 0; k < 16; ++k) {
      rows[half][k] =
          p.load(p.fragment == nullptr ? a.number(warp * 16 + g + half * 8, k) : p.rows[half][k]);
    }
  }
  for (int part = 0; part < p.parts; ++part) {
    for (int i = 0; i < 2; ++i) {
      float products[2] = {};
      for (int k = 0; k < 16; ++k) {
        const float y = p.load(b.number(part * 8 + t * 2 + i, k));
        products[0] += rows[0][k] * y;
        products[1] += rows[1][k] * y;
      }
      for (int half = 0; half < 2; ++half) {
        float& sum = sums[static_cast<size_t>(part * 4 + half * 2 + i)];
        sum = (p.keep ? sum : 0.0F) + products[half];
      }
    }
  }
}

inline void begin_product(WarpGroupProduct product) {
  note_reads(product);
  WarpGroupProducts& mine = products_of_thread();
  const auto n = static_cast<size_t>(product.parts) * 4;
  if (!mine.sums.contains(product.c)) {
    mine.sums[product.c].assign(product.c, product.c + n);
    std::fill_n(product.c, n, std::nanf(""));
  }
  mine.groups.back().push_back(product);
}

template <class Format, bool a_turned, bool b_turned, int parts>
void multiply(float (&c)[parts][4], uint64_t a, uint64_t b, bool keep) {
  begin_product({.c = &c[0][0],
                 .parts = parts,
                 .keep = keep,
                 .load = Format::load,
                 .a = a,
                 .b = b,
                 .a_turned = a_turned,
                 .b_turned = b_turned});
}
template <class Format, bool b_turned, int parts>
void multiply(float (&c)[parts][4], const Fragment& a, uint64_t b, bool keep) {
  WarpGroupProduct product{.c = &c[0][0],
                           .parts = parts,
                           .keep = keep,
                           .load = Format::load,
                           .fragment = &a,
                           .held = a,
                           .b = b,
                           .b_turned = b_turned};
  Fragment of[32];
  warp_gather(a, of, __LINE__);
  for (int half = 0; half < 2; ++half) {
    for (int k = 0; k < 16; ++k) {
      const uint32_t two = of[threadIdx.x % kWarp / 4 * 4 + k % 8 / 2].at[k / 8 * 2 + half];
      product.rows[half][k] = static_cast<uint16_t>(k % 2 == 0 ? two : two >> 16U);
    }
  }
  begin_product(product);
}

template <class Registers>
void hold(Registers&) {}
inline void compute_now(float) {}
template <class... Registers>
void begin_products(Registers&...) {}
inline void end_products() { products_of_thread().groups.emplace_back(); }

template <int left, class... Registers>
void finish_products(Registers&...) {
  WarpGroupProducts& mine = products_of_thread();
  while (mine.groups.size() > left + 1) {
    for (const WarpGroupProduct& product : mine.groups.front()) {
      make_product(product, mine.sums[product.c]);
    }
    mine.groups.erase(mine.groups.begin());
  }
  for (auto it = mine.sums.begin(); it != mine.sums.end();) {
    const bool waits = std::ranges::any_of(mine.groups, [&](const auto& group) {
      return std::ranges::find(group, it->first, &WarpGroupProduct::c) != group.end();
    });
    if (waits) {
      ++it;
      continue;
    }
    for (size_t i = 0; i < it->second.size(); ++i) {
      if (!std::isnan(it->first[i])) {
        hardware->mistake("changes sums of a product on its way");
      }
      it->first[i] = it->second[i];
    }
    it = mine.sums.erase(it);
  }
  hardware->exchange(0, 0, __LINE__);  // the warp goes on as one
}

template <class T>
uint32_t address_of(const Memory<T>& shared) {
  return hardware->shared_address(shared.address());
}
inline void show_to_products() { hardware->show_to_multipliers(); }

template <class To, class From>
void begin_copy_or_zeros(const To& to, int i, const From& from, int64_t j, bool there) {
  begin_copy_by([=] {
    for (int k = 0; k < 8; ++k) {
      to[i + k] = there ? uint16_t(from[j + k]) : uint16_t(0);
    }
  });
}
template <class To, class From>
void begin_copy_of_number(const To& to, int i, const From& from, int64_t j, bool there) {
  begin_copy_by([=] { to[i] = there ? float(from[j]) : 0.0F; });
}
inline Memory<float> as_numbers(const Memory<uint16_t>& shared) {
  return Memory<float>(const_cast<uint16_t*>(shared.address()));
}
inline Pack<float, 2> pair_at(const Memory<float>& numbers, int i) {
  return {{numbers[i], numbers[i + 1]}};
}
inline void store_eight(const Memory<uint16_t>& to, int64_t i, const Fragment& eight) {
  for (int j = 0; j < 8; ++j) {
    to[i + j] = static_cast<uint16_t>(eight.at[j / 2] >> (16 * (j % 2)));
  }
}
inline void init_phases(uint32_t barrier, int count) { hardware->init_phases(barrier, count); }
inline void arrive(uint32_t barrier) { hardware->arrive(barrier); }
inline void wait_for_phase(uint32_t barrier, uint32_t number) {
  hardware->wait_for_phase(barrier, number & 1U, __LINE__);
}
template <int registers>
void need_fewer_registers() {}
template <int registers>
void need_more_registers() {}
inline float larger(float x, float y) { return std::fmax(x, y); }

}  // namespace mstrain::cuda
