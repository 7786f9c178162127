// Bookkeeping that a commit writes down while it changes. freeze() hands out what there is, to be read in another thread without a lock; from
// then on changes are kept beside it, until thaw() brings them in. So a commit costs its owner what changes meanwhile, not what there is.
// But for what freeze() gave, not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "embedding_cache/id_map.h"

namespace mstrain::embedding_cache {

class SharedIdMap {
 public:
  using View = std::shared_ptr<const IdMap>;

  SharedIdMap() = default;
  SharedIdMap(SharedIdMap&&) = default;
  SharedIdMap& operator=(SharedIdMap&&) = default;

  size_t size() const { return size_; }
  uint64_t find(Id id) const {
    const uint64_t change = frozen_ ? changes_.find(id) : IdMap::kNone;
    return change == IdMap::kNone ? map_->find(id) : change == kErased ? IdMap::kNone : change;
  }
  void set(Id id, uint64_t value) {  // value < kErased
    size_ += find(id) == IdMap::kNone ? 1 : 0;
    (frozen_ ? changes_ : *map_).set(id, value);
  }
  bool erase(Id id) {
    if (find(id) == IdMap::kNone) {
      return false;
    }
    --size_;
    if (frozen_) {
      changes_.set(id, kErased);
    } else {
      map_->erase(id);
    }
    return true;
  }
  template <class F>
  void each(F&& visit) const {
    map_->each([&](Id id, uint64_t value) {
      if (!frozen_ || changes_.find(id) == IdMap::kNone) {
        visit(id, value);
      }
    });
    changes_.each([&](Id id, uint64_t value) {
      if (value != kErased) {
        visit(id, value);
      }
    });
  }
  void clear() { *this = SharedIdMap(); }

  // What there is now. Not frozen yet.
  View view() const { return map_; }
  View freeze() {
    frozen_ = true;
    return map_;
  }
  // Nobody reads a view any more.
  void thaw() {
    frozen_ = false;
    changes_.each([&](Id id, uint64_t value) {
      if (value == kErased) {
        map_->erase(id);
      } else {
        map_->set(id, value);
      }
    });
    changes_.clear();
  }
  bool is_frozen() const { return frozen_; }

 private:
  static constexpr uint64_t kErased = IdMap::kNone - 1;
  std::shared_ptr<IdMap> map_ = std::make_shared<IdMap>();
  IdMap changes_;  // while frozen
  bool frozen_ = false;
  size_t size_ = 0;
};

// Counters of a byte each, likewise.
class SharedCounters {
 public:
  using View = std::shared_ptr<const std::vector<uint8_t>>;

  explicit SharedCounters(uint64_t size = 0) : cells_(std::make_shared<Cells>(size)) {}
  SharedCounters(SharedCounters&&) = default;
  SharedCounters& operator=(SharedCounters&&) = default;
  uint64_t size() const { return cells_->size(); }
  uint8_t at(uint64_t cell) const {
    const uint64_t change = frozen_ ? changes_.find(cell) : IdMap::kNone;
    return change == IdMap::kNone ? (*cells_)[cell] : static_cast<uint8_t>(change);
  }
  void set(uint64_t cell, uint8_t value) {
    if (frozen_) {
      changes_.set(cell, value);
    } else {
      (*cells_)[cell] = value;
    }
  }

  View view() const { return cells_; }
  View freeze() {
    frozen_ = true;
    return cells_;
  }
  void thaw() {
    frozen_ = false;
    changes_.each(
        [&](uint64_t cell, uint64_t value) { (*cells_)[cell] = static_cast<uint8_t>(value); });
    changes_.clear();
  }

 private:
  using Cells = std::vector<uint8_t>;
  std::shared_ptr<Cells> cells_;
  IdMap changes_;
  bool frozen_ = false;
};

}  // namespace mstrain::embedding_cache
