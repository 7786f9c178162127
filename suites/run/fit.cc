#include "suites/run/fit.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/thread_pool.h"
#include "core/compile/fetch_ahead.h"

namespace mstrain {
namespace {

Overrides joined(Overrides a, const Overrides& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// What recomputes more than the configuration does.
std::vector<Overrides> more_recomputation(Recompute given) {
  const Overrides selective{"memory.recompute=selective"};
  const Overrides full{"memory.recompute=full"};
  switch (given) {
    case Recompute::kNone: return {selective, full};
    case Recompute::kSelective: return {full};
    case Recompute::kFull: break;
  }
  return {};
}

// What keeps the state in fewer bytes; ranks along tensor keep their parts in 32 bits alone.
std::vector<Overrides> leaner_states(const TrainConfig& config) {
  return config.parallel.tensor > 1 ? std::vector<Overrides>()
                                    : leaner_precisions(config.precision);
}

// What the run itself refuses is no choice.
void erase_refused(const YamlNode& tree, std::vector<Overrides>& choices) {
  std::erase_if(choices, [&](const Overrides& choice) {
    YamlNode changed = tree;
    apply_overrides(changed, choice);
    try {
      read_run(changed);
    } catch (const ConfigError&) {
      return true;
    }
    return false;
  });
}

constexpr const char* kOptimizerOnHost = "memory.offload.optimizer=cpu";

// No copy for checkpoints, smaller micro-batches, recomputation, both, leaner states, the optimizer's in the host's memory where
// the device has that beside its own, and all of it with smaller samples as well; each kind from mild to strong.
std::vector<std::vector<Overrides>> candidate_changes(const ModelRun& run, int64_t micro,
                                                      const Backend* backend) {
  const TrainConfig& train = run.train;
  std::vector<std::vector<Overrides>> kinds;
  if (train.checkpoint.async.value_or(false)) {
    kinds.push_back({{"checkpoint.async=false"}});
  }
  if (train.parallel.zero.regather == Regather::kNever) {
    kinds.push_back({{"parallel.zero.regather=always"}});
  }
  const std::vector<Overrides> recomputed = more_recomputation(train.memory.recompute);
  const Overrides most = recomputed.empty() ? Overrides() : recomputed.back();
  std::vector<Overrides> smaller;
  std::vector<Overrides> both;
  for (int64_t m = micro / 2; m >= 1; m /= 2) {
    if (train.batch.global % m == 0 && m % train.parallel.copies == 0) {
      smaller.push_back({fmt::format("batch.micro={}", m)});
      both.push_back(joined(most, smaller.back()));
    }
  }
  kinds.push_back(smaller);
  kinds.push_back(recomputed);
  if (!recomputed.empty()) {
    kinds.push_back(both);
  }
  const Overrides least = joined({fmt::format("batch.micro={}", train.parallel.copies)}, most);
  const std::vector<Overrides> leaner = leaner_states(train);
  kinds.push_back(leaner);
  if (has_host_memory(backend) && train.memory.offload.optimizer == Offload::kNone) {
    kinds.push_back({{kOptimizerOnHost}, joined({kOptimizerOnHost}, least)});
  }
  for (const std::vector<Overrides>& changes : {leaner, run.smaller_samples()}) {
    kinds.emplace_back();
    for (const Overrides& change : changes) {
      kinds.back().push_back(joined(change, least));
    }
  }
  return kinds;
}

}  // namespace

// Plans with other choices than those of a configuration, each made once.
class Choices::Variants {
 public:
  // `micro`: 0, or that of the plans, whatever batch.micro says.
  Variants(const ModelRun& run, const YamlNode& tree, const Context& context, int64_t limit,
           bool evaluates, int64_t micro)
      : run_(run),
        network_(run.network()),
        tree_(tree),
        context_(context),
        limit_(limit),
        evaluates_(evaluates),
        micro_(micro) {}

  // Many layers take their time, and one is like the other.
  // Few layers need not make up a pipeline, and not every model has layers.
  bool reckons_exactly() const {
    return layers() <= kFewEnough || run_.train.parallel.pipeline > 1 ||
           run_.with_layers(kFew).empty();
  }
  // The plan as far as it follows from plans of fewer layers.
  const RunPlan& about(const Overrides& overrides) {
    if (const auto found = known_.find(overrides); found != known_.end()) {
      return found->second;
    }
    return known_.emplace(overrides, reckoned(overrides)).first->second;
  }
  const Backend* backend() const { return context_.backend; }
  RunPlan exactly(const Overrides& overrides) const { return planned(overrides, layers(), limit_); }
  // Without a copy for checkpoints: whether there is room for it is not what fewer layers tell.
  RunPlan without_copy(const Overrides& overrides) const {
    constexpr int64_t kNoRoom = 0;
    return extrapolated(planned(overrides, kFew, kNoRoom), kFew, planned(overrides, kMore, kNoRoom),
                        kMore, layers());
  }

  // The same of several choices, on all processors.
  std::vector<Alternative> about(const std::vector<Overrides>& choices) {
    std::vector<Alternative> out;
    for (const Overrides& overrides : choices) {
      out.push_back({overrides, {}, reckons_exactly()});
    }
    const auto count = static_cast<int64_t>(out.size());
    const int64_t threads = context_.num_threads();
    ThreadPool pool(static_cast<int>(std::clamp<int64_t>(count - 1, 0, threads - 1)));
    pool.parallel_for(count, 1, [&](int64_t i, int64_t) {
      Alternative& it = out[static_cast<size_t>(i)];
      const auto known = known_.find(it.overrides);
      it.plan = known == known_.end() ? reckoned(it.overrides) : known->second;
    });
    for (const Alternative& it : out) {
      known_.emplace(it.overrides, it.plan);
    }
    return out;
  }

 private:
  static constexpr int64_t kFew = 2;
  static constexpr int64_t kMore = 4;
  static constexpr int64_t kFewEnough = 16;

  int64_t layers() const { return network_->num_layers(); }

  RunPlan planned(const Overrides& overrides, int64_t layers, int64_t limit) const {
    YamlNode tree = tree_;
    apply_overrides(tree, joined(overrides, run_.with_layers(layers)));
    const std::unique_ptr<ModelRun> changed = read_run(tree);
    changed->take_data_of(run_);
    if (const auto ids = network_->ids()) {
      changed->settle(*ids, tree);
    }
    const TrainConfig& train = changed->train;
    TrainTask task = changed->adapted_task();
    task.outside_bytes =
        run_.task().outside_bytes;  // no choice changes them, and they may follow from data
    return plan_run(task, train, context_, limit, evaluates_, micro_).plan;
  }

  RunPlan reckoned(const Overrides& overrides) const {
    if (reckons_exactly()) {
      return planned(overrides, layers(), limit_);
    }
    RunPlan plan = without_copy(overrides);
    if (run_.train.checkpoint.async.is_word() && plan.total() + plan.copied_bytes() <= limit_) {
      plan.snapshot_bytes = plan.copied_bytes();
    }
    return plan;
  }

  const ModelRun& run_;
  std::shared_ptr<const Network> network_;
  const YamlNode& tree_;
  Context context_;
  int64_t limit_;
  bool evaluates_;
  int64_t micro_;
  std::map<Overrides, RunPlan> known_;
};

// What does not fit with micro-batches of one sample does not fit with `auto`.
Choices::Choices(const ModelRun& run, const YamlNode& tree, const Context& context,
                 const RunPlan& plan, int64_t limit)
    : run_(run),
      tree_(tree),
      plan_(plan),
      limit_(limit),
      variants_(std::make_unique<Variants>(run, tree, context, limit, plan.evaluates,
                                           run.train.batch.micro.is_word() ? plan.micro : 0)) {}

Choices::~Choices() = default;

void Choices::refuse() {
  std::vector<std::vector<Overrides>> candidates =
      candidate_changes(run_, plan_.micro * run_.train.parallel.copies, variants_->backend());
  for (std::vector<Overrides>& kind : candidates) {
    erase_refused(tree_, kind);
  }
  if (plan_.least() > limit_) {  // unless states become leaner
    std::erase_if(candidates, [](const std::vector<Overrides>& kind) {
      return kind.empty() ||
             !(kind[0][0].starts_with("precision.") || kind[0][0] == kOptimizerOnHost);
    });
  }
  std::vector<Overrides> strongest;  // of each kind, which are asked for first: on all processors
  for (const std::vector<Overrides>& kind : candidates) {
    if (!kind.empty()) {
      strongest.push_back(kind.back());
    }
  }
  variants_->about(strongest);
  Changes changes = fitting_changes(
      candidates, [&](const Overrides& overrides) { return variants_->about(overrides); }, limit_);
  if (!variants_->reckons_exactly()) {
    std::erase_if(changes.fitting, [&](Alternative& it) {
      it.exact = it.plan.total() > limit_ - limit_ / kAboutMargin;
      if (it.exact) {
        it.plan = variants_->exactly(it.overrides);
      }
      return it.plan.total() > limit_;
    });
  }
  throw PlanError(refusal(plan_, limit_, changes));
}

TotalOfMicro Choices::total_of_micro(const ModelRun& run, const YamlNode& tree,
                                     const Context& context, bool evaluates) {
  const auto by_micro = [=, &run, &tree](int64_t micro) {
    return Variants(run, tree, context, 0, evaluates, micro);
  };
  if (by_micro(1).reckons_exactly()) {
    return nullptr;
  }
  return [=](int64_t micro) { return by_micro(micro).without_copy({}).total(); };
}

Refuse refuse_by(const ModelRun& run, const YamlNode& tree, const Context& context) {
  return [&run, &tree, context](const RunPlan& plan, int64_t limit) {
    Choices(run, tree, context, plan, limit).refuse();
  };
}

void Choices::print(std::FILE* out) {
  std::vector<Overrides> choices = more_recomputation(run_.train.memory.recompute);
  if (!run_.train.memory.loss_chunks.is_word()) {
    choices.push_back({"memory.loss_chunks=auto"});
  }
  const std::vector<Overrides> leaner = leaner_states(run_.train);
  choices.insert(choices.end(), leaner.begin(), leaner.end());
  erase_refused(tree_, choices);
  const bool exact = variants_->reckons_exactly();
  if (!exact) {
    choices.insert(choices.begin(), Overrides());  // nothing changed, reckoned in the same way
  }
  const std::vector<Alternative> alternatives = variants_->about(choices);
  const std::span<const Alternative> all(alternatives);
  fmt::print(out, "{}", exact ? describe(all, plan_) : describe(all.subspan(1), all[0].plan));
}

}  // namespace mstrain
