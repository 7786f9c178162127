// How long what each rank along a pipeline does in a step takes, by itself: its passes over micro-batches, the exchanges along data and
// the update.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "core/forecast/laid_model.h"
#include "core/schedule/simulate.h"

namespace mstrain {

// Seconds of one pass over a micro-batch.
struct PassTimes {
  double products = 0, attention = 0, memory = 0;
  double tensor = 0;   // collectives along tensor and context
  double data = 0;     // parameters that are gathered for it
  double exposed = 0;  // of all these

  double work() const { return products + attention + memory; }
  double all() const { return work() + exposed; }
  PassTimes& operator+=(const PassTimes& other) {
    products += other.products;
    attention += other.attention;
    memory += other.memory;
    tensor += other.tensor;
    data += other.data;
    exposed += other.exposed;
    return *this;
  }
  friend PassTimes operator*(double times, PassTimes it) {
    it.products *= times;
    it.attention *= times;
    it.memory *= times;
    it.tensor *= times;
    it.data *= times;
    it.exposed *= times;
    return it;
  }
};

// All references must outlive it.
class StepWork {
 public:
  // `gathers_again`: parameters in parts, for the backward pass.
  StepWork(const LaidModel& model, bool gathers_again);

  // So many ranks take turns on a processor.
  double crowding() const { return crowding_; }
  // Of all micro-batches.
  const PassTimes& of_rank(int64_t r) const { return of_ranks_[static_cast<size_t>(r)]; }
  int64_t slowest_rank() const { return slowest_; }
  // As a pipeline's schedule asks for them.
  std::vector<ChunkTimes> chunk_times() const;
  // All exchanges along data, and what of them nothing hides.
  std::pair<double, double> data_seconds(int64_t r) const;
  double optimizer_seconds(int64_t r) const;

 private:
  enum Pass : size_t { kF, kB, kW, kPasses };
  using ChunkWork = std::array<PassTimes, kPasses>;

  void add(PassTimes& pass, const WorkItem& item) const;
  // Of the collectives of a pass, what nothing hides.
  double exposed(const PassTimes& pass) const;
  ChunkWork work_of_chunk(int64_t c, bool gathers_again) const;

  const LaidModel& model_;
  const RunLayout& layout_;
  const Profile& profile_;
  const WorkShare& share_;
  const Cluster& cluster_;
  double crowding_;
  Group along_tensor_, along_context_, along_data_, along_zero_, along_replicas_;
  std::array<ChunkWork, kRegions> regions_;
  std::vector<ChunkWork> chunks_;
  std::vector<PassTimes> of_ranks_;
  int64_t slowest_ = 0;
};

}  // namespace mstrain
