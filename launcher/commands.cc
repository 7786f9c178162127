#include "launcher/commands.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <tuple>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/processors.h"
#include "core/base/yaml_scalar.h"
#include "core/train/parallel_config.h"
#include "launcher/inspect.h"
#include "launcher/rank.h"
#include "launcher/start_ranks.h"
#include "launcher/version.h"
#include "suites/run/run.h"

namespace mstrain::launcher {
namespace {

// Before those that suites add.
const Command kOwnCommands[] = {
    {{"generate",
      "--checkpoint DIR --prompt TEXT [--prompt TEXT ...] [--chat [--system TEXT]]\n"
      "    [--tokens N] [--stop ID ...] [--greedy | --temperature T --top-k K --top-p P --min-p "
      "P]\n"
      "    [--beams N [--length-penalty P]] [--seed S] [--weights f32|bf16|int8|nf4]",
      "continue texts, or answer in a chat, up to an ID or the end that the model knows"},
     generate},
    {{"eval", "--checkpoint DIR [--config FILE] [key.path=value ...]",
      "loss, perplexity, bits per byte and accuracy on held-out data; without FILE, on that of the "
      "run"},
     evaluate},
    {{"forward", "--model DIR --input in.safetensors --output out.safetensors [--grads]",
      "a model on given tensors: input_ids, attention_mask, position_ids, labels to logits, loss "
      "and gradients"},
     forward},
    {{"export", "--checkpoint DIR --output DIR [--merge] [--since DIR]",
      "weights, configuration and tokenizer alone, for transformers; of an adapter itself, for "
      "PEFT, "
      "or with what it adapts"},
     export_weights},
    {{"tokenize",
      "--tokenizer X --input F [--input F ...] --output F.bin\n"
      "    [--format nanogpt | llmc | megatron | jsonl] [--add-special] [--binary]",
      "text files or JSON lines to ids; after a kill the same command goes on"},
     tokenize},
    {{"inspect", "PATH", "what a run, checkpoint, tokenizer, safetensors file or data file holds"},
     inspect},
    {{"keys", "[--config FILE] [key.path=value ...] [NAME ...]",
      "the keys of a configuration with their meaning, values and defaults: all, or those of the "
      "sections and keys NAME; of a GPT, or of the model.type or algorithm.type that is given"},
     keys},
    {{"plan",
      "--config FILE --cluster FILE|here [--ranks N] [key.path=value ...] [--json] [--top N]\n"
      "    [--write-plan FILE] [--write-schedule FILE] [--write-cluster FILE]",
      "memory, time and layout of a run on machines that a file describes, or on this one; "
      "parallel.plan=auto looks for the best layout"},
     plan},
    {{"report", "RUN_DIR... [--output FILE]",
      "one self-contained HTML page with the curves of one or several runs, or of a sweep"},
     report},
    {{"watch", "FOLDER [--port N]",
      "the same page, live, with all runs of a folder: http://127.0.0.1:6007/, for this machine "
      "alone"},
     watch}};

std::vector<Command> all_commands() {
  std::vector<Command> all(std::begin(kOwnCommands), std::end(kOwnCommands));
  all.insert(all.end(), added_commands().begin(), added_commands().end());
  return all;
}

constexpr const char* kAbout = R"(mstrain trains models from a YAML file.

usage: mstrain --config FILE [--ranks N] [key.path=value ...]
           run what the file says (run.mode: train, eval, generate, benchmark or find_lr)
       mstrain COMMAND ...
           mstrain COMMAND --help says more

)";

constexpr const char* kNotes = R"(
DIR is a checkpoint, a run directory (its newest checkpoint), a Hugging Face model directory or an adapter's. --model and --checkpoint
mean the same.
MSTRAIN_ISA=avx2|avx512|avx512_bf16|amx in the environment limits the vector instructions that are used.
Exit status: 0 done, 1 failed while running, 2 bad usage or configuration, or a file that is not there, 3 the plan does not fit,
130 interrupted.
)";

void print_help(std::span<const Option> options) {
  fmt::print("{}{}\ncommands\n", kAbout, describe(options));
  for (const Command& command : all_commands()) {
    fmt::print("  {} {}\n      {}\n", command.usage.name, command.usage.synopsis,
               command.usage.about);
  }
  fmt::print("{}", kNotes);
}

// The key of a change.
std::string key_of_change(const std::string& text) {
  std::string key = text.substr(0, text.find('='));
  if (key.size() == text.size()) {
    throw ConfigError(fmt::format("--change: expected KEY=VALUE, found {}", text));
  }
  return key;
}

// Throws ConfigError for a key of `tree` that a run cannot change, or that there is not.
void check_changes(const std::vector<std::string>& keys, const YamlNode& tree) {
  for (const std::string& key : keys) {
    if (may_change(key) == Changing::kNever) {
      resolved_config(real_files(), tree);  // knows which keys there are
      throw ConfigError(fmt::format("--change: {} cannot change while a run goes on; {} can", key,
                                    changeable_keys()));
    }
  }
}

// A first word that is no option and no key=value: a command, misspelt, or a file.
void check_not_a_command(Arguments arguments) {
  if (arguments.empty() || arguments.front().starts_with('-') ||
      arguments.front().find('=') != std::string::npos || asks_for_help(arguments)) {
    return;
  }
  const std::string& word = arguments.front();
  std::vector<std::string> names;
  for (const Command& command : all_commands()) {
    names.emplace_back(command.usage.name);
  }
  const std::string meant = did_you_mean(word, names);
  throw ConfigError(fmt::format("{}: unknown command{}; see mstrain --help", word,
                                !meant.empty() ? meant
                                : real_files().exists(word)
                                    ? fmt::format("; did you mean --config {}?", word)
                                    : "; a configuration is run by --config FILE"));
}

// The ranks that a run was asked to have; those that there are, where it is one of them.
int asked_ranks(const std::optional<int64_t>& asked, const std::optional<int64_t>& restarts,
                const Rank& rank) {
  if (restarts && !asked) {
    throw ConfigError("--restarts: goes with --ranks");
  }
  for (const auto& [name, value, least] :
       {std::tuple("--ranks", asked, 1), std::tuple("--restarts", restarts, 0)}) {
    if (value && (*value < least || *value > 100000)) {
      throw ConfigError(fmt::format("{}: expected {} to 100000, found {}", name, least, *value));
    }
  }
  if (rank.was_started_here()) {
    return rank.ranks();
  }
  if (rank.is_alone()) {
    return static_cast<int>(asked.value_or(1));
  }
  if (asked && *asked != rank.ranks()) {
    throw ConfigError(fmt::format(
        "--ranks: {0}, but {1} processes were started together; leave it out, or start {0}", *asked,
        rank.ranks()));
  }
  return rank.ranks();
}

// A number that the configuration gives; nothing where it is a word or left out.
std::optional<double> given_number(const YamlNode& tree, std::string_view wanted) {
  for (const auto& [key, value] : flatten_config(tree)) {
    if (key == wanted) {
      return yaml_scalar::parse_double(value);
    }
  }
  return std::nullopt;
}

// Of each of so many ranks that share so many processors.
int64_t threads_of_ranks(const YamlNode& tree, int ranks, int processors) {
  return static_cast<int64_t>(
      given_number(tree, "run.threads").value_or(std::max(1, processors / ranks)));
}

// Once for all ranks.
void tell_oversubscribed(const YamlNode& tree, const RankPlace& place) {
  const int processors = shared_processors();
  const int64_t threads = threads_of_ranks(tree, place.ranks_here, processors);
  if (place.ranks_here * threads > processors) {
    log_warning("oversubscribed: {} ranks with {} thread{} each take turns on {} processor{}",
                place.ranks_here, threads, threads == 1 ? "" : "s", processors,
                processors == 1 ? "" : "s");
  }
}

// For what ranks but the first would print.
std::FILE* nowhere() {
  std::FILE* out = std::fopen("/dev/null", "w");
  check(out != nullptr, "/dev/null: cannot be opened");
  return out;
}

int start_job(int ranks, int64_t restarts, Arguments arguments, const YamlNode& tree,
              const std::atomic<bool>& stop) {
  check_many_ranks(real_files(), tree, ranks);
  const int processors = processors_here();
  if (ranks * threads_of_ranks(tree, ranks, processors) > processors) {
    // Threads that wait leave the processor to those that they wait for.
    setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  }
  return start_ranks({ranks,
                      static_cast<int>(restarts),
                      given_number(tree, "parallel.timeout_s").value_or(ParallelConfig().timeout_s),
                      {arguments.begin(), arguments.end()},
                      [&](int fewer) {
                        try {
                          check_many_ranks(real_files(), tree, fewer);
                          return true;
                        } catch (const ConfigError&) {
                          return false;
                        }
                      }},
                     stop);
}

int run_config_file(Arguments arguments, const std::atomic<bool>& stop, Rank& rank) {
  std::optional<std::string> config;
  bool is_dry = false;
  DryRun dry;
  SessionStart start;
  start.with_defaults = [](const YamlNode& before) {
    return resolved_config(real_files(), before);
  };
  std::vector<std::string> changes;
  bool prints = false;
  bool shows_version = false;
  std::optional<int64_t> asked, restarts;
  const std::vector<Option> options{
      text_option("--config", "FILE", config, "the configuration"),
      {"--change", "KEY=VALUE", [&](const std::string& text) { changes.push_back(text); },
       "a run that goes on does so with another value: of the optimizer, schedule, batch or data"},
      flag("--restart", start.restart, "begin anew: what an earlier run wrote is removed"),
      {"--ranks", "N", [&](const std::string& text) { asked = integer_value("--ranks", text); },
       "so many processes of this machine share the run, started by mpirun"},
      {"--restarts", "N",
       [&](const std::string& text) { restarts = integer_value("--restarts", text); },
       "with --ranks: where a rank died or hung, all begin again from the newest checkpoint, so "
       "many times at most"},
      flag("--dry-run", is_dry,
           "plan only: parameters, memory, FLOPs; and look at what the run will open"),
      flag("--offline", dry.offline, "with --dry-run: look at nothing"),
      text_option("--plan", "FILE", dry.plan_file,
                  "with --dry-run: writes every kernel and buffer of the plan to FILE"),
      flag("--print-config", prints, "the resolved YAML, every default filled in"),
      flag("--version", shows_version, "version, compiler, instruction set, backends")};
  if (asks_for_help(arguments)) {
    if (rank.is_first()) {
      print_help(options);
    }
    return kDone;
  }
  auto overrides = parse_arguments({"", "", ""}, arguments, options);
  if ((shows_version || prints || is_dry) && !rank.is_first()) {
    return kDone;
  }
  if (shows_version) {
    print_version(stdout);
    return kDone;
  }
  if (!config) {
    throw ConfigError("--config FILE is missing; see mstrain --help");
  }
  if (!is_dry && (dry.plan_file || dry.offline)) {
    throw ConfigError(
        fmt::format("{}: goes with --dry-run", dry.plan_file ? "--plan" : "--offline"));
  }
  const int ranks = asked_ranks(asked, restarts, rank);
  if (is_dry && rank.is_alone() && ranks > 1) {
    throw ConfigError(
        fmt::format("--dry-run: starts no ranks; parallel.data={0}, or distribution.actors={0} for "
                    "an agent, plans for one of them; parallel.data, tensor, pipeline and context, "
                    "where more than one is said, make up {0} together",
                    ranks));
  }
  if (rank.is_first() && !rank.was_started_here()) {
    warn_of_repeated(*overrides);
  }
  for (const std::string& change : changes) {
    start.changes.push_back(key_of_change(change));
    overrides->push_back(change);
  }
  start.command = {"mstrain"};
  start.command.insert(start.command.end(), arguments.begin(), arguments.end());
  if (!rank.is_alone() && !prints && !is_dry) {
    rank.join();
  }
  RunRequest request{real_files(), load_config(*config, *overrides), stop, stdout,
                     std::move(start)};
  check_changes(request.start.changes, request.tree);
  if (prints) {
    fmt::print("{}", to_yaml(resolved_config(request.files, request.tree)));
    return kDone;
  }
  if (is_dry) {
    dry_run(request, dry);
    return kDone;
  }
  if (!rank.was_started_here() && rank.is_alone() && (ranks > 1 || restarts.value_or(0) > 0)) {
    return start_job(ranks, restarts.value_or(0), arguments, request.tree, stop);
  }
  request.start.cleared = [&rank] { rank.cleared(); };
  if (!rank.is_alone()) {
    request.world = [&rank](double timeout_s) { return rank.world(timeout_s); };
    if (rank.is_first()) {
      tell_oversubscribed(request.tree, rank.place());
    } else {
      request.out = nowhere();
    }
  }
  return run(request) == Outcome::kInterrupted ? kInterrupted : kDone;
}

}  // namespace

int inspect(const Usage& usage, Arguments arguments, const std::atomic<bool>&) {
  const auto rest = parse_arguments(usage, arguments, {});
  if (!rest) {
    return kDone;
  }
  if (rest->size() != 1) {
    throw ConfigError("inspect: expected one PATH");
  }
  inspect_path(real_files(), rest->front(), stdout);
  return kDone;
}

int run_command_line(Arguments arguments, const std::atomic<bool>& stop, Rank& rank) {
  for (const Command& command : all_commands()) {
    if (!arguments.empty() && arguments.front() == command.usage.name) {
      return !rank.is_first() ? kDone : command.run(command.usage, arguments.subspan(1), stop);
    }
  }
  check_not_a_command(arguments);
  return run_config_file(arguments, stop, rank);
}

}  // namespace mstrain::launcher
