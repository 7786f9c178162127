#include "core/forecast/search.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/train/numbers.h"

namespace mstrain {
namespace {

struct Candidate {
  RunLayout layout;
  QuickForecast quick;
};

class Search {
 public:
  Search(const ForecastInput& input, const ProfileOf& profile_of, const RunLayout& given,
         const std::set<std::string>& fixed, const Objection& objection)
      : input_(input),
        profile_of_(profile_of),
        given_(given),
        fixed_(fixed),
        objection_(objection) {}

  std::vector<Candidate> candidates() {
    const Cluster& cluster = input_.cluster;
    for (int64_t tensor :
         choices("parallel.tensor", given_.tensor, divisors(cluster.gpus_per_node))) {
      if (input_.model.heads % tensor != 0 || cluster.ranks() % tensor != 0) {
        continue;
      }
      for (int64_t pipeline :
           choices("parallel.pipeline", given_.pipeline, divisors(cluster.ranks() / tensor))) {
        if (pipeline <= input_.model.layers && cluster.ranks() % (tensor * pipeline) == 0) {
          over_context(tensor, pipeline);
        }
      }
    }
    return std::move(found_);
  }
  const std::string& objection() const { return last_; }

 private:
  bool is_fixed(const char* key) const { return fixed_.contains(key); }
  std::vector<int64_t> choices(const char* key, int64_t given, std::vector<int64_t> all) const {
    return is_fixed(key) ? std::vector{given} : all;
  }

  void over_context(int64_t tensor, int64_t pipeline) {
    // Sequences are worth cutting when they are long, or somebody says how.
    constexpr int64_t kLong = 8192;
    const bool is_wanted = given_.context_way != ContextWay::kAuto;
    std::vector<int64_t> sizes;
    for (int64_t c : {1, 2, 4, 8, 16}) {
      if (c == 1 || is_wanted || input_.model.tokens / c >= kLong) {
        sizes.push_back(c);
      }
    }
    for (int64_t context : choices("parallel.context", given_.context, sizes)) {
      const int64_t others = tensor * pipeline * context;
      if (input_.cluster.ranks() % others != 0 || context > input_.model.tokens) {
        continue;
      }
      const int64_t data = input_.cluster.ranks() / others;
      const bool has_groups = given_.zero_group == 0 || data % given_.zero_group == 0;
      if (input_.global_batch % data == 0 && has_groups &&
          (!is_fixed("parallel.data") || data == given_.data)) {
        RunLayout layout = given_;
        layout.tensor = tensor;
        layout.pipeline = pipeline;
        layout.context = context;
        layout.data = data;
        const bool shares = input_.model.shares_along_tensor(tensor * context);
        if (!is_fixed("parallel.sequence_parallel")) {
          layout.sequence_parallel = tensor > 1 && shares;
        } else if (given_.sequence_parallel && !shares) {
          continue;
        }
        over_micro(layout);
      }
    }
  }

  void over_micro(RunLayout layout) {
    constexpr int64_t kMost = 64;
    const int64_t mine = input_.global_batch / layout.data;
    std::vector<int64_t> sizes;
    for (int64_t micro : divisors(mine)) {
      if (micro <= kMost && (micro & (micro - 1)) == 0) {
        sizes.push_back(micro);
      }
    }
    if (mine <= kMost && sizes.back() != mine) {
      sizes.push_back(mine);
    }
    for (int64_t micro : choices("batch.micro", given_.micro, sizes)) {
      if (mine % micro != 0 || mine / micro < layout.pipeline) {
        continue;
      }
      layout.micro = micro;
      layout.micro_batches = mine / micro;
      over_schedule(layout);
    }
  }

  void over_schedule(RunLayout layout) {
    const auto with = [&](ScheduleKind kind, int64_t each) {
      const int64_t chunks =
          layout.pipeline == 1 ? 1 : layout.pipeline * chunks_of_rank(kind, each);
      if (chunks > input_.model.layers) {
        return;
      }
      layout.schedule = kind;
      layout.virtual_pipeline = each;
      layout.stages = is_fixed("parallel.stage_layout") ? given_.stages
                                                        : even_stages(input_.model.layers, chunks);
      if (layout.chunks() == chunks) {
        over_memory(layout);
      }
    };
    if (given_.own != nullptr) {
      if (layout.pipeline == given_.own->ranks &&
          layout.micro_batches == given_.own->micro_batches) {
        over_memory(layout);
      }
      return;
    }
    if (layout.pipeline == 1) {
      if (given_.virtual_pipeline == 1 &&
          (!is_fixed("parallel.schedule") || given_.schedule == ScheduleKind::k1f1b)) {
        with(ScheduleKind::k1f1b, 1);
      }
      return;
    }
    const bool has_parts = is_fixed("parallel.virtual_pipeline");
    const auto parts = [&] {
      if (has_parts) {
        with(ScheduleKind::kInterleaved, given_.virtual_pipeline);
        return;
      }
      for (int64_t each : {2, 3, 4, 6, 8}) {
        with(ScheduleKind::kInterleaved, each);
      }
    };
    if (is_fixed("parallel.schedule")) {
      given_.schedule == ScheduleKind::kInterleaved ? parts() : with(given_.schedule, 1);
      return;
    }
    if (!has_parts || given_.virtual_pipeline == 1) {
      // GPipe waits as long as 1f1b and keeps more.
      with(ScheduleKind::k1f1b, 1);
      with(ScheduleKind::kZbH1, 1);
      with(ScheduleKind::kZbv, 1);
    }
    if (!has_parts || given_.virtual_pipeline > 1) {
      parts();
    }
  }

  void over_memory(RunLayout layout) {
    const std::vector<Recompute> rules =
        is_fixed("memory.recompute")
            ? std::vector{given_.recompute}
            : std::vector{Recompute::kNone, Recompute::kSelective, Recompute::kFull};
    const std::vector<int64_t> copies =
        choices("parallel.copies", given_.copies,
                layout.tensor > 1 && layout.micro % 2 == 0 ? std::vector<int64_t>{1, 2}
                                                           : std::vector<int64_t>{1});
    const std::vector<int64_t> stages = choices(
        "parallel.zero.stage", given_.zero,
        layout.data * layout.context > 1 ? std::vector<int64_t>{1, 2, 3} : std::vector<int64_t>{1});
    for (Recompute rule : rules) {
      layout.recompute = rule;
      for (int64_t k : copies) {
        if (layout.micro % k != 0) {
          continue;
        }
        layout.copies = k;
        const Profile& profile = profile_of_(layout);
        for (int64_t stage : stages) {
          layout.zero = stage;
          if (std::string why = objection_ ? objection_(layout) : ""; !why.empty()) {
            last_ = std::move(why);
            continue;
          }
          found_.push_back({layout, quick_forecast(input_, profile, layout)});
        }
      }
    }
  }

  const ForecastInput& input_;
  const ProfileOf& profile_of_;
  const RunLayout& given_;
  const std::set<std::string>& fixed_;
  const Objection& objection_;
  std::vector<Candidate> found_;
  std::string last_;
};

bool same_kind(const RunLayout& a, const RunLayout& b) {
  return a.tensor == b.tensor && a.pipeline == b.pipeline && a.schedule_name() == b.schedule_name();
}

}  // namespace

SearchResult search_layouts(const ForecastInput& input, const ProfileOf& profile_of,
                            const RunLayout& given, const std::set<std::string>& fixed, size_t top,
                            const Objection& objection) {
  Search search(input, profile_of, given, fixed, objection);
  std::vector<Candidate> all = search.candidates();
  SearchResult out;
  out.objection = search.objection();
  out.considered = static_cast<int64_t>(all.size());
  const auto exactly = [&](const RunLayout& layout) {
    return forecast(input, profile_of(layout), layout);
  };
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.quick.seconds < b.quick.seconds;
  });
  // A simulation may order neighbours otherwise: some more are simulated than are kept.
  const size_t simulated = 4 * top + 8;
  std::vector<const Candidate*> fitting;
  std::vector<const Candidate*> too_large;
  for (const Candidate& it : all) {
    (it.quick.peak_bytes <= input.limit_bytes ? fitting : too_large).push_back(&it);
  }
  for (size_t i = 0; i < std::min(simulated, fitting.size()); ++i) {
    out.best.push_back(exactly(fitting[i]->layout));
  }
  std::stable_sort(out.best.begin(), out.best.end(), [](const Forecast& a, const Forecast& b) {
    return a.step_seconds < b.step_seconds;
  });
  if (out.best.size() > top) {
    out.best.resize(top);
  }
  if (out.best.empty()) {
    std::stable_sort(too_large.begin(), too_large.end(),
                     [](const Candidate* a, const Candidate* b) {
                       return a->quick.peak_bytes < b->quick.peak_bytes;
                     });
  }
  const auto is_new_kind = [&](const std::vector<Forecast>& list, const RunLayout& layout) {
    return std::none_of(list.begin(), list.end(),
                        [&](const Forecast& it) { return same_kind(it.layout, layout); });
  };
  for (const Candidate* it : too_large) {
    if (out.too_large.size() == top ||
        (!out.best.empty() && it->quick.seconds > out.best[0].step_seconds)) {
      break;
    }
    if (is_new_kind(out.too_large, it->layout)) {
      out.too_large.push_back(exactly(it->layout));
    }
  }
  for (const Candidate* it : fitting) {
    if (out.slower.size() == top) {
      break;
    }
    if (is_new_kind(out.best, it->layout) && is_new_kind(out.slower, it->layout)) {
      out.slower.push_back(exactly(it->layout));
    }
  }
  return out;
}

std::string reason(const Forecast& it, const Forecast* best) {
  if (!it.fits()) {
    const auto parts = it.largest().parts();
    const auto& most =
        *std::max_element(std::begin(parts), std::end(parts),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
    return fmt::format("needs {} of {}, most of it for {}",
                       gigabytes(static_cast<int64_t>(it.peak_bytes())),
                       gigabytes(static_cast<int64_t>(it.limit_bytes)), most.first);
  }
  if (best == nullptr || it.step_seconds <= best->step_seconds) {
    return "";
  }
  const Breakdown& a = it.breakdown;
  const Breakdown& b = best->breakdown;
  const std::pair<const char*, double> parts[] = {
      {"products", a.products - b.products},
      {"attention", a.attention - b.attention},
      {"memory-bound work", a.memory_bound - b.memory_bound},
      {"exposed communication", a.exposed_communication - b.exposed_communication},
      {"waiting in the pipeline", a.pipeline_bubble - b.pipeline_bubble},
      {"the optimizer", a.optimizer - b.optimizer}};
  const auto& most =
      *std::max_element(std::begin(parts), std::end(parts),
                        [](const auto& x, const auto& y) { return x.second < y.second; });
  return fmt::format("{:.1f} % slower, most of it for {}",
                     100 * (it.step_seconds / best->step_seconds - 1), most.first);
}

}  // namespace mstrain
