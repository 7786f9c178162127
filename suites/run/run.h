// What a configuration or a command asks of a model: the layer between the command line and the trainer. Results go to
// `out`, messages to core/base/log.h.
#pragma once

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/base/yaml.h"
#include "core/comm/communicator.h"
#include "core/ops/weight_code.h"
#include "core/train/session.h"
#include "suites/run/beam_search.h"
#include "suites/run/sampling.h"

namespace mstrain {

struct RunRequest {
  FileSystem& files;
  YamlNode tree;  // the configuration as it was given
  const std::atomic<bool>& stop;
  std::FILE* out;
  SessionStart start{};
  // The ranks that share the run, in which every wait may last so long; empty: there are no others. All of them ask for the
  // same.
  std::function<std::unique_ptr<Communicator>(double timeout_s)> world{};
};

// Trains one run, whatever sweep it is of; `more` are told of it too. As train().
SessionResult train_model(const RunRequest& request, const std::vector<Callback*>& more = {});

// Throws ConfigError where so many ranks cannot share the run that `tree` describes.
void check_many_ranks(FileSystem& files, const YamlNode& tree, int64_t ranks);

// run.mode, or all runs of a sweep. Ranks but the first keep logs of their own, in the run's directory. Throws PlanError, whose message names changes that would fit, where the plan does not.
Outcome run(const RunRequest& request);

struct DryRun {
  std::optional<std::string> plan_file;  // gets every step of the plan
  bool offline = false;                  // opens neither data nor tokenizer nor weights
};
// Of a sweep prints which runs there will be, and looks at the first of them. Prints the plan; then warns of what the run
// would stumble over, and throws PlanError where the plan does not fit and ConfigError where the model has fewer tokens than
// the tokenizer.
void dry_run(const RunRequest& request, const DryRun& options);

// The configuration with every default filled in, and `model` from model.init.from.
YamlNode resolved_config(FileSystem& files, const YamlNode& tree);

// The keys that configurations of the kind of `tree` may have, which its model.type or algorithm.type says; nothing else of it is read.
std::vector<ConfigKeyDoc> keys_of(const YamlNode& tree);

struct GenerateRequest {
  std::string checkpoint;  // or a run, or a Hugging Face model directory
  std::vector<std::string> prompts;
  int64_t tokens = 256;  // at most
  SamplingOptions sampling;
  BeamOptions beams;          // more than one: instead of sampling
  std::vector<int64_t> stop;  // ids that end a text, besides eos_token_id of the model's files
  std::optional<WeightCode> weights = {};  // what they are kept in; none: f32
  bool chat = false;                       // prompts are what a user says, one after the other
  std::optional<std::string> system;       // what stands before a chat
};
// Prints a single prompt and what follows as it comes; of several, each with what follows when all are done.
void generate(FileSystem& files, const GenerateRequest& request, std::FILE* out);

// Answers the prompts in turn, or, where there are none, the lines of `in`, each to its end as it comes; remembers what was
// said, as far as the model's positions allow. Where `in` is a terminal it asks for lines, and knows /reset and /system.
void chat(FileSystem& files, const GenerateRequest& request, std::FILE* in, std::FILE* out);

// Evaluates a checkpoint on the held-out data that `tree` names.
void evaluate_checkpoint(const RunRequest& request, const std::string& checkpoint);

}  // namespace mstrain
