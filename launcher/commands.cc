#include "launcher/commands.h"

#include <fmt/core.h>

#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/train/report.h"
#include "core/train/run_directory.h"
#include "launcher/arguments.h"
#include "launcher/inspect.h"
#include "launcher/tokenize.h"
#include "launcher/version.h"
#include "suites/transformer/gpt/export.h"
#include "suites/transformer/gpt/forward.h"
#include "suites/transformer/gpt/run.h"

namespace mstrain::launcher {
namespace {

using Arguments = std::span<const std::string>;
constexpr int kDone = 0;
constexpr int kInterrupted = 130;

struct Command {
  const char* name;
  int (*run)(Arguments, const std::atomic<bool>&);
};

[[noreturn]] void usage_error(const std::string& message) { throw ConfigError(message); }

void expect_nothing(const std::vector<std::string>& rest) {
  if (!rest.empty()) {
    usage_error(fmt::format("{}: is not expected here; see mstrain --help", rest.front()));
  }
}

Option text_option(const char* name, const char* value_name, std::optional<std::string>& out) {
  return {name, value_name, [&out](const std::string& text) { out = text; }};
}

const std::string& required(const std::optional<std::string>& value, const char* what) {
  if (!value) {
    usage_error(fmt::format("{} is missing", what));
  }
  return *value;
}

int generate(Arguments arguments, const std::atomic<bool>&) {
  std::optional<std::string> checkpoint;
  gpt::GenerateRequest request;
  gpt::SamplingOptions& sampling = request.sampling;
  const std::vector<Option> options{
      text_option("--checkpoint", "DIR", checkpoint),
      text_option("--model", "DIR", checkpoint),
      {"--prompt", "TEXT", [&](const std::string& text) { request.prompts.push_back(text); }},
      {"--stop", "ID",
       [&](const std::string& text) { request.stop.push_back(integer_value("--stop", text)); }},
      {"--tokens", "N",
       [&](const std::string& text) { request.tokens = integer_value("--tokens", text); }},
      {"--greedy", "", [&](const std::string&) { sampling.greedy = true; }},
      {"--temperature", "T",
       [&](const std::string& text) {
         sampling.temperature = number_value("--temperature", text);
       }},
      {"--top-k", "K",
       [&](const std::string& text) { sampling.top_k = integer_value("--top-k", text); }},
      {"--top-p", "P",
       [&](const std::string& text) { sampling.top_p = number_value("--top-p", text); }},
      {"--seed", "S", [&](const std::string& text) {
         sampling.seed = static_cast<uint64_t>(integer_value("--seed", text));
       }}};
  expect_nothing(parse_arguments(arguments, options));
  request.checkpoint = required(checkpoint, "--checkpoint DIR");
  if (request.prompts.empty()) {
    usage_error("--prompt TEXT is missing");
  }
  if (sampling.greedy && (sampling.temperature != 1 || sampling.top_k || sampling.top_p)) {
    usage_error("--greedy: takes no --temperature, --top-k or --top-p");
  }
  if (request.tokens < 1) {
    usage_error(fmt::format("--tokens: expected at least 1, found {}", request.tokens));
  }
  try {
    gpt::check_sampling(sampling);
  } catch (const Error& error) {
    usage_error(fmt::format("--{}", error.what()));
  }
  gpt::generate(real_files(), request, stdout);
  return kDone;
}

int evaluate(Arguments arguments, const std::atomic<bool>& stop) {
  std::optional<std::string> checkpoint;
  std::optional<std::string> config;
  const std::vector<Option> options{text_option("--checkpoint", "DIR", checkpoint),
                                    text_option("--model", "DIR", checkpoint),
                                    text_option("--config", "FILE", config)};
  const std::vector<std::string> overrides = parse_arguments(arguments, options);
  const std::string folder = required(checkpoint, "--checkpoint DIR");
  FileSystem& files = real_files();
  if (!config) {
    // A run directory, a checkpoint in its folder `checkpoints`, or what `.` stands for below either.
    for (const char* above : {"", "/..", "/../.."}) {
      const std::string candidate = join_path(folder + above, kConfigFile);
      if (files.exists(candidate)) {
        config = candidate;
        break;
      }
    }
  }
  if (!config) {
    usage_error(fmt::format("--config FILE is missing: {} lies in no run directory", folder));
  }
  gpt::evaluate_checkpoint({files, load_config(*config, overrides), stop, stdout}, folder);
  return stop ? kInterrupted : kDone;
}

int forward(Arguments arguments, const std::atomic<bool>&) {
  std::optional<std::string> model;
  std::optional<std::string> input;
  std::optional<std::string> output;
  gpt::ForwardRequest request;
  const std::vector<Option> options{
      text_option("--model", "DIR", model),
      text_option("--checkpoint", "DIR", model),
      text_option("--input", "FILE", input),
      text_option("--output", "FILE", output),
      {"--grads", "", [&](const std::string&) { request.gradients = true; }}};
  expect_nothing(parse_arguments(arguments, options));
  request.model = required(model, "--model DIR");
  request.input = required(input, "--input FILE");
  request.output = required(output, "--output FILE");
  gpt::forward(real_files(), request);
  return kDone;
}

int export_weights(Arguments arguments, const std::atomic<bool>&) {
  std::optional<std::string> model;
  std::optional<std::string> output;
  const std::vector<Option> options{text_option("--checkpoint", "DIR", model),
                                    text_option("--model", "DIR", model),
                                    text_option("--output", "DIR", output)};
  expect_nothing(parse_arguments(arguments, options));
  gpt::export_model(real_files(), required(model, "--checkpoint DIR"),
                    required(output, "--output DIR"));
  return kDone;
}

int inspect(Arguments arguments, const std::atomic<bool>&) {
  const std::vector<std::string> rest = parse_arguments(arguments, {});
  if (rest.size() != 1) {
    usage_error("inspect: expected one PATH");
  }
  inspect_path(real_files(), rest.front(), stdout);
  return kDone;
}

int report(Arguments arguments, const std::atomic<bool>&) {
  std::optional<std::string> output;
  const std::vector<Option> options{text_option("--output", "FILE", output)};
  const std::vector<std::string> directories = parse_arguments(arguments, options);
  if (directories.empty()) {
    usage_error("report: expected RUN_DIR...");
  }
  // Of one run it lies in the run's directory, of several in the working directory.
  const std::string path = output                    ? *output
                           : directories.size() == 1 ? join_path(directories[0], kReportFile)
                                                     : std::string(kReportFile);
  write_file_atomic(real_files(), path, report_html(real_files(), directories));
  fmt::print("{}\n", path);
  return kDone;
}

const Command kCommands[] = {
    {"generate", generate}, {"eval", evaluate},   {"forward", forward}, {"export", export_weights},
    {"tokenize", tokenize}, {"inspect", inspect}, {"report", report}};

constexpr const char* kHelp = R"(mstrain trains models from a YAML file.

usage: mstrain --config FILE [key.path=value ...]   run what the file says (run.mode: train, eval, generate or benchmark)
               --dry-run         plan only: parameters, memory, FLOPs; computes and allocates nothing
               --plan FILE       with --dry-run: writes every kernel and buffer of the plan to FILE
               --print-config    the resolved YAML, every default filled in
       mstrain --help
       mstrain --version         version, compiler, instruction set, backends

       mstrain generate --checkpoint DIR --prompt TEXT... [--tokens N] [--stop ID...]
                        [--greedy | --temperature T --top-k K --top-p P] [--seed S]
                                 continue texts (--prompt once for each) up to an ID or the end that the model knows
       mstrain eval --checkpoint DIR [--config FILE] [key.path=value ...]
                                 loss, perplexity, bits per byte and accuracy on held-out data; without FILE, on
                                 that of the run
       mstrain forward --model DIR --input in.safetensors --output out.safetensors [--grads]
                                 a model on given tensors: input_ids, attention_mask, position_ids, labels to
                                 logits, loss and gradients
       mstrain export --checkpoint DIR --output DIR
                                 weights, configuration and tokenizer alone, for transformers
       mstrain tokenize --tokenizer X --input F --output F.bin [--format nanogpt | llmc | megatron | jsonl]
                        [--add-special]
                                 text files or JSON lines to ids; X is a tokenizer's file or folder, char or byte; an
                                 output of - is standard output; after a kill the same command goes on
       mstrain inspect PATH      what a checkpoint, safetensors file or data file holds
       mstrain report RUN_DIR... [--output FILE]
                                 one self-contained HTML page with the curves of one or several runs

DIR is a checkpoint, a run directory (its newest checkpoint) or a Hugging Face model directory. --model and --checkpoint
mean the same.
MSTRAIN_ISA=avx2|avx512|avx512_bf16|amx in the environment limits the vector instructions that are used.
Exit status: 0 done, 1 failed while running, 2 bad usage or configuration, 3 the plan does not fit, 130 interrupted.
)";

int run_config_file(Arguments arguments, const std::atomic<bool>& stop) {
  std::optional<std::string> config;
  std::optional<std::string> plan_file;
  bool is_dry = false;
  bool prints = false;
  bool helps = false;
  bool shows_version = false;
  const auto flag = [](bool& out) { return [&out](const std::string&) { out = true; }; };
  const std::vector<Option> options{text_option("--config", "FILE", config),
                                    {"--dry-run", "", flag(is_dry)},
                                    text_option("--plan", "FILE", plan_file),
                                    {"--print-config", "", flag(prints)},
                                    {"--help", "", flag(helps)},
                                    {"--version", "", flag(shows_version)}};
  const std::vector<std::string> overrides = parse_arguments(arguments, options);
  if (helps) {
    fmt::print("{}", kHelp);
    return kDone;
  }
  if (shows_version) {
    print_version(stdout);
    return kDone;
  }
  if (!config) {
    if (!overrides.empty() && overrides.front().find('=') == std::string::npos) {
      std::vector<std::string> names;
      for (const Command& command : kCommands) {
        names.push_back(command.name);
      }
      usage_error(fmt::format("{}: unknown command{}; see mstrain --help", overrides.front(),
                              did_you_mean(overrides.front(), names)));
    }
    usage_error("--config FILE is missing; see mstrain --help");
  }
  if (plan_file && !is_dry) {
    usage_error("--plan: goes with --dry-run");
  }
  const gpt::RunRequest request{real_files(), load_config(*config, overrides), stop, stdout};
  if (prints) {
    fmt::print("{}", to_yaml(gpt::resolved_config(request.files, request.tree)));
    return kDone;
  }
  if (is_dry) {
    gpt::dry_run(request, plan_file);
    return kDone;
  }
  return gpt::run(request) == Outcome::kInterrupted ? kInterrupted : kDone;
}

}  // namespace

int run_command_line(Arguments arguments, const std::atomic<bool>& stop) {
  for (const Command& command : kCommands) {
    if (!arguments.empty() && arguments.front() == command.name) {
      if (arguments.size() == 2 && arguments[1] == "--help") {
        fmt::print("{}", kHelp);
        return kDone;
      }
      return command.run(arguments.subspan(1), stop);
    }
  }
  return run_config_file(arguments, stop);
}

}  // namespace mstrain::launcher
