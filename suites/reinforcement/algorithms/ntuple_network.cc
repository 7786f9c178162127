#include "suites/reinforcement/algorithms/ntuple_network.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/tensor/host.h"

namespace mstrain::reinforcement {

NTupleNetwork::NTupleNetwork(const std::vector<Tuple>& tuples, int64_t symbols,
                             const std::vector<std::vector<uint8_t>>& moved)
    : symmetries_(moved.size()), symbols_(static_cast<uint32_t>(symbols)) {
  for (const Tuple& tuple : tuples) {
    int64_t size = 1;
    for (size_t i = 0; i < tuple.size(); ++i) {
      size *= symbols;
    }
    sizes_.push_back(size);
    lengths_.push_back(tuple.size());
    for (const std::vector<uint8_t>& to : moved) {
      for (const int64_t cell : tuple) {
        places_.push_back(to[static_cast<size_t>(cell)]);
      }
    }
  }
}

std::vector<ParamSpec> NTupleNetwork::specs() const {
  std::vector<ParamSpec> out;
  for (size_t t = 0; t < tables(); ++t) {
    out.push_back({.name = fmt::format("tables.{}", t),
                   .type = {Dtype::kF32, {sizes_[t]}},
                   .init = zeros_init()});
  }
  return out;
}

void NTupleNetwork::entries(std::span<const uint8_t> cells, std::span<uint32_t> out) const {
  const uint8_t* place = places_.data();
  uint32_t* to = out.data();
  for (const size_t length : lengths_) {
    for (size_t k = 0; k < symmetries_; ++k) {
      uint32_t entry = 0;
      for (size_t i = 0; i < length; ++i) {
        entry = entry * symbols_ + cells[*place++];
      }
      *to++ = entry;
    }
  }
}

float NTupleNetwork::value(std::span<float* const> tables,
                           std::span<const uint32_t> entries) const {
  float sum = 0;
  const uint32_t* entry = entries.data();
  for (const float* table : tables) {
    for (size_t k = 0; k < symmetries_; ++k) {
      sum += table[*entry++];
    }
  }
  return sum;
}

std::vector<float*> memory_of(const Params& tables) {
  std::vector<float*> out;
  for (size_t i = 0; i < tables.size(); ++i) {
    out.push_back(HostWrite(tables.tensor(i)).values<float>().data());
  }
  return out;
}

TableHits::TableHits(size_t most) {
  const size_t slots = std::bit_ceil(std::max<size_t>(2 * most, 2));
  slots_.resize(slots);
  shift_ = 32 - std::countr_zero(slots);
  hits_.reserve(most);
}

void TableHits::clear() {
  hits_.clear();
  std::ranges::fill(slots_, 0);
}

void TableHits::add(uint32_t entry, float error) {
  constexpr uint32_t kGoldenRatio = 0x9e3779b1;  // of 2^32: spreads what differs in low bits
  const size_t last = slots_.size() - 1;
  for (size_t slot = entry * kGoldenRatio >> shift_;; slot = (slot + 1) & last) {
    if (slots_[slot] == 0) {
      hits_.push_back({entry, 1, error});
      slots_[slot] = static_cast<uint32_t>(hits_.size());
      return;
    }
    if (Hit& hit = hits_[slots_[slot] - 1]; hit.entry == entry) {
      ++hit.count;
      hit.error += error;
      return;
    }
  }
}

void CoherentTable::learn(const TableHits& hits, float rate) const {
  for (const TableHits::Hit& hit : hits.all()) {
    const float error = hit.error / static_cast<float>(hit.count);
    float& sum = errors[hit.entry];
    float& magnitude = magnitudes[hit.entry];
    const float step = magnitude == 0 ? 1 : std::fabs(sum) / magnitude;
    values[hit.entry] += rate * step * error;
    sum += error;
    magnitude += std::fabs(error);
  }
}

}  // namespace mstrain::reinforcement
