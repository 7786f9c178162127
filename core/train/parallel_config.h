// The `parallel` section: how many ranks share a run, and how.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/config.h"
#include "core/comm/mesh.h"
#include "core/runtime/context.h"

namespace mstrain {

// Whether the backward pass puts parameters together again that the forward pass did.
enum class Regather { kAuto, kAlways, kNever };

struct ZeroConfig {
  int64_t stage = 1;
  int64_t min_numel = 65536;
  Regather regather = Regather::kAuto;
  AutoOr<int64_t> group;

  template <class V>
  void fields(V& v) {
    v("stage", stage,
      "what the ranks along data keep in parts: 1: the optimizer's state, 2: gradients too, 3: "
      "parameters too; 0: nothing",
      rule::at_least(0).at_most(3).elsewhere_called({"zero_stage", "zero_optimization"}));
    v("group", group,
      "neighbouring ranks along data that keep one copy in parts between them, as those of one "
      "machine may; auto: all ranks along data",
      rule::at_least(2).elsewhere_called({"hsdp_shard_size", "zero_hpz_partition_size"}));
    v("min_numel", min_numel, "parameters of fewer elements stay whole on every rank",
      rule::at_least(0).elsewhere_called({"stage3_param_persistence_threshold"}));
    v("regather", regather,
      "at stage 3, whether the backward pass gathers parameters anew: always; never: they are kept "
      "for it; auto: where memory does not allow to keep them",
      rule::one_of({"auto", "always", "never"}).elsewhere_called({"reshard_after_forward"}));
  }
};

enum class ReductionOrder { kExact, kFast };

// How ranks share the tables of a recommender.
enum class EmbeddingWay { kAuto, kRowWise, kTableWise };

enum class ContextWay { kAuto, kAllToAll, kGather, kRing };

struct OverlapConfig {
  bool gradients = true;
  bool parameters = true;
  bool tensor = false;

  template <class V>
  void fields(V& v) {
    v("gradients", gradients, "gradients are exchanged while the backward pass goes on",
      rule::elsewhere_called({"overlap_grad_reduce", "overlap_comm"}));
    v("parameters", parameters,
      "parameters are gathered while others are updated, and, with zero.stage 3, while the layers "
      "before them are computed",
      rule::elsewhere_called({"overlap_param_gather"}));
    v("tensor", tensor,
      "collectives of `tensor` run under the products beside them, which are cut for that",
      rule::elsewhere_called({"tp_comm_overlap", "enable_async_tensor_parallel"}));
  }
};

// Of parallel.plan; anything else is a file.
inline constexpr const char* kManualPlan = "manual";
inline constexpr const char* kAutoPlan = "auto";

struct ParallelConfig {
  std::string plan = kManualPlan;
  int64_t data = -1;
  int64_t tensor = 1;
  int64_t pipeline = 1;
  int64_t context = 1;
  ContextWay context_way = ContextWay::kAuto;
  int64_t virtual_pipeline = 1;
  AutoOr<bool> sequence_parallel;
  int64_t copies = 1;
  ZeroConfig zero;
  ReductionOrder reduction = ReductionOrder::kExact;
  std::string schedule = "1f1b";
  std::vector<int64_t> stage_layout;
  OverlapConfig overlap;
  EmbeddingWay embedding = EmbeddingWay::kAuto;
  double bucket_mb = 64;
  double timeout_s = 30;

  template <class V>
  void fields(V& v) {
    v("plan", plan,
      "manual: as these keys say; auto: the best that is found; or a file that mstrain plan "
      "--write-plan wrote",
      rule::path());
    v("data", data, "ranks with micro-batches of their own; -1: all that are left",
      rule::at_least(-1).elsewhere_called({"data_parallel", "data_parallel_size", "dp"}));
    v("tensor", tensor, "ranks that share each layer's weights",
      rule::at_least(1).elsewhere_called(
          {"model_parallel", "tensor_parallel", "tensor_model_parallel_size", "tp"}));
    v("pipeline", pipeline, "ranks that have some layers each",
      rule::at_least(1).elsewhere_called(
          {"pipeline_stages", "pipeline_stage", "pipeline_model_parallel_size", "pp"}));
    v("context", context, "ranks that share each sequence",
      rule::at_least(1).elsewhere_called({"context_parallel", "context_parallel_size", "cp"}));
    v("context_way", context_way,
      "how these ranks share attention: all_to_all exchanges positions for heads or samples, "
      "gather "
      "brings all keys and values to every rank, ring passes them on from rank to rank; auto: what "
      "sends least",
      rule::one_of({"auto", "all_to_all", "gather", "ring"})
          .elsewhere_called({"cp_comm_type", "context_parallel_algo"}));
    v("virtual_pipeline", virtual_pipeline,
      "parts of the model that each rank along pipeline has, where schedule is interleaved",
      rule::at_least(1).elsewhere_called({"virtual_pipeline_parallel_size", "pp_interleave_num"}));
    v("sequence_parallel", sequence_parallel,
      "ranks along tensor share, by tokens, what they would all compute between the layers' "
      "products; auto: where tensor > 1 divides the sequence",
      rule::elsewhere_called({"use_seq_parallel"}));
    v("copies", copies,
      "parts of a micro-batch that are computed side by side, so that the collectives of one run "
      "under the products of another",
      rule::at_least(1).at_most(8).elsewhere_called({"micro_batch_interleave_num"}));
    v("zero", zero, "what is kept in parts along data");
    v("reduction", reduction,
      "exact: sums over ranks are formed in the order of the micro-batches, with the bits of one "
      "rank; fast: each rank adds up its own first, and ranks exchange once a step",
      rule::one_of({"exact", "fast"}));
    v("schedule", schedule,
      "order of work in a pipeline: gpipe, 1f1b, interleaved, zb_h1, zbv, or a file with one",
      rule::path().elsewhere_called({"pipeline_schedule"}));
    v("stage_layout", stage_layout,
      "layers of each part of the model along the pipeline, from the first on; empty: equally many",
      rule::at_least(0).elsewhere_called({"pipeline_model_parallel_layout"}));
    v("embedding", embedding,
      "how ranks share tables of rows: row_wise: each has the rows of some ids; table_wise: each "
      "has some whole tables; auto: "
      "row_wise",
      rule::one_of({"auto", "row_wise", "table_wise"}).elsewhere_called({"sharding_type"}));
    v("overlap", overlap, "which exchanges run while something is computed");
    v("bucket_mb", bucket_mb,
      "gradients of small parameters that are exchanged at once, in 10^6 bytes at most",
      rule::positive().at_most(1e6).elsewhere_called({"bucket_size_mb", "ddp_bucket_size"}));
    v("timeout_s", timeout_s,
      "a rank that others have waited for so long is named as late, and the run ends",
      rule::positive().elsewhere_called({"ddp_timeout", "distributed_timeout"}));
  }
};

// The mesh that the keys make of so many ranks. Throws ConfigError, with the line in `tree`, where they do not make one up, naming the
// nearest choice.
Mesh mesh_of(const ParallelConfig& config, int64_t ranks, const YamlNode& tree = YamlNode());
// `world`, as that mesh. Every rank calls it.
std::shared_ptr<Ranks> make_ranks(const ParallelConfig& config,
                                  std::unique_ptr<Communicator> world);

// The ranks that share batches: of the context's ranks, or, where it has none, of the layout that is planned.
int64_t data_ranks(const ParallelConfig& config, const Context& context);
// The stages of a pipeline, likewise.
int64_t pipeline_ranks(const ParallelConfig& config, const Context& context);
// All ranks of the layout that is planned.
int64_t planned_ranks(const ParallelConfig& config);

// Throws ConfigError, with the line in `tree`, for ranks along any other axis than data. `why`: "a recommender's ranks share batches".
void check_only_data(const ParallelConfig& config, const YamlNode& tree, std::string_view why);

// Throws ConfigError, with the line in `tree`, for the first key that asks for what cannot be run yet on so many ranks: such layouts are
// planned, by mstrain plan.
void check_runs(const ParallelConfig& config, const YamlNode& tree, int64_t ranks);

}  // namespace mstrain
