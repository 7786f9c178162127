#include "embedding_cache/admission.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/rng.h"

namespace mstrain::embedding_cache {
namespace {

void put(std::string& out, uint64_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_sorted(std::string& out, const IdMap& map) {
  std::vector<std::pair<Id, uint64_t>> entries;
  map.each([&](Id id, uint64_t value) { entries.emplace_back(id, value); });
  std::sort(entries.begin(), entries.end());
  put(out, entries.size());
  for (const auto& [id, value] : entries) {
    put(out, id);
    put(out, value);
  }
}

}  // namespace

AdmissionFilter::AdmissionFilter(const AdmissionOptions& options, uint64_t table_seed)
    : options_(options), seed_(hash_combine(table_seed, 0x61646d69742d6964U)) {
  if (options_.kind == AdmissionKind::kBloom) {
    counters_.assign(options_.bloom_counters, 0);
  }
}

void AdmissionFilter::cells(Id id, uint64_t* out) const {
  const uint64_t first = hash_combine(seed_, id);
  const uint64_t second = hash_mix(first) | 1U;
  for (int i = 0; i < kHashes; ++i) {
    out[i] = (first + static_cast<uint64_t>(i) * second) % counters_.size();
  }
}

bool AdmissionFilter::is_admitted(Id id) const {
  switch (options_.kind) {
    case AdmissionKind::kNone: return true;
    case AdmissionKind::kCount: {
      const uint64_t count = counts_.find(id);
      return count != IdMap::kNone && count >= options_.count;
    }
    case AdmissionKind::kProbability: return counts_.find(id) != IdMap::kNone;
    case AdmissionKind::kBloom: {
      uint64_t at[kHashes];
      cells(id, at);
      const bool counted = std::all_of(
          at, at + kHashes, [&](uint64_t cell) { return counters_[cell] >= options_.count; });
      return counted || imported_.find(id) != IdMap::kNone;
    }
  }
  return true;
}

bool AdmissionFilter::would_admit(Id id, uint64_t step) const {
  switch (options_.kind) {
    case AdmissionKind::kNone: return true;
    case AdmissionKind::kCount: {
      const uint64_t count = counts_.find(id);
      return (count == IdMap::kNone ? 0 : count) + 1 >= options_.count;
    }
    case AdmissionKind::kProbability: {
      if (is_admitted(id)) {
        return true;
      }
      const PhiloxCounter bits = philox(philox_counter(id, step), philox_key(seed_));
      return to_unit_double(uint64_t{bits[0]} << 32 | bits[1]) < options_.probability;
    }
    case AdmissionKind::kBloom: {
      uint64_t at[kHashes];
      cells(id, at);
      const bool counted = std::all_of(
          at, at + kHashes, [&](uint64_t cell) { return counters_[cell] + 1U >= options_.count; });
      return counted || imported_.find(id) != IdMap::kNone;
    }
  }
  return true;
}

void AdmissionFilter::count(Id id, uint64_t step) {
  switch (options_.kind) {
    case AdmissionKind::kNone: return;
    case AdmissionKind::kCount: {
      uint64_t& count = counts_.at(id, 0);
      count += count < options_.count ? 1 : 0;
      return;
    }
    case AdmissionKind::kProbability:
      if (would_admit(id, step)) {
        counts_.set(id, 1);
      }
      return;
    case AdmissionKind::kBloom: {  // conservative update: only the lowest counters rise
      uint64_t at[kHashes];
      cells(id, at);
      uint8_t lowest = 255;
      for (const uint64_t cell : at) {
        lowest = std::min(lowest, counters_[cell]);
      }
      if (lowest < options_.count) {
        for (const uint64_t cell : at) {
          counters_[cell] = std::max(counters_[cell], static_cast<uint8_t>(lowest + 1));
        }
      }
      return;
    }
  }
}

void AdmissionFilter::add(Id id) {
  if (options_.kind == AdmissionKind::kCount) {
    counts_.set(id, options_.count);
  } else if (options_.kind == AdmissionKind::kProbability) {
    counts_.set(id, 1);
  } else if (options_.kind == AdmissionKind::kBloom && !is_admitted(id)) {
    imported_.set(id, 1);
  }
}

void AdmissionFilter::forget(Id id) {
  counts_.erase(id);
  imported_.erase(id);
}

std::string AdmissionFilter::save() const {
  std::string out;
  put(out, static_cast<uint64_t>(options_.kind));
  put_sorted(out, counts_);
  put_sorted(out, imported_);
  put(out, counters_.size());
  out.append(reinterpret_cast<const char*>(counters_.data()), counters_.size());
  return out;
}

void AdmissionFilter::load(std::string_view bytes, const std::string& name) {
  const auto require = [&](bool condition, const char* message) {
    if (!condition) {
      throw IoError(fmt::format("{}: admission filter: {}", name, message));
    }
  };
  const auto take = [&] {
    require(bytes.size() >= 8, "cut short");
    uint64_t value = 0;
    std::memcpy(&value, bytes.data(), 8);
    bytes.remove_prefix(8);
    return value;
  };
  require(take() == static_cast<uint64_t>(options_.kind), "of another kind than the options say");
  for (IdMap* map : {&counts_, &imported_}) {
    map->clear();
    const uint64_t count = take();
    require(count <= bytes.size() / 16, "cut short");
    for (uint64_t i = 0; i < count; ++i) {
      const Id id = take();
      const uint64_t value = take();
      require(value <= 255, "a count is too large");
      map->set(id, value);
    }
    require(map->size() == count, "an id occurs twice");
  }
  require(take() == counters_.size() && bytes.size() == counters_.size(),
          "of another size than the options say");
  if (!counters_.empty()) {
    std::memcpy(counters_.data(), bytes.data(), bytes.size());
  }
}

}  // namespace mstrain::embedding_cache
