#include "core/forecast/layout.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/schedule/check.h"

namespace mstrain {
namespace {

constexpr std::string_view kRecomputes[] = {"none", "selective", "full"};

class Resolver {
 public:
  Resolver(const TrainConfig& config, const YamlNode& tree, const Cluster& cluster,
           const ModelSizes& model, const std::set<std::string>* decided)
      : config_(config.parallel),
        batch_(config.batch),
        tree_(tree),
        cluster_(cluster),
        model_(model),
        decided_(decided) {
    out_.tensor = config_.tensor;
    out_.pipeline = config_.pipeline;
    out_.context = config_.context;
    out_.context_way = config_.context_way;
    out_.copies = config_.copies;
    out_.zero = config_.zero.stage;
    out_.regather = config_.zero.regather;
    out_.reduction = config_.reduction;
    out_.overlap = config_.overlap;
    out_.bucket_bytes = config_.bucket_mb * 1e6;
    out_.recompute = config.memory.recompute;
    out_.micro = config.batch.micro.value_or(1);
  }

  RunLayout resolve(int64_t micro, std::shared_ptr<const Schedule> own) {
    out_.own = std::move(own);
    out_.zero_group = config_.zero.group.value_or(0);
    resolve_ranks();
    resolve_tensor();
    resolve_context();
    resolve_schedule();
    if (knows_data()) {
      resolve_data();
    }
    if (knows_ranks()) {
      resolve_batch(micro);
    }
    return out_;
  }

 private:
  bool is_open(const char* key) const { return decided_ != nullptr && !decided_->contains(key); }
  // Along all axes.
  bool knows_ranks() const {
    return !is_open("parallel.tensor") && !is_open("parallel.pipeline") &&
           !is_open("parallel.context");
  }
  bool knows_data() const { return knows_ranks() || config_.data > 0; }

  template <class... Args>
  [[noreturn]] void refuse(std::string_view key, fmt::format_string<Args...> format,
                           Args&&... args) const {
    config_fail(tree_, fmt::format("parallel.{}", key),
                fmt::format(format, std::forward<Args>(args)...));
  }

  void resolve_ranks() {
    const int64_t ranks = cluster_.ranks();
    const int64_t others = out_.tensor * out_.pipeline * out_.context;
    if (config_.data == -1) {
      if (ranks % others != 0) {
        const std::string_view key = out_.pipeline > 1 ? "pipeline"
                                     : out_.tensor > 1 ? "tensor"
                                                       : "context";
        const int64_t rest = others / value_of(key);
        refuse(key,
               "tensor {} x pipeline {} x context {} = {} does not divide the cluster's {} ranks; "
               "the nearest that does: {}={}",
               out_.tensor, out_.pipeline, out_.context, others, ranks, key,
               ranks % rest == 0 ? nearest_divisors(ranks / rest, value_of(key)) : "1");
      }
      out_.data = ranks / others;
      return;
    }
    out_.data = config_.data;
    if (knows_ranks() ? out_.data * others != ranks : ranks % (out_.data * others) != 0) {
      refuse(
          "data",
          "data {} x tensor {} x pipeline {} x context {} = {} ranks, but the cluster has {}; {}",
          out_.data, out_.tensor, out_.pipeline, out_.context, out_.data * others, ranks,
          ranks % others == 0
              ? fmt::format("say data={} or -1", ranks / others)
              : fmt::format("{} ranks are divided by {}", ranks, nearest_divisors(ranks, others)));
    }
  }

  int64_t value_of(std::string_view key) const {
    return key == "pipeline" ? out_.pipeline : key == "tensor" ? out_.tensor : out_.context;
  }

  void resolve_tensor() {
    if (model_.heads % out_.tensor != 0) {
      refuse("tensor", "{} does not divide the model's {} heads; the nearest that do: {}",
             out_.tensor, model_.heads, nearest_divisors(model_.heads, out_.tensor));
    }
    out_.sequence_parallel = config_.sequence_parallel.value_or(
        out_.tensor > 1 && model_.shares_along_tensor(out_.tensor * out_.context));
    if (config_.sequence_parallel.value_or(false) &&
        !model_.shares_along_tensor(out_.tensor * out_.context)) {
      refuse("sequence_parallel", "ranks along tensor {} cannot share the {} tokens of a sample",
             out_.tensor, model_.tokens);
    }
  }

  void resolve_context() {
    if (out_.context > model_.tokens) {
      refuse("context", "{} ranks cannot share the {} tokens of a sample; say {} at most",
             out_.context, model_.tokens, model_.tokens);
    }
  }

  void resolve_schedule() {
    if (out_.own != nullptr) {
      resolve_own();
      return;
    }
    ParallelConfig asked = config_;
    if (is_open("parallel.pipeline")) {
      asked.pipeline = 2;  // it may have several
    }
    if (is_open("parallel.schedule") && asked.virtual_pipeline > 1) {
      asked.schedule = name_of(ScheduleKind::kInterleaved);
    }
    out_.schedule = schedule_of(asked, tree_);
    out_.virtual_pipeline = config_.virtual_pipeline;
    if (!config_.stage_layout.empty() &&
        (is_open("parallel.pipeline") || is_open("parallel.schedule") ||
         is_open("parallel.virtual_pipeline"))) {
      out_.stages = stages_of(config_, tree_, model_.layers, std::ssize(config_.stage_layout));
      return;
    }
    const int64_t chunks =
        out_.pipeline == 1 ? 1
                           : out_.pipeline * chunks_of_rank(out_.schedule, out_.virtual_pipeline);
    out_.stages = is_open("parallel.stage_layout") && chunks <= model_.layers
                      ? even_stages(model_.layers, chunks)
                      : stages_of(config_, tree_, model_.layers, chunks);
  }

  void resolve_own() {
    out_.own_file = config_.schedule;
    out_.stages = stages_of(config_, tree_, model_.layers, out_.own->chunks);
  }

  void resolve_data() {
    if (out_.zero_group > 0 && out_.data % out_.zero_group != 0) {
      refuse("zero.group", "{} does not divide the {} ranks along data; the nearest that do: {}",
             out_.zero_group, out_.data, nearest_divisors(out_.data, out_.zero_group));
    }
    if (batch_.global % out_.data != 0) {
      refuse("data", "{} does not divide batch.global {}; the nearest that do: {}", out_.data,
             batch_.global, nearest_divisors(batch_.global, out_.data));
    }
  }

  void resolve_batch(int64_t micro) {
    out_.micro = batch_.micro.value_or(micro);
    const int64_t mine = batch_.global / out_.data;
    if (mine % out_.micro != 0) {
      config_fail(tree_, "batch.micro",
                  fmt::format("{} does not divide the {} samples of a rank (batch.global {} over "
                              "{} ranks along data); the nearest that do: {}",
                              out_.micro, mine, batch_.global, out_.data,
                              nearest_divisors(mine, out_.micro)));
    }
    out_.micro_batches = mine / out_.micro;
    if (out_.micro_batches < out_.pipeline) {
      refuse("pipeline",
             "{} ranks need as many micro-batches, but a step has {} ({} samples over data {}, in "
             "micro-batches of {}); say batch.micro={} or batch.global={}",
             out_.pipeline, out_.micro_batches, batch_.global, out_.data, out_.micro,
             std::max<int64_t>(1, mine / out_.pipeline), out_.pipeline * out_.data * out_.micro);
    }
    if (is_open("batch.micro")) {
      return;
    }
    if (out_.own != nullptr) {
      check_micro_batches(*out_.own, config_, tree_, batch_.global, out_.micro, out_.data);
    }
    if (out_.micro % out_.copies != 0) {
      refuse("copies", "{} does not divide the {} samples of a micro-batch; say batch.micro={}",
             out_.copies, out_.micro, out_.copies);
    }
  }

  const ParallelConfig& config_;
  const BatchConfig& batch_;
  const YamlNode& tree_;
  const Cluster& cluster_;
  const ModelSizes& model_;
  const std::set<std::string>* const decided_;  // null: everything is
  RunLayout out_;
};

}  // namespace

ParallelConfig RunLayout::in(ParallelConfig config) const {
  config.data = data;
  config.tensor = tensor;
  config.pipeline = pipeline;
  config.context = context;
  config.virtual_pipeline = virtual_pipeline;
  config.sequence_parallel = sequence_parallel;
  config.copies = copies;
  config.zero.stage = zero;
  config.schedule = own ? own_file : name_of(schedule);
  config.overlap.tensor = overlap.tensor;
  const bool is_even =
      std::adjacent_find(stages.begin(), stages.end(), std::not_equal_to<>()) == stages.end();
  config.stage_layout = is_even ? std::vector<int64_t>() : stages;
  return config;
}

std::vector<std::string> RunLayout::keys() const {
  const YamlNode section = write_config(in(ParallelConfig()));
  std::vector<std::string> out;
  for (const char* key :
       {"data", "tensor", "pipeline", "context", "virtual_pipeline", "sequence_parallel", "copies",
        "zero.stage", "schedule", "overlap.tensor", "stage_layout"}) {
    out.push_back(fmt::format("parallel.{}={}", key, to_flow(*find_config(section, key))));
  }
  out.push_back(fmt::format("batch.micro={}", micro));
  out.push_back(fmt::format("memory.recompute={}", kRecomputes[static_cast<size_t>(recompute)]));
  return out;
}

std::string RunLayout::describe() const {
  std::vector<std::string> parts;
  for (const auto& [name, size] : {std::pair("data", data),
                                   {"tensor", tensor},
                                   {"pipeline", pipeline},
                                   {"context", context}}) {
    if (size > 1) {
      parts.push_back(fmt::format("{} {}", name, size));
    }
  }
  if (parts.empty()) {
    parts.emplace_back("one rank");
  }
  if (tensor > 1 && sequence_parallel) {
    parts.emplace_back("sequence parallel");
  }
  if (pipeline > 1) {
    parts.push_back(std::string(schedule_name()) +
                    (virtual_pipeline > 1 ? fmt::format(" x {}", virtual_pipeline) : ""));
  }
  if (data > 1) {
    parts.push_back(fmt::format("zero {}", zero));
    if (zero_replicas() > 1) {
      parts.back() += fmt::format(" in groups of {}", zero_group);
    }
  }
  parts.push_back(fmt::format("micro {}", micro));
  if (copies > 1) {
    parts.push_back(fmt::format("{} copies", copies));
  }
  if (overlap.tensor && tensor > 1) {
    parts.emplace_back("tensor overlapped");
  }
  if (recompute != Recompute::kNone) {
    parts.push_back(fmt::format("recompute {}", kRecomputes[static_cast<size_t>(recompute)]));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

RunLayout resolve_layout(const TrainConfig& config, const YamlNode& tree, const Cluster& cluster,
                         const ModelSizes& model, int64_t micro,
                         std::shared_ptr<const Schedule> own) {
  return Resolver(config, tree, cluster, model, nullptr).resolve(micro, std::move(own));
}

RunLayout decided_layout(const TrainConfig& config, const YamlNode& tree, const Cluster& cluster,
                         const ModelSizes& model, const std::set<std::string>& decided,
                         std::shared_ptr<const Schedule> own) {
  return Resolver(config, tree, cluster, model, &decided).resolve(/*micro=*/1, std::move(own));
}

Schedule RunLayout::made_schedule() const {
  return own ? *own
             : make_schedule(schedule, static_cast<int>(pipeline),
                             static_cast<int>(virtual_pipeline), static_cast<int>(micro_batches));
}

}  // namespace mstrain
