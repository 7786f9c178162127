// What the configuration of a recommender cannot say.
#include <fmt/ranges.h>

#include <algorithm>

#include "core/runtime/context.h"
#include "suites/recommender/run/recommender_run.h"

namespace mstrain::recommender {
namespace {

// A section as it is given, and as it is where it says nothing.
struct Said {
  std::string section;
  YamlNode given;
  std::vector<YamlNode> usual;
};

std::string kind_of(const Said& said) { return said.given.find("kind")->text; }

// Throws where a key that nobody reads says anything else than the default.
void expect_default(const YamlNode& tree, const Said& said, std::string_view key,
                    const std::string& why) {
  if (std::ranges::none_of(said.usual, [&](const YamlNode& usual) {
        return to_flow(*said.given.find(key)) == to_flow(*usual.find(key));
      })) {
    config_fail(tree, fmt::format("{}.{}", said.section, key),
                fmt::format("has no effect {}", why));
  }
}

// `readers`: the kinds that read the key.
void expect_read(const YamlNode& tree, const Said& said, std::string_view key,
                 const std::vector<std::string>& readers) {
  if (const std::string kind = kind_of(said); std::ranges::find(readers, kind) == readers.end()) {
    expect_default(tree, said, key,
                   fmt::format("with {}.kind: {}; {} read{} it", said.section, kind,
                               fmt::join(readers, ", "), readers.size() == 1 ? "s" : ""));
  }
}

void check_optimizer(const YamlNode& tree, const Said& said) {
  expect_read(tree, said, "beta1", {"lazy_adam"});
  expect_read(tree, said, "beta2", {"lazy_adam"});
  expect_read(tree, said, "eps", {"lazy_adam", "adagrad", "rowwise_adagrad"});
  expect_read(tree, said, "l1", {"ftrl"});
  expect_read(tree, said, "initial_accumulator", {"ftrl", "adagrad", "rowwise_adagrad"});
}

void check_unread(const YamlNode& tree, const EmbeddingConfig& config) {
  const EmbeddingConfig usual;
  const auto said = [](const char* section, const auto& given, const auto& own_usual) {
    using Section = std::decay_t<decltype(given)>;
    return Said{section, write_config(given), {write_config(own_usual), write_config(Section())}};
  };
  check_optimizer(tree, said("embedding.optimizer", config.optimizer, usual.optimizer));
  check_optimizer(tree,
                  said("embedding.wide_optimizer", config.wide_optimizer, usual.wide_optimizer));
  const std::vector<std::string> scaled{"normal", "uniform", "constant"};
  expect_read(tree, said("embedding.init", config.init, usual.init), "scale", scaled);
  expect_read(tree, said("embedding.wide_init", config.wide_init, usual.wide_init), "scale",
              scaled);
  const Said admission = said("embedding.admission", config.admission, usual.admission);
  expect_read(tree, admission, "count", {"count", "bloom"});
  expect_read(tree, admission, "probability", {"probability"});
  expect_read(tree, admission, "bloom_counters", {"bloom"});
  expect_read(tree, admission, "window_steps", {"count", "bloom"});
  const Said eviction = said("embedding.eviction", config.eviction, usual.eviction);
  if (config.eviction.ttl_steps == 0) {
    expect_default(tree, eviction, "min_keep_rows", "without embedding.eviction.ttl_steps");
  }
  if (config.eviction.max_rows == 0) {
    expect_default(tree, eviction, "score", "without embedding.eviction.max_rows");
  }
  if (!config.forgets()) {
    expect_default(tree, said("embedding", config, usual), "evict_every",
                   "without embedding.eviction.ttl_steps or max_rows");
  }
}

}  // namespace

void RecommenderRun::check(const YamlNode& tree) const {
  if (lora) {
    config_fail(tree, "model.lora", "a recommender has no adapters");
  }
  if (!train.eval.prompts.empty()) {
    config_fail(tree, "eval.prompts", "a recommender writes no text");
  }
  if (train.run.mode == RunMode::kGenerate) {
    config_fail(tree, "run.mode", "a recommender writes no text; mstrain score predicts");
  }
  check_only_data(train.parallel, tree, "a recommender's ranks share batches and tables");
  check_batch_norm(tree);
  check_rows(tree);
  check_unread(tree, embedding);
  check_data_config(data, tree);
}

void RecommenderRun::check_rows(const YamlNode& tree) const {
  using embedding_cache::AdmissionKind;
  using embedding_cache::OptimizerKind;
  if (!cache.device_rows.is_word() && cache.device_rows != 0 && train.run.device == "cpu" &&
      default_device()->is_host()) {
    config_fail(tree, "embedding_cache.device_rows",
                fmt::format("{}, but run.device: cpu has no memory beside the host's; "
                            "embedding_cache.host_rows are rows there, or run.device: cuda",
                            *cache.device_rows.value));
  }
  for (const auto& [key, optimizer] :
       {std::pair("embedding.optimizer.l2_of", &embedding.optimizer),
        std::pair("embedding.wide_optimizer.l2_of", &embedding.wide_optimizer)}) {
    if (!optimizer->learns_always()) {
      continue;
    }
    if (optimizer->kind == OptimizerKind::kFtrl) {
      config_fail(
          tree, key,
          "table, but ftrl's l2 is part of what makes a weight of its sums, whichever batch "
          "holds it; leave it at batch, or use lazy_adam, adagrad, rowwise_adagrad or sgd");
    }
    if (embedding.admission.kind != AdmissionKind::kNone) {
      config_fail(
          tree, key,
          "table, but embedding.admission turns rows away, which would learn later from steps "
          "at which they were none; use l2_of: batch, or embedding.eviction");
    }
    if (!cache.device_rows.is_word() && cache.device_rows != 0) {
      config_fail(tree, "embedding_cache.device_rows",
                  fmt::format("{}, but with {}: table rows learn at steps that do not hold them, "
                              "which they go through in host memory; use 0, or l2_of: batch",
                              *cache.device_rows.value, key));
    }
  }
}

// What is learned depends on how samples are normalised together: nothing else than the configuration decides it.
void RecommenderRun::check_batch_norm(const YamlNode& tree) const {
  const auto& [key, config] = tower();
  if (!config.batch_norm) {
    return;
  }
  const AutoOr<int64_t>& micro = train.batch.micro;
  if (micro.is_word()) {
    config_fail(tree, "batch.micro",
                fmt::format("auto, but {}.batch_norm needs a number, whatever the memory of the "
                            "machine is: {} or a part of it",
                            key, train.batch.global));
  }
  const int64_t together = *micro.value / train.parallel.copies;
  const int64_t samples = config.batch_norm->samples.value_or(together);
  if (together < 2 || together % samples != 0) {
    config_fail(tree, key + ".batch_norm.samples",
                fmt::format("{} do not make up the {} samples that are computed together "
                            "(batch.micro {}, parallel.copies {})",
                            samples, together, *micro.value, train.parallel.copies));
  }
}

}  // namespace mstrain::recommender
