// The record of one id: everything that training knows about it, in one piece, so that no part can be older than another.
//
//   bytes 0-3   step of the last update
//   bytes 4-7   number of updates; 0 for a row that holds its first values, which no store keeps
//   then        weights of all segments, then the optimizer state of each segment, float32 in the machine's (little-endian) order
//   last        where a segment learns at every step: the step that the row has gone through last, which says nothing about when
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "embedding_cache/options.h"

namespace mstrain::embedding_cache {

inline constexpr uint32_t kHeaderBytes = 8;

struct RowHeader {
  uint32_t step = 0;
  uint32_t updates = 0;
};

// A step that rows learned at, where a segment of theirs learns at every one (OptimizerOptions::l2_of).
struct PastStep {
  uint32_t step = 0;
  float lr_scale = 1;  // that update was given
};

inline RowHeader load_header(const std::byte* record) {
  RowHeader header;
  std::memcpy(&header, record, sizeof header);
  return header;
}
inline void store_header(std::byte* record, const RowHeader& header) {
  std::memcpy(record, &header, sizeof header);
}
inline float* weights_of(std::byte* record) {
  return reinterpret_cast<float*>(record + kHeaderBytes);
}
inline const float* weights_of(const std::byte* record) {
  return reinterpret_cast<const float*>(record + kHeaderBytes);
}

uint32_t state_floats(OptimizerKind kind, uint32_t width);

// Where things lie in the records of one table. Immutable.
class RowLayout {
 public:
  struct Part {
    uint32_t width;
    uint32_t weights;  // first float, counted behind the header
    uint32_t state;    // likewise
    uint32_t state_width;
    Segment options;
  };

  explicit RowLayout(const TableOptions& table);

  uint32_t width() const { return width_; }  // weights of all segments
  uint32_t record_bytes() const { return record_bytes_; }
  const std::vector<Part>& parts() const { return parts_; }
  // Whether a segment learns at every step (OptimizerOptions::l2_of). Then, of a record: the step up to which it has.
  bool learns_always() const { return until_ != 0; }
  uint32_t until(const std::byte* record) const {
    uint32_t step = 0;
    std::memcpy(&step, record + until_, sizeof step);
    return step;
  }
  void set_until(std::byte* record, uint32_t step) const {
    std::memcpy(record + until_, &step, sizeof step);
  }
  // What must be equal for two caches to exchange records.
  const std::string& schema() const { return schema_; }

  // First values of `id`: thread-safe, the same whenever and wherever it is called.
  void initialise(uint64_t table_seed, Id id, std::byte* record) const;
  // The record of a row that was given `weights`[width()], as if by one update of step 0, and has learned nothing since: what FTRL makes
  // of its state are these weights, all other state is that of a new row.
  void begin_with(const float* weights, std::byte* record) const;

 private:
  void begin_state(float* floats) const;  // behind the weights, of a new row
  void begin_until(std::byte* record) const {
    if (learns_always()) {
      set_until(record, 0);
    }
  }

  std::vector<Part> parts_;
  uint32_t width_ = 0;
  uint32_t record_bytes_ = 0;
  uint32_t until_ = 0;  // where it is in a record; 0: nowhere
  std::string schema_;
};

// The key of a table's random numbers.
uint64_t table_seed(uint64_t seed, const std::string& table_name);

}  // namespace mstrain::embedding_cache
