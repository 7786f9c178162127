#include "core/forecast/forecast.h"

#include <algorithm>
#include <set>

#include "core/forecast/step_work.h"

namespace mstrain {
namespace {

class Forecaster {
 public:
  Forecaster(const ForecastInput& input, const Profile& profile, const RunLayout& layout)
      : input_(input),
        cluster_(input.cluster),
        layout_(layout),
        model_(input, profile, layout),
        gathers_again_(gathers_again(model_)),
        work_(model_, gathers_again_),
        crowding_(work_.crowding()),
        slowest_(work_.slowest_rank()) {}

  std::vector<RankMemory> memory() const {
    std::vector<RankMemory> out;
    for (int64_t r = 0; r < layout_.pipeline; ++r) {
      out.push_back(memory_of_rank(model_, r, gathers_again_));
    }
    return out;
  }

  Forecast forecast() const {
    Forecast out;
    out.layout = layout_;
    out.limit_bytes = input_.limit_bytes;
    out.stages = memory();
    const PassTimes& work = work_.of_rank(slowest_);
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
    const auto [data, exposed_data] = work_.data_seconds(slowest_);
    parts.data = taken * work.data + data;
    parts.exposed_communication += exposed_data;
    parts.optimizer = work_.optimizer_seconds(slowest_);
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
      double end = add(Bar::Kind::kExchange, passes.seconds, work_.data_seconds(stage).second);
      end = add(Bar::Kind::kUpdate, end, work_.optimizer_seconds(stage));
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
    return crowding_ * work_.of_rank(slowest_).all() * (1 + bubble) +
           work_.data_seconds(slowest_).second + work_.optimizer_seconds(slowest_);
  }

 private:
  // The schedule's actions; on one stage each micro-batch forward and backward, in turn.
  SimulatedStep simulated() const {
    const std::vector<ChunkTimes> times = work_.chunk_times();
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

  const ForecastInput& input_;
  const Cluster& cluster_;
  const RunLayout& layout_;
  const LaidModel model_;
  const bool gathers_again_;  // for the backward pass, with ZeRO 3
  const StepWork work_;
  const double crowding_;
  const int64_t slowest_;  // rank along the pipeline
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
