#include "embedding_cache/admission.h"

#include <algorithm>

#include "core/base/hash.h"
#include "core/base/rng.h"
#include "embedding_cache/bytes.h"

namespace mstrain::embedding_cache {
namespace {

void put_sorted(std::string& out, const IdMap& map) {
  std::vector<std::pair<Id, uint64_t>> entries;
  entries.reserve(map.size());
  map.each([&](Id id, uint64_t value) { entries.emplace_back(id, value); });
  std::sort(entries.begin(), entries.end());
  put(out, uint64_t{entries.size()});
  for (const auto& [id, value] : entries) {
    put(out, id);
    put(out, value);
  }
}

}  // namespace

AdmissionFilter::AdmissionFilter(const AdmissionOptions& options, uint64_t table_seed,
                                 uint64_t window)
    : options_(options),
      seed_(hash_combine(table_seed, 0x61646d69742d6964U)),
      window_(window),
      young_counters_(options.kind == AdmissionKind::kBloom ? options.bloom_counters : 0),
      old_counters_(window > 0 ? young_counters_.size() : 0) {}

uint64_t AdmissionFilter::turns(uint64_t step) const {
  const uint64_t now = window_ == 0 ? 0 : step / window_;
  return now > generation_ ? now - generation_ : 0;
}

void AdmissionFilter::turn(uint64_t step) {
  for (uint64_t left = std::min<uint64_t>(turns(step), 2); left > 0; --left) {
    old_ = std::exchange(young_, {});
    old_counters_ = std::exchange(young_counters_, SharedCounters(young_counters_.size()));
  }
  generation_ += turns(step);
}

void AdmissionFilter::cells(Id id, uint64_t* out) const {
  const uint64_t first = hash_combine(seed_, id);
  const uint64_t second = hash_mix(first) | 1U;
  for (int i = 0; i < kHashes; ++i) {
    out[i] = (first + static_cast<uint64_t>(i) * second) % young_counters_.size();
  }
}

uint64_t AdmissionFilter::counter(uint64_t cell, uint64_t turns) const {
  const uint64_t before = window_ > 0 && turns == 0 ? old_counters_.at(cell) : 0;
  return before + (turns < 2 ? young_counters_.at(cell) : 0);
}

// Batches that an id without a row has been in, before the one of `step`.
uint64_t AdmissionFilter::counted(Id id, uint64_t step) const {
  const uint64_t ended = turns(step);
  if (options_.kind == AdmissionKind::kBloom) {
    uint64_t at[kHashes];
    cells(id, at);
    uint64_t lowest = ~uint64_t{0};
    for (const uint64_t cell : at) {
      lowest = std::min(lowest, counter(cell, ended));
    }
    return lowest;
  }
  const auto value = [&](const SharedIdMap& map) {
    const uint64_t found = map.find(id);
    return found == IdMap::kNone ? 0 : found;
  };
  return (ended == 0 ? value(old_) : 0) + (ended < 2 ? value(young_) : 0);
}

bool AdmissionFilter::is_admitted(Id id) const {
  return options_.kind == AdmissionKind::kNone || admitted_.find(id) != IdMap::kNone;
}

bool AdmissionFilter::would_admit(Id id, uint64_t step) const {
  if (is_admitted(id)) {
    return true;
  }
  if (options_.kind == AdmissionKind::kProbability) {
    const PhiloxCounter bits = philox(philox_counter(id, step), philox_key(seed_));
    return to_unit_double(uint64_t{bits[0]} << 32 | bits[1]) < options_.probability;
  }
  return counted(id, step) + 1 >= options_.count;
}

void AdmissionFilter::count(Id id, uint64_t step) {
  turn(step);
  if (is_admitted(id)) {
    return;
  }
  if (would_admit(id, step)) {
    admitted_.set(id, 1);
    young_.erase(id);
    old_.erase(id);
  } else if (options_.kind == AdmissionKind::kCount) {
    const uint64_t before = young_.find(id);
    young_.set(id, before == IdMap::kNone ? 1 : before + 1);
  } else if (options_.kind == AdmissionKind::kBloom) {
    count_cells(id);
  }
}

// Conservative update: only the lowest counters rise.
void AdmissionFilter::count_cells(Id id) {
  uint64_t at[kHashes];
  cells(id, at);
  const uint64_t lowest = counted(id, generation_ * window_);
  for (const uint64_t cell : at) {
    if (counter(cell, 0) == lowest) {
      young_counters_.set(cell, static_cast<uint8_t>(young_counters_.at(cell) + 1));
    }
  }
}

void AdmissionFilter::add(Id id) {
  if (options_.kind != AdmissionKind::kNone) {
    admitted_.set(id, 1);
    young_.erase(id);
    old_.erase(id);
  }
}

void AdmissionFilter::forget(Id id) {
  admitted_.erase(id);
  young_.erase(id);
  old_.erase(id);
}

AdmissionFilter::View AdmissionFilter::view() const {
  return {.kind = options_.kind,
          .since = generation_ * window_,
          .admitted = admitted_.view(),
          .young = young_.view(),
          .old = old_.view(),
          .young_counters = young_counters_.view(),
          .old_counters = old_counters_.view()};
}

AdmissionFilter::View AdmissionFilter::freeze() {
  for (SharedIdMap* map : {&admitted_, &young_, &old_}) {
    map->freeze();
  }
  young_counters_.freeze();
  old_counters_.freeze();
  return view();
}

void AdmissionFilter::thaw() {
  for (SharedIdMap* map : {&admitted_, &young_, &old_}) {
    map->thaw();
  }
  young_counters_.thaw();
  old_counters_.thaw();
}

std::string AdmissionFilter::View::save() const {
  std::string out;
  put(out, static_cast<uint64_t>(kind));
  put(out, since);
  for (const SharedIdMap::View& map : {admitted, young, old}) {
    put_sorted(out, *map);
  }
  for (const SharedCounters::View& counters : {young_counters, old_counters}) {
    put(out, uint64_t{counters->size()});
    out.append(reinterpret_cast<const char*>(counters->data()), counters->size());
  }
  return out;
}

void AdmissionFilter::load(std::string_view bytes, const std::string& name) {
  ByteReader in(bytes, name + ": admission filter");
  in.require(in.take<uint64_t>() == static_cast<uint64_t>(options_.kind),
             "of another kind than the options say");
  const auto since = in.take<uint64_t>();
  generation_ = window_ == 0 ? 0 : since / window_;
  for (SharedIdMap* map : {&admitted_, &young_, &old_}) {
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
  for (SharedCounters* counters : {&young_counters_, &old_counters_}) {
    const uint64_t size = in.take_count(1);
    // The options may have come to know a window since, or no longer know one.
    const bool other_window =
        counters == &old_counters_ && (size == 0 || size == young_counters_.size());
    in.require(size == counters->size() || other_window, "of another size than the options say");
    const std::string_view cells = in.take_text(size);
    for (uint64_t cell = 0; cell < std::min(size, counters->size()); ++cell) {
      counters->set(cell, static_cast<uint8_t>(cells[cell]));
    }
  }
  in.require(in.left() == 0, "longer than it says");
}

}  // namespace mstrain::embedding_cache
