#include "embedding_cache/admission.h"

#include <algorithm>

#include "core/base/hash.h"
#include "core/base/rng.h"
#include "embedding_cache/bytes.h"

namespace mstrain::embedding_cache {
namespace {

void put_sorted(std::string& out, const IdMap& map) {
  std::vector<std::pair<Id, uint64_t>> entries;
  map.each([&](Id id, uint64_t value) { entries.emplace_back(id, value); });
  std::sort(entries.begin(), entries.end());
  put(out, uint64_t{entries.size()});
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
  put(out, uint64_t{counters_.size()});
  out.append(reinterpret_cast<const char*>(counters_.data()), counters_.size());
  return out;
}

void AdmissionFilter::load(std::string_view bytes, const std::string& name) {
  ByteReader in(bytes, name + ": admission filter");
  in.require(in.take<uint64_t>() == static_cast<uint64_t>(options_.kind),
             "of another kind than the options say");
  for (IdMap* map : {&counts_, &imported_}) {
    map->clear();
    const uint64_t count = in.take_count(16);
    for (uint64_t i = 0; i < count; ++i) {
      const auto id = in.take<Id>();
      const auto value = in.take<uint64_t>();
      in.require(value <= 255, "a count is too large");
      map->set(id, value);
    }
    in.require(map->size() == count, "an id occurs twice");
  }
  in.require(in.take<uint64_t>() == counters_.size() && in.left() == counters_.size(),
             "of another size than the options say");
  const std::string_view counters = in.take_text(counters_.size());
  std::copy(counters.begin(), counters.end(), counters_.begin());
}

}  // namespace mstrain::embedding_cache
