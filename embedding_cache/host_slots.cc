#include "embedding_cache/host_slots.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "core/base/hash.h"

namespace mstrain::embedding_cache {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr uint16_t kLastTime = 0xffff;
constexpr uint64_t kRebaseAt = 60000;  // leaves room for 5535 batches of look-ahead
constexpr uint64_t kRebaseBy = 30000;

}  // namespace

HostSlots::HostSlots(uint64_t rows, uint32_t record_bytes, Policy policy)
    : capacity_(rows), record_bytes_(record_bytes), policy_(policy) {
  check(rows > 0 && rows <= (uint64_t{1} << 31), "embedding_cache: {} rows in host memory", rows);
  record_space_ = (rows * record_bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* space = ::mmap(nullptr, record_space_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check(space != MAP_FAILED, "embedding_cache: host tier: cannot reserve {} bytes for {} rows: {}",
        record_space_, rows, std::strerror(errno));
  ::madvise(space, record_space_, MADV_HUGEPAGE);
  records_ = static_cast<std::byte*>(space);
  cells_.assign(rows * 20 / 17 + 2, 0);  // at most 85 % full
  slot_mask_ = static_cast<uint32_t>(std::bit_ceil(rows + 1) - 1);
  ids_.resize(rows);
  times_.resize(rows);
  flags_.assign(rows, kFree);
}

HostSlots::~HostSlots() { ::munmap(records_, record_space_); }

uint64_t HostSlots::overhead_bytes() const {
  return cells_.capacity() * 4 + ids_.capacity() * 8 + times_.capacity() * 2 + flags_.capacity() +
         queue_.capacity() * sizeof(Victim);
}

inline uint64_t HostSlots::home(Id id, uint32_t& tag) const {
  const uint64_t hash = hash_mix(id);
  tag = static_cast<uint32_t>(hash) & ~slot_mask_;
  return static_cast<uint64_t>((static_cast<unsigned __int128>(hash) * cells_.size()) >> 64);
}

void HostSlots::find(std::span<const Id> ids, Slot* slots) const {
  constexpr size_t kBlock = 32;
  std::array<uint64_t, kBlock> at{};
  std::array<uint32_t, kBlock> tags{};
  for (size_t begin = 0; begin < ids.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, ids.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      at[i] = home(ids[begin + i], tags[i]);
      __builtin_prefetch(&cells_[at[i]]);
    }
    // First to a cell whose tag fits, then to the id behind it.
    for (size_t i = 0; i < count; ++i) {
      while (cells_[at[i]] != 0 && (cells_[at[i]] & ~slot_mask_) != tags[i]) {
        at[i] = at[i] + 1 == cells_.size() ? 0 : at[i] + 1;
      }
      if (cells_[at[i]] != 0) {
        __builtin_prefetch(&ids_[(cells_[at[i]] & slot_mask_) - 1]);
      }
    }
    for (size_t i = 0; i < count; ++i) {
      Slot found = kNoSlot;
      while (cells_[at[i]] != 0) {
        const uint32_t cell = cells_[at[i]];
        if ((cell & ~slot_mask_) == tags[i] && ids_[(cell & slot_mask_) - 1] == ids[begin + i]) {
          found = (cell & slot_mask_) - 1;
          break;
        }
        at[i] = at[i] + 1 == cells_.size() ? 0 : at[i] + 1;
      }
      slots[begin + i] = found;
    }
  }
}

// A row that is expected goes last, the farthest first; the others by age, or by uses.
inline uint32_t HostSlots::rank(uint16_t time) const {
  return policy_ == Policy::kLfu || base_ + time <= now_
             ? time
             : uint32_t{kLastTime} + 1 + (kLastTime - time);
}

void HostSlots::unpin(Slot slot) {
  --flags_[slot];
  if (pins(slot) == 0) {
    --pinned_;
    // It was no candidate when the queue was made and would leave before some that are in it.
    if (!queue_.empty() && rank(times_[slot]) < rank(queue_.front().time)) {
      queue_.clear();
    }
  }
}

void HostSlots::advance() {
  ++now_;
  if (now_ - base_ > kRebaseAt) {
    rebase();
  }
}

void HostSlots::rebase() {
  base_ += kRebaseBy;
  if (policy_ != Policy::kLfu) {
    for (uint16_t& time : times_) {
      time = static_cast<uint16_t>(time > kRebaseBy ? time - kRebaseBy : 0);
    }
  }
  queue_.clear();
}

void HostSlots::use(Slot slot) {
  if (policy_ != Policy::kLfu) {
    times_[slot] = static_cast<uint16_t>(now_ - base_);
    return;
  }
  if (++times_[slot] == kLastTime) {
    for (uint16_t& uses : times_) {
      uses /= 2;
    }
    queue_.clear();
  }
}

void HostSlots::expect(Slot slot, uint64_t next_use) {
  if (policy_ == Policy::kLookAhead) {
    times_[slot] = static_cast<uint16_t>(std::min<uint64_t>(next_use - base_, kLastTime));
  }
}

Slot HostSlots::insert(Id id) {
  Slot slot = free_;
  if (slot != kNoSlot) {
    free_ = static_cast<Slot>(ids_[slot]);
  } else {
    check(touched_ < capacity_, "embedding_cache: host tier has no free slot");
    slot = touched_++;
  }
  uint32_t tag = 0;
  uint64_t at = home(id, tag);
  while (cells_[at] != 0) {
    at = at + 1 == cells_.size() ? 0 : at + 1;
  }
  cells_[at] = tag | (slot + 1);
  ids_[slot] = id;
  times_[slot] = 0;
  flags_[slot] = 0;
  ++used_;
  return slot;
}

void HostSlots::erase(Slot slot) {
  uint32_t tag = 0;
  const uint64_t size = cells_.size();
  uint64_t hole = home(ids_[slot], tag);
  while ((cells_[hole] & slot_mask_) != slot + 1) {
    hole = hole + 1 == size ? 0 : hole + 1;
  }
  for (uint64_t at = hole + 1 == size ? 0 : hole + 1; cells_[at] != 0;
       at = at + 1 == size ? 0 : at + 1) {
    const uint64_t from = home(ids_[(cells_[at] & slot_mask_) - 1], tag);
    const uint64_t from_home = at >= from ? at - from : at + size - from;
    const uint64_t from_hole = at >= hole ? at - hole : at + size - hole;
    if (from_home >= from_hole) {
      cells_[hole] = cells_[at];
      hole = at;
    }
  }
  cells_[hole] = 0;
  ids_[slot] = free_;
  free_ = slot;
  flags_[slot] = kFree;
  --used_;
}

void HostSlots::refill(uint64_t count) {
  queue_.clear();
  std::vector<uint32_t> counts(2 * (uint32_t{kLastTime} + 1), 0);
  for (Slot slot = 0; slot < touched_; ++slot) {
    if (pins(slot) == 0) {
      ++counts[rank(times_[slot])];
    }
  }
  // Many at once, in little memory; but of the expected ones only what is needed now: their order changes.
  const uint64_t plenty = std::max<uint64_t>(capacity_ / 64, 16);
  uint64_t total = 0;
  uint32_t last = 0;
  uint64_t of_last = 0;  // how many of the last rank are taken
  for (uint32_t r = 0; r < counts.size(); ++r) {
    const uint64_t limit = r <= kLastTime ? plenty : std::min(count, plenty);
    if (total >= limit) {
      break;
    }
    last = r;
    of_last = std::min<uint64_t>(counts[r], limit - total);
    total += of_last;
  }
  queue_.reserve(total);
  for (Slot slot = 0; slot < touched_ && queue_.size() < total; ++slot) {
    if (pins(slot) != 0) {
      continue;
    }
    const uint32_t r = rank(times_[slot]);
    if (r < last || (r == last && of_last > 0)) {
      of_last -= r == last ? 1 : 0;
      queue_.push_back({slot, times_[slot]});
    }
  }
  std::sort(queue_.begin(), queue_.end(), [&](const Victim& a, const Victim& b) {
    const uint32_t rank_a = rank(a.time);
    const uint32_t rank_b = rank(b.time);
    return rank_a != rank_b ? rank_a > rank_b : a.slot > b.slot;
  });
}

void HostSlots::choose_victims(uint64_t count, std::vector<Slot>& out) {
  out.clear();
  while (out.size() < count) {
    if (queue_.empty()) {
      refill(count - out.size());
      check(!queue_.empty(), "embedding_cache: host tier: {} rows to evict, {} found", count,
            out.size());
    }
    const Victim victim = queue_.back();
    queue_.pop_back();
    // A queue that is refilled in this call must not name the ones already chosen: they get a pin's mark meanwhile.
    if (pins(victim.slot) == 0 && times_[victim.slot] == victim.time) {
      flags_[victim.slot] |= kPins - 1;
      out.push_back(victim.slot);
    }
  }
  for (const Slot slot : out) {
    flags_[slot] &= kDirty | kFrozen;
  }
}

}  // namespace mstrain::embedding_cache
