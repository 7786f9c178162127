#include "embedding_cache/pool.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/base/isa.h"

namespace mstrain::embedding_cache {
namespace {

constexpr size_t kAhead = 8;  // positions whose rows are asked for before they are read

[[gnu::always_inline]] inline void prefetch_row(const std::byte* record, Columns columns) {
  const std::byte* const from = record + kHeaderBytes + size_t{columns.first} * 4;
  for (size_t byte = 0; byte < size_t{columns.width} * 4; byte += 64) {
    __builtin_prefetch(from + byte);
  }
}

[[gnu::always_inline]] inline void set_scaled(float* __restrict out, const float* __restrict in,
                                              float scale, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    out[i] = scale * in[i];
  }
}

[[gnu::always_inline]] inline void add_scaled(float* __restrict out, const float* __restrict in,
                                              float scale, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    out[i] += scale * in[i];
  }
}

[[gnu::always_inline]] inline void take_larger(float* __restrict out, const float* __restrict in,
                                               size_t n) {
  for (size_t i = 0; i < n; ++i) {
    out[i] = in[i] > out[i] ? in[i] : out[i];
  }
}

// kWidth: that of the columns where it is a usual one, else 0.
template <size_t kWidth>
[[gnu::always_inline]] inline void pool(const PoolJob& job, size_t begin, size_t end) {
  const Bags& bags = job.bags;
  const size_t width = kWidth == 0 ? job.columns.width : kWidth;
  const auto row_at = [&](size_t position) {
    return weights_of(job.records[job.inverse[position]]) + job.columns.first;
  };
  for (size_t row = begin; row < end; ++row) {
    for (size_t nth = 0; nth < bags.per_row; ++nth) {
      const size_t bag = row * bags.per_row + nth;
      const size_t from = bags.offsets.empty() ? bag : bags.offsets[bag];
      const size_t to = bags.offsets.empty() ? bag + 1 : bags.offsets[bag + 1];
      float* const out = job.out + (row - job.first_row) * job.stride + nth * width;
      if (from == to) {
        std::memset(out, 0, width * sizeof(float));
      }
      for (size_t position = from; position < to; ++position) {
        if (position + kAhead < job.inverse.size()) {
          prefetch_row(job.records[job.inverse[position + kAhead]], job.columns);
        }
        const float weight = bags.weights.empty() ? 1.0F : bags.weights[position];
        if (position > from && bags.pooling == Pooling::kMax) {
          take_larger(out, row_at(position), width);
        } else if (position > from) {
          add_scaled(out, row_at(position), weight, width);
        } else if (bags.weights.empty()) {
          std::memcpy(out, row_at(position), width * sizeof(float));
        } else {
          set_scaled(out, row_at(position), weight, width);
        }
      }
      if (bags.pooling == Pooling::kMean && to - from > 1) {
        const float scale = 1.0F / static_cast<float>(to - from);
        for (size_t i = 0; i < width; ++i) {
          out[i] *= scale;
        }
      }
    }
  }
}

using PoolRows = void (*)(const PoolJob& job, size_t begin, size_t end);
using AddScaled = void (*)(float* out, const float* in, float scale, size_t n);

#define MSTRAIN_FOR_TARGET(name, attribute)                                       \
  template <size_t kWidth>                                                        \
  attribute void pool_##name(const PoolJob& job, size_t begin, size_t end) {      \
    pool<kWidth>(job, begin, end);                                                \
  }                                                                               \
  attribute void add_##name(float* out, const float* in, float scale, size_t n) { \
    add_scaled(out, in, scale, n);                                                \
  }                                                                               \
  PoolRows pool_rows_##name(size_t width) {                                       \
    switch (width) {                                                              \
      case 1: return pool_##name<1>;                                              \
      case 8: return pool_##name<8>;                                              \
      case 16: return pool_##name<16>;                                            \
      case 17: return pool_##name<17>;                                            \
      case 32: return pool_##name<32>;                                            \
      case 64: return pool_##name<64>;                                            \
      case 80: return pool_##name<80>;                                            \
      case 81: return pool_##name<81>;                                            \
      case 128: return pool_##name<128>;                                          \
      default: return pool_##name<0>;                                             \
    }                                                                             \
  }
#if defined(__x86_64__)
MSTRAIN_FOR_TARGET(avx2, [[gnu::target("avx2")]])
MSTRAIN_FOR_TARGET(avx512, [[gnu::target("avx512f,prefer-vector-width=512")]])
PoolRows pool_for(size_t width) {
  return isa() >= Isa::kAvx512 ? pool_rows_avx512(width) : pool_rows_avx2(width);
}
AddScaled add_kernel() { return isa() >= Isa::kAvx512 ? add_avx512 : add_avx2; }
#else
MSTRAIN_FOR_TARGET(baseline, )
PoolRows pool_for(size_t width) { return pool_rows_baseline(width); }
AddScaled add_kernel() { return add_baseline; }
#endif
#undef MSTRAIN_FOR_TARGET

size_t bags_of(const Bags& bags, size_t positions) {
  return bags.offsets.empty() ? positions : bags.offsets.size() - 1;
}

}  // namespace

Columns check_bags(const Bags& bags, size_t positions, const RowLayout& layout, size_t stride,
                   const std::string& call) {
  if (!bags.offsets.empty()) {
    check(bags.offsets.front() == 0 && bags.offsets.back() == positions,
          "embedding_cache: {}: offsets from {} to {}, but the batch has positions 0 to {}", call,
          bags.offsets.front(), bags.offsets.back(), positions);
    const auto falls = std::adjacent_find(bags.offsets.begin(), bags.offsets.end(),
                                          [](uint32_t a, uint32_t b) { return a > b; });
    check(falls == bags.offsets.end(), "embedding_cache: {}: offsets fall after bag {}", call,
          falls - bags.offsets.begin());
  }
  check(bags.weights.empty() || bags.weights.size() == positions,
        "embedding_cache: {}: {} weights for {} positions", call, bags.weights.size(), positions);
  check(bags.weights.empty() || bags.pooling == Pooling::kSum,
        "embedding_cache: {}: weights are for sums", call);
  const auto& parts = layout.parts();
  check(!bags.segment || *bags.segment < parts.size(),
        "embedding_cache: {}: segment {} of a row of {}", call, bags.segment.value_or(0),
        parts.size());
  const size_t count = bags_of(bags, positions);
  check(bags.per_row > 0 && count % bags.per_row == 0,
        "embedding_cache: {}: {} bags do not make rows of {}", call, count, bags.per_row);
  const Columns columns = bags.segment
                              ? Columns{parts[*bags.segment].weights, parts[*bags.segment].width}
                              : Columns{0, layout.width()};
  check(stride >= bags.per_row * columns.width,
        "embedding_cache: {}: rows of {} floats do not fit a stride of {}", call,
        bags.per_row * columns.width, stride);
  return columns;
}

size_t rows_of(const Bags& bags, size_t positions) {
  return bags_of(bags, positions) / bags.per_row;
}

void pool_rows(const PoolJob& job, size_t begin, size_t end) {
  pool_for(job.columns.width)(job, begin, end);
}

BagSums::BagSums(const Batch& batch, const RowLayout& layout, const std::byte* const* records,
                 std::span<const BagGradients> gradients, ThreadPool& workers)
    : batch_(batch), positions_(positions_by_id(batch)) {
  const size_t positions = batch.inverse.size();
  for (const BagGradients& of : gradients) {
    Part& part = parts_.emplace_back();
    part.of = of;
    part.columns = check_bags(of.bags, positions, layout, of.stride, "update");
    const std::span<const uint32_t> offsets = of.bags.offsets;
    if (offsets.empty()) {
      continue;
    }
    part.bag_of.resize(positions);
    for (size_t bag = 0; bag + 1 < offsets.size(); ++bag) {
      std::fill(part.bag_of.begin() + offsets[bag], part.bag_of.begin() + offsets[bag + 1],
                static_cast<uint32_t>(bag));
      if (of.bags.pooling == Pooling::kMean) {
        part.scale.push_back(1.0F / static_cast<float>(offsets[bag + 1] - offsets[bag]));
      }
    }
    if (of.bags.pooling == Pooling::kMax) {
      find_largest(part, records, workers);
    }
  }
}

void BagSums::find_largest(Part& part, const std::byte* const* records, ThreadPool& workers) const {
  const std::span<const uint32_t> offsets = part.of.bags.offsets;
  const size_t width = part.columns.width;
  part.largest.resize((offsets.size() - 1) * width);
  const auto row_at = [&](size_t position) {
    return weights_of(records[batch_.inverse[position]]) + part.columns.first;
  };
  workers.parallel_for(
      static_cast<int64_t>(offsets.size()) - 1, 256, [&](int64_t from, int64_t to) {
        for (auto bag = static_cast<size_t>(from); bag < static_cast<size_t>(to); ++bag) {
          uint32_t* const largest = part.largest.data() + bag * width;
          std::fill(largest, largest + width, offsets[bag]);
          for (uint32_t position = offsets[bag] + 1; position < offsets[bag + 1]; ++position) {
            const float* const row = row_at(position);
            for (size_t i = 0; i < width; ++i) {
              largest[i] = row[i] > row_at(largest[i])[i] ? position : largest[i];
            }
          }
        }
      });
}

void BagSums::add_up(size_t id, float* sum) const {
  for (const Part& part : parts_) {
    if (part.largest.empty()) {
      add_part(part, id, sum + part.columns.first);
    } else {
      add_largest(part, id, sum + part.columns.first);
    }
  }
}

void BagSums::add_part(const Part& part, size_t id, float* sum) const {
  static const AddScaled add = add_kernel();
  const auto& [bags, gradients, stride] = part.of;
  const size_t width = part.columns.width;
  for (uint32_t i = positions_.begin[id]; i < positions_.begin[id + 1]; ++i) {
    const uint32_t position = positions_.order[i];
    const size_t bag = part.bag_of.empty() ? position : part.bag_of[position];
    const float* const gradient =
        gradients + bag / bags.per_row * stride + bag % bags.per_row * width;
    const float scale = !bags.weights.empty() ? bags.weights[position]
                        : part.scale.empty()  ? 1.0F
                                              : part.scale[bag];
    if (i == positions_.begin[id]) {
      set_scaled(sum, gradient, scale, width);
    } else {
      add(sum, gradient, scale, width);
    }
  }
}

void BagSums::add_largest(const Part& part, size_t id, float* sum) const {
  const auto& [bags, gradients, stride] = part.of;
  const size_t width = part.columns.width;
  std::fill(sum, sum + width, 0.0F);
  for (uint32_t i = positions_.begin[id]; i < positions_.begin[id + 1]; ++i) {
    const uint32_t position = positions_.order[i];
    const size_t bag = part.bag_of[position];
    const float* const gradient =
        gradients + bag / bags.per_row * stride + bag % bags.per_row * width;
    const uint32_t* const largest = part.largest.data() + bag * width;
    for (size_t k = 0; k < width; ++k) {
      if (largest[k] == position) {
        sum[k] += gradient[k];
      }
    }
  }
}

}  // namespace mstrain::embedding_cache
