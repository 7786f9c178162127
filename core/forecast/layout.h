// How a run is laid out over ranks: the `parallel` section with everything decided.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "core/forecast/cluster.h"
#include "core/schedule/schedule.h"
#include "core/train/sections.h"
#include "core/train/stages.h"

namespace mstrain {

// What a layout has to divide.
struct ModelSizes {
  int64_t layers = 1;
  int64_t heads = 1;   // along tensor
  int64_t tokens = 1;  // of a sample, along context; 1: samples are no sequences
  bool along_tensor =
      true;  // ranks along tensor share them too, where these divide what is left of them

  // `ranks`: along tensor and context
  bool shares_along_tensor(int64_t ranks) const { return along_tensor && tokens % ranks == 0; }
};

struct RunLayout {
  int64_t data = 1, tensor = 1, pipeline = 1, context = 1;
  int64_t virtual_pipeline = 1;
  bool sequence_parallel = false;
  ContextWay context_way = ContextWay::kAuto;
  int64_t copies = 1;
  int64_t zero = 1;
  Regather regather = Regather::kAuto;  // of ZeRO 3
  int64_t zero_group = 0;               // ranks along data that keep one copy in parts; 0: all
  ScheduleKind schedule = ScheduleKind::k1f1b;
  std::shared_ptr<const Schedule> own;  // instead, where a file says one
  std::string own_file;
  std::vector<int64_t> stages;  // layers of each chunk
  ReductionOrder reduction = ReductionOrder::kExact;
  OverlapConfig overlap;
  double bucket_bytes = 64e6;
  int64_t micro = 1;          // samples
  int64_t micro_batches = 1;  // of a rank, in a step
  Recompute recompute = Recompute::kNone;

  // Ranks that keep one copy of the state in parts, and how many copies there are.
  int64_t zero_ranks() const { return zero_group == 0 ? data : zero_group; }
  int64_t zero_replicas() const { return data / zero_ranks(); }
  int64_t chunks() const { return static_cast<int64_t>(stages.size()); }
  std::string_view schedule_name() const { return own ? own->name : name_of(schedule); }
  // Of all ranks along the pipeline.
  Schedule made_schedule() const;

  // `config`, laid out so.
  ParallelConfig in(ParallelConfig config) const;
  // As a command line has them: "parallel.tensor=8".
  std::vector<std::string> keys() const;
  // For people, what differs from one rank's: "data 4, tensor 8, sequence parallel, micro-batches of 2"
  std::string describe() const;
};

// The layout that `config` asks for on this cluster. `micro` stands for batch.micro where that is auto. Throws ConfigError, with the
// line in `tree` and the nearest valid choice, for products that do not fit the ranks, heads, layers or samples that do not
// divide, and too few micro-batches. `own`: what the file that parallel.schedule names says, where it names one.
RunLayout resolve_layout(const TrainConfig& config, const YamlNode& tree, const Cluster& cluster,
                         const ModelSizes& model, int64_t micro,
                         std::shared_ptr<const Schedule> own = nullptr);

// The same for a search: of what follows from keys besides those that are `decided` nothing is checked, nor is it to be read.
RunLayout decided_layout(const TrainConfig& config, const YamlNode& tree, const Cluster& cluster,
                         const ModelSizes& model, const std::set<std::string>& decided,
                         std::shared_ptr<const Schedule> own = nullptr);

}  // namespace mstrain
