// Small runs for tests.
#pragma once

#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/train/checkpoint.h"
#include "core/train/metrics_file.h"
#include "suites/all.h"
#include "suites/run/run.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain::reinforcement {

inline constexpr const char* kSmallPpo =
    "algorithm: {type: ppo, steps: 16, epochs: 2, minibatches: 2}\n"
    "environment: {name: cartpole, num_envs: 4}\n"
    "network: {hidden: [16]}\n"
    "optimizer: {type: adam, lr: 1.0e-3, clip_grad: 0.5}\n"
    "schedule: {type: linear, total_env_steps: 640}\n"
    "checkpoint: {interval: 128}\n"
    "eval: {interval: 256, episodes: 3}\n"
    "log: {interval: 64}\n";

inline void know_all() { [[maybe_unused]] static const bool kKnown = (add_all_models(), true); }

struct RunOutcome {
  Outcome outcome = Outcome::kFinished;
  std::string out;
};

inline RunOutcome run_agent(const std::string& config, const std::string& directory,
                            std::vector<std::string> changes = {}, FileSystem& files = real_files(),
                            const std::atomic<bool>* stop = nullptr,
                            const std::vector<std::string>& asked = {}) {
  know_all();
  static const std::atomic<bool> kGoesOn = false;
  YamlNode tree = parse_yaml(config, "test.yaml");
  changes.push_back("run.output_dir=" + directory);
  apply_overrides(tree, changes);
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  const auto close = [&] {
    std::fclose(out);
    std::string said(text, size);
    std::free(text);
    return said;
  };
  try {
    RunRequest request{files, tree, stop != nullptr ? *stop : kGoesOn, out};
    request.start.changes = asked;
    const Outcome outcome = mstrain::run(request);
    return {outcome, close()};
  } catch (...) {
    close();
    throw;
  }
}

// Of the newest checkpoint, by name.
inline std::string checkpoint_file(const std::string& directory, const std::string& name) {
  const std::string checkpoints = join_path(directory, "checkpoints");
  return real_files().read(join_path(
      join_path(checkpoints, checkpoint_name(list_checkpoints(real_files(), checkpoints).back())),
      name));
}

}  // namespace mstrain::reinforcement
