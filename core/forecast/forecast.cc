#include "core/forecast/forecast.h"

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/schedule/check.h"

namespace mstrain {
namespace {

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

enum Pass : size_t { kF, kB, kW, kPasses };
using ChunkWork = std::array<PassTimes, kPasses>;

class Forecaster {
 public:
  Forecaster(const ForecastInput& input, const Profile& profile, const RunLayout& layout)
      : input_(input),
        cluster_(input.cluster),
        profile_(profile),
        layout_(layout),
        share_{static_cast<double>(layout.tensor), layout.tensor > 1 && layout.sequence_parallel,
               static_cast<double>(layout.context)},
        crowding_(static_cast<double>(input.cluster.crowding())),
        along_tensor_(group_of(cluster_, layout.tensor, 1)),
        along_context_(group_of(cluster_, layout.context, layout.tensor)),
        along_data_(group_of(cluster_, layout.data * layout.context, layout.tensor)),
        along_zero_(group_of(cluster_, layout.zero_ranks(), layout.tensor)),
        along_replicas_(
            group_of(cluster_, layout.zero_replicas(), layout.tensor * layout.zero_ranks())) {
    for (const WorkItem& item : profile.items) {
      const Pass pass = !item.backward ? kF : item.weights ? kW : kB;
      add(regions_[static_cast<size_t>(item.region)][pass], item);
    }
    for (ChunkWork& region : regions_) {
      for (PassTimes& pass : region) {
        pass.exposed = exposed(pass);
      }
    }
    ranks_.resize(static_cast<size_t>(layout.pipeline));
    if (layout.own != nullptr) {
      own_ = check_schedule(*layout.own);
    }
    for (int64_t c = 0; c < layout.chunks(); ++c) {
      RankWork& rank = ranks_[static_cast<size_t>(rank_of_chunk(c))];
      rank.chunks.push_back(c);
      rank.parameters += local_parameters(c);
    }
    gathers_again_ = layout.pipeline > 1 || layout.regather == Regather::kAlways;
    if (layout.regather == Regather::kAuto && !gathers_again_) {
      gathers_again_ = memory_of_rank(0).total() > input.limit_bytes;
    }
    for (int64_t c = 0; c < layout.chunks(); ++c) {
      chunks_.push_back(work_of_chunk(c));
      for (const PassTimes& pass : chunks_.back()) {
        ranks_[static_cast<size_t>(rank_of_chunk(c))].work +=
            static_cast<double>(layout.micro_batches) * pass;
      }
    }
    const auto slowest = std::max_element(
        ranks_.begin(), ranks_.end(),
        [](const RankWork& a, const RankWork& b) { return a.work.all() < b.work.all(); });
    slowest_ = slowest - ranks_.begin();
  }

  std::vector<RankMemory> memory() const {
    std::vector<RankMemory> out;
    for (int64_t r = 0; r < layout_.pipeline; ++r) {
      out.push_back(memory_of_rank(r));
    }
    return out;
  }

  Forecast forecast() const {
    Forecast out;
    out.layout = layout_;
    out.limit_bytes = input_.limit_bytes;
    out.stages = memory();
    const PassTimes& work = ranks_[static_cast<size_t>(slowest_)].work;
    Breakdown& parts = out.breakdown;
    double seconds = crowding_ * work.all();
    double busy = seconds;
    if (layout_.pipeline > 1) {
      const SimulatedStep passes = simulated();
      seconds = passes.seconds;
      busy = crowding_ > 1 ? passes.busy[static_cast<size_t>(slowest_)] : work.all();
      parts.pipeline_bubble = seconds - busy;
    }
    const double taken = crowding_ > 1 ? busy / work.all() : 1;
    parts.products = taken * work.products;
    parts.attention = taken * work.attention;
    parts.memory_bound = taken * work.memory;
    parts.tensor = taken * work.tensor;
    parts.exposed_communication = taken * work.exposed;
    const auto [data, exposed_data] = data_seconds(slowest_);
    parts.data = taken * work.data + data;
    parts.exposed_communication += exposed_data;
    parts.optimizer = optimizer_seconds(slowest_);
    out.step_seconds = seconds + exposed_data + parts.optimizer;
    out.tokens_per_second =
        static_cast<double>(input_.global_batch) * input_.units_per_sample / out.step_seconds;
    const double peak = cluster_.device.peak_tflops.bf16 && input_.dtype == Dtype::kBF16
                            ? *cluster_.device.peak_tflops.bf16
                        : cluster_.device.peak_tflops.fp16 && input_.dtype == Dtype::kF16
                            ? *cluster_.device.peak_tflops.fp16
                            : cluster_.device.peak_tflops.fp32;
    out.utilization = static_cast<double>(input_.global_batch) * input_.model_flops /
                      out.step_seconds / static_cast<double>(cluster_.ranks()) / (peak * 1e12);
    return out;
  }

  Timeline timeline() const {
    const SimulatedStep passes = simulated();
    Timeline out;
    for (int64_t stage = 0; stage < layout_.pipeline; ++stage) {
      std::vector<Bar> bars;
      for (const SimulatedAction& it : passes.actions) {
        if (it.action.rank == stage) {
          bars.push_back(
              {kind_of(it.action.work), it.action.chunk, it.action.micro_batch, it.begin, it.end});
        }
      }
      const auto add = [&](Bar::Kind kind, double begin, double seconds) {
        if (seconds > 0) {
          bars.push_back({kind, -1, -1, begin, begin + seconds});
        }
        return begin + seconds;
      };
      double end = add(Bar::Kind::kExchange, passes.seconds, data_seconds(stage).second);
      end = add(Bar::Kind::kUpdate, end, optimizer_seconds(stage));
      out.seconds = std::max(out.seconds, end);
      // Ranks along the other axes do the same; `pipeline` is the slowest to change.
      out.ranks.insert(out.ranks.end(),
                       static_cast<size_t>(layout_.data * layout_.context * layout_.tensor), bars);
    }
    return out;
  }

  // Work, and the waiting that the schedule is known for.
  double about() const {
    if (layout_.own != nullptr || (layout_.pipeline > 1 && crowding_ > 1)) {
      return forecast().step_seconds;
    }
    const double bubble = layout_.pipeline > 1
                              ? bubble_formula(layout_.schedule, static_cast<int>(layout_.pipeline),
                                               static_cast<int>(layout_.virtual_pipeline),
                                               static_cast<int>(layout_.micro_batches))
                              : 0;
    return crowding_ * ranks_[static_cast<size_t>(slowest_)].work.all() * (1 + bubble) +
           data_seconds(slowest_).second + optimizer_seconds(slowest_);
  }

 private:
  // The schedule's actions; on one stage each micro-batch forward and backward, in turn.
  SimulatedStep simulated() const {
    const std::vector<ChunkTimes> times = chunk_times();
    const Schedule schedule =
        layout_.pipeline > 1 ? layout_.made_schedule()
                             : one_f_one_b_schedule(1, static_cast<int>(layout_.micro_batches));
    if (crowding_ == 1) {
      return simulate(schedule, times);
    }
    // Ranks are dealt to processors in turn.
    const int64_t processors = cluster_.processors.value_or(cluster_.gpus_per_node);
    const int64_t stride = layout_.data * layout_.context * layout_.tensor;
    std::vector<int> processor;
    for (int64_t stage = 0; stage < layout_.pipeline; ++stage) {
      processor.push_back(static_cast<int>(stage * stride % processors));
    }
    const auto used = static_cast<double>(std::set<int>(processor.begin(), processor.end()).size());
    const double others = static_cast<double>(cluster_.gpus_per_node) * used /
                          static_cast<double>(processors * layout_.pipeline);
    return simulate_sharing(schedule, times, processor, std::max(1.0, others));
  }

  // Where the schedule puts chunk c.
  int64_t rank_of_chunk(int64_t c) const {
    if (layout_.own != nullptr) {
      return own_.chunk_rank[static_cast<size_t>(c)];
    }
    return layout_.schedule == ScheduleKind::kZbv && layout_.pipeline > 1 && c >= layout_.pipeline
               ? 2 * layout_.pipeline - 1 - c
               : c % layout_.pipeline;
  }

  void add(PassTimes& pass, const WorkItem& item) const {
    const double count = item.count * static_cast<double>(layout_.copies);
    switch (item.kind) {
      case WorkKind::kProduct:
        pass.products += count * seconds_of(cluster_.device, item, share_);
        return;
      case WorkKind::kAttention:
        pass.attention += count * seconds_of(cluster_.device, item, share_);
        // Keys and values of the other ranks pass by: half of what attention reads and writes.
        if (layout_.context > 1) {
          pass.tensor +=
              count * all_gather_seconds(cluster_, along_context_, item.bytes / 2 / share_.tensor);
        }
        return;
      case WorkKind::kMemory:
        pass.memory += count * seconds_of(cluster_.device, item, share_);
        return;
      case WorkKind::kReduce:
        if (layout_.tensor > 1) {
          pass.tensor +=
              count * all_reduce_seconds(cluster_, along_tensor_, item.bytes / share_.context);
        }
        return;
      case WorkKind::kGather:
        if (layout_.tensor > 1 && share_.by_tokens) {
          pass.tensor +=
              count * all_gather_seconds(cluster_, along_tensor_, item.bytes / share_.context);
        }
        return;
    }
  }

  // Copies hide their collectives under each other's work, but for the first of a pass, which has nothing to hide under. A product
  // that is cut hides its own.
  double exposed(const PassTimes& pass) const {
    if (layout_.copies > 1) {
      return std::max(pass.tensor / static_cast<double>(layout_.copies) * kUncovered,
                      pass.tensor - pass.work());
    }
    if (layout_.overlap.tensor) {
      return std::max(pass.tensor / std::max(2.0, share_.tensor), pass.tensor - pass.products);
    }
    return pass.tensor;
  }

  ChunkWork work_of_chunk(int64_t c) const {
    ChunkWork out;
    for (size_t pass = 0; pass < kPasses; ++pass) {
      out[pass] = static_cast<double>(layout_.stages[static_cast<size_t>(c)]) *
                  regions_[static_cast<size_t>(Region::kBlock)][pass];
      if (c == 0) {
        out[pass] += regions_[static_cast<size_t>(Region::kFirst)][pass];
      }
      if (c == layout_.chunks() - 1) {
        out[pass] += regions_[static_cast<size_t>(Region::kLast)][pass];
      }
      if (layout_.zero == 3 && layout_.data > 1) {
        // Parameters are gathered while the layer before is computed.
        const double gather =
            pass == kF || (pass == kB && gathers_again_)
                ? all_gather_seconds(cluster_, along_zero_,
                                     local_parameters(c) * profile_.parameter_bytes)
                : 0;
        const double hidden = layout_.overlap.parameters ? out[pass].all() * kHideable : 0;
        out[pass].data += gather;
        // The first layer's hide under nothing.
        const auto layers = static_cast<double>(layout_.stages[static_cast<size_t>(c)]);
        const double first = gather / std::max(1.0, layers);
        out[pass].exposed += std::max(first, gather - hidden);
      }
    }
    return out;
  }

  std::vector<ChunkTimes> chunk_times() const {
    const double bytes = profile_.boundary_bytes * static_cast<double>(layout_.copies) /
                         share_.context / (share_.by_tokens ? share_.tensor : 1);
    const double send =
        send_seconds(cluster_, layout_.tensor * layout_.context * layout_.data, bytes);
    std::vector<ChunkTimes> out;
    for (const ChunkWork& chunk : chunks_) {
      out.push_back({chunk[kF].all(), chunk[kB].all(), chunk[kW].all(), send, send});
    }
    return out;
  }

  DividedBytes parameters_of_chunk(int64_t c) const {
    const auto part = [&](Region region) {
      return profile_.regions[static_cast<size_t>(region)].parameters;
    };
    const auto blocks = static_cast<double>(layout_.stages[static_cast<size_t>(c)]);
    DividedBytes out{part(Region::kBlock).divided * blocks, part(Region::kBlock).whole * blocks};
    for (Region region : {Region::kFirst, Region::kLast}) {
      if (region == Region::kFirst ? c == 0 : c == layout_.chunks() - 1) {
        out.divided += part(region).divided;
        out.whole += part(region).whole;
      }
    }
    // One chunk has what both ends share once.
    if (layout_.chunks() == 1) {
      out.divided -= profile_.tied.divided;
      out.whole -= profile_.tied.whole;
    }
    return out;
  }

  // Elements that a rank computes with.
  double local_parameters(int64_t c) const {
    return parameters_of_chunk(c).local(share_.tensor, false);
  }
  RankMemory memory_of_rank(int64_t r) const {
    const RankWork& rank = ranks_[static_cast<size_t>(r)];
    const double elements = rank.parameters;
    const auto ranks = static_cast<double>(layout_.zero_ranks());
    const auto kept = [&](int64_t stage) { return layout_.zero >= stage ? 1 / ranks : 1.0; };
    RankMemory out;
    out.parameters = elements * profile_.parameter_bytes * kept(3);
    out.optimizer = elements * (profile_.optimizer_bytes / profile_.parameters) * kept(1);
    // A single micro-batch is not summed up: its gradients have the type of the parameters.
    const double gradient =
        layout_.micro_batches > 1 ? profile_.gradient_bytes : profile_.parameter_bytes;
    // Sums that ranks carry on in every turn are in parts, and whole for an update that is not.
    out.gradients = elements * gradient * kept(layout_.reduction == ReductionOrder::kExact ? 1 : 2);
    double mine = 0;  // saved by one micro-batch in all chunks of the rank
    double beside = 0;
    double largest = 0;
    for (int64_t c : rank.chunks) {
      const auto blocks = static_cast<double>(layout_.stages[static_cast<size_t>(c)]);
      mine += blocks * saved(Region::kBlock);
      beside = std::max(beside, most_beside(Region::kBlock));
      largest = std::max(
          largest, parameters_of_chunk(c).local(share_.tensor, false) / std::max(1.0, blocks));
      if (c == 0) {
        mine += saved(Region::kFirst);
        beside = std::max(beside, most_beside(Region::kFirst));
      }
      if (c == layout_.chunks() - 1) {
        mine += saved(Region::kLast);
        beside = std::max(beside, most_beside(Region::kLast));
      }
    }
    // Chunks of a rank are about equal: so many of them are in flight.
    const int in_flight =
        layout_.pipeline == 1 ? 1
        : layout_.own != nullptr
            ? own_.in_flight[static_cast<size_t>(r)]
            : most_in_flight(layout_.schedule, static_cast<int>(layout_.pipeline),
                             static_cast<int>(layout_.virtual_pipeline),
                             static_cast<int>(layout_.micro_batches), static_cast<int>(r));
    const double flights = static_cast<double>(in_flight) / static_cast<double>(rank.chunks.size());
    out.activations = flights * mine * static_cast<double>(layout_.copies);
    out.transient = beside;
    if (layout_.data * layout_.context > 1) {
      out.communication += std::min(elements * gradient, 2 * layout_.bucket_bytes);
      if (layout_.zero == 3) {  // this layer's parameters, and the next one's; or all
        out.communication += (gathers_again_ ? 2 * largest : elements) * profile_.parameter_bytes;
      }
    }
    if (layout_.pipeline > 1) {
      out.communication += 4 * profile_.boundary_bytes / share_.context;
    }
    out.batch = profile_.batch_bytes * static_cast<double>(layout_.micro * layout_.micro_batches) /
                share_.context;
    out.reserved = cluster_.device.reserved_gb * 1e9;
    return out;
  }

  double saved(Region region) const {
    return profile_.regions[static_cast<size_t>(region)].saved.local(share_.tensor,
                                                                     share_.by_tokens) /
           share_.context;
  }
  double most_beside(Region region) const {
    double most = 0;
    for (const DividedBytes& bytes : profile_.regions[static_cast<size_t>(region)].beside) {
      most = std::max(most, bytes.local(share_.tensor, share_.by_tokens));
    }
    return most / share_.context;
  }

  // All exchanges along data, and what of them nothing hides.
  std::pair<double, double> data_seconds(int64_t r) const {
    if (layout_.data * layout_.context == 1) {
      return {0, 0};
    }
    const RankWork& rank = ranks_[static_cast<size_t>(r)];
    const double elements = rank.parameters;
    const double gradient =
        layout_.micro_batches > 1 ? profile_.gradient_bytes : profile_.parameter_bytes;
    const double gradients = elements * gradient;
    const double scatter = reduce_scatter_seconds(cluster_, along_data_, gradients);
    // What is kept in parts is exchanged after every micro-batch, and what is added up in their order.
    const bool every_turn = layout_.zero >= 2 || layout_.reduction == ReductionOrder::kExact;
    const double times = every_turn ? static_cast<double>(layout_.micro_batches) : 1;
    const double parameters =
        layout_.zero == 0 ? scatter
        : layout_.zero == 3
            ? 0
            : all_gather_seconds(cluster_, along_zero_, elements * profile_.parameter_bytes);
    double backward = 0;
    double forward = 0;
    for (int64_t c : rank.chunks) {
      const ChunkWork& chunk = chunks_[static_cast<size_t>(c)];
      backward += chunk[kB].work() + chunk[kW].work();
      forward += chunk[kF].work();
    }
    const double last = std::min(1.0, layout_.bucket_bytes / gradients) * scatter;
    double exposed = 0;
    if (layout_.overlap.gradients) {
      const double hidden = backward * kHideable;
      const double whole = layout_.zero == 0 ? parameters : 0;  // sums, after the last turn
      exposed +=
          (times - 1) * std::max(last, scatter - hidden) + std::max(last, scatter + whole - hidden);
    } else {
      exposed += times * scatter + (layout_.zero == 0 ? parameters : 0);
    }
    if (layout_.zero == 1 || layout_.zero == 2) {
      exposed += layout_.overlap.parameters ? std::max(last, parameters - forward * kHideable)
                                            : parameters;
    }
    // What each replica added up of the gradients' parts, once all is added up.
    const double shares =
        layout_.zero == 0
            ? 0
            : all_gather_seconds(cluster_, along_replicas_,
                                 gradients / static_cast<double>(layout_.zero_ranks()));
    return {times * scatter + parameters + shares, exposed + shares};
  }

  double optimizer_seconds(int64_t r) const {
    const double ranks = layout_.zero >= 1 ? static_cast<double>(layout_.zero_ranks()) : 1;
    const double share = ranks_[static_cast<size_t>(r)].parameters / profile_.parameters / ranks;
    return crowding_ * (profile_.update_bytes * share /
                            (cluster_.device.memory_gbps * 1e9 * cluster_.device.achieved.memory) +
                        profile_.update_kernels * cluster_.device.launch_us * 1e-6 /
                            static_cast<double>(layout_.pipeline));
  }

  // Of a pass's collectives over copies, the share that the first one is.
  static constexpr double kUncovered = 0.15;
  // Of the work beside an exchange: while both go on, they share memory and processors.
  static constexpr double kHideable = 0.8;

  struct RankWork {
    std::vector<int64_t> chunks;
    double parameters = 0;  // elements that it computes with
    PassTimes work;         // of all micro-batches
  };

  const ForecastInput& input_;
  const Cluster& cluster_;
  const Profile& profile_;
  const RunLayout& layout_;
  WorkShare share_;
  double crowding_;
  Group along_tensor_, along_context_, along_data_, along_zero_, along_replicas_;
  std::array<ChunkWork, kRegions> regions_;
  std::vector<ChunkWork> chunks_;
  std::vector<RankWork> ranks_;
  bool gathers_again_ = false;  // for the backward pass, with ZeRO 3
  ScheduleFacts own_;           // of layout_.own
  int64_t slowest_ = 0;
};

}  // namespace

const RankMemory& Forecast::largest() const {
  return *std::max_element(
      stages.begin(), stages.end(),
      [](const RankMemory& a, const RankMemory& b) { return a.total() < b.total(); });
}

Forecast forecast(const ForecastInput& input, const Profile& profile, const RunLayout& layout) {
  return Forecaster(input, profile, layout).forecast();
}

Timeline planned_step(const ForecastInput& input, const Profile& profile, const RunLayout& layout) {
  return Forecaster(input, profile, layout).timeline();
}

QuickForecast quick_forecast(const ForecastInput& input, const Profile& profile,
                             const RunLayout& layout) {
  const Forecaster forecaster(input, profile, layout);
  QuickForecast out{0, forecaster.about()};
  for (const RankMemory& rank : forecaster.memory()) {
    out.peak_bytes = std::max(out.peak_bytes, rank.total());
  }
  return out;
}

}  // namespace mstrain
