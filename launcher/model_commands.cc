// The commands that use a stored model.
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/missing_file.h"
#include "core/train/numbers.h"
#include "core/train/run_directory.h"
#include "launcher/commands.h"
#include "suites/run/export.h"
#include "suites/run/forward.h"
#include "suites/run/run.h"
#include "suites/run/stored_model.h"

namespace mstrain::launcher {
namespace {

constexpr const char* kModelHelp =
    "a checkpoint, a run (its newest checkpoint) or a model directory";

// None: f32.
std::optional<WeightCode> weight_code(const std::string& text) {
  const auto code = parse_weight_code(text);
  if (!code && text != "f32") {
    std::vector<std::string> known{"f32"};
    for (const WeightCode each : kAllWeightCodes) {
      known.emplace_back(name_of(each));
    }
    throw ConfigError(fmt::format("--weights: expected {}, found {}{}", fmt::join(known, ", "),
                                  text, did_you_mean(text, known)));
  }
  return code;
}

}  // namespace

int generate(const Usage& usage, Arguments arguments, const std::atomic<bool>&) {
  std::optional<std::string> checkpoint;
  std::optional<double> temperature;
  std::optional<double> length_penalty;
  GenerateRequest request;
  SamplingOptions& sampling = request.sampling;
  const std::vector<Option> options{
      text_option("--checkpoint", "DIR", checkpoint, kModelHelp),
      text_option("--model", "DIR", checkpoint, "the same"),
      {"--prompt", "TEXT", [&](const std::string& text) { request.prompts.push_back(text); },
       "a text to continue; once for each"},
      flag("--chat", request.chat,
           "answer as the model's chat template says: each --prompt, or else each line of standard "
           "input, is what a user says next"),
      text_option("--system", "TEXT", request.system, "what stands before a chat"),
      {"--stop", "ID",
       [&](const std::string& text) { request.stop.push_back(integer_value("--stop", text)); },
       "a token that ends a text, besides the model's own; once for each"},
      {"--tokens", "N",
       [&](const std::string& text) { request.tokens = integer_value("--tokens", text); },
       "at most so many more tokens (default 256)"},
      flag("--greedy", sampling.greedy, "always the most likely token"),
      {"--temperature", "T",
       [&](const std::string& text) { temperature = number_value("--temperature", text); },
       "logits are divided by it (default 1); 0: the most likely token"},
      {"--top-k", "K",
       [&](const std::string& text) { sampling.top_k = integer_value("--top-k", text); },
       "only of the K most likely tokens"},
      {"--top-p", "P",
       [&](const std::string& text) { sampling.top_p = number_value("--top-p", text); },
       "only of the fewest tokens whose probabilities sum up to P"},
      {"--min-p", "P",
       [&](const std::string& text) { sampling.min_p = number_value("--min-p", text); },
       "only of tokens with P times the probability of the likeliest"},
      {"--beams", "N",
       [&](const std::string& text) { request.beams.beams = integer_value("--beams", text); },
       "of a T5: the best text that a search with N beams finds, instead of drawing"},
      {"--length-penalty", "P",
       [&](const std::string& text) { length_penalty = number_value("--length-penalty", text); },
       "of that search: log-probabilities are divided by the length to the power of P (default 1)"},
      {"--seed", "S",
       [&](const std::string& text) {
         const int64_t seed = integer_value("--seed", text);
         if (seed < 0) {
           throw ConfigError("--seed: expected at least 0, found " + text);
         }
         sampling.seed = static_cast<uint64_t>(seed);
       },
       "of the draws (default 0)"},
      {"--weights", "KIND", [&](const std::string& text) { request.weights = weight_code(text); },
       "how weights are kept: f32 (default), bf16, int8 or nf4 (blocks of 8 or 4 bits)"}};
  if (!parse_options(usage, arguments, options)) {
    return kDone;
  }
  request.checkpoint = required(checkpoint, "--checkpoint DIR");
  if (request.prompts.empty() && !request.chat) {
    throw ConfigError("--prompt TEXT is missing");
  }
  if (request.system && !request.chat) {
    throw ConfigError("--system: belongs to --chat");
  }
  if (request.chat && request.beams.beams > 1) {
    throw ConfigError("--chat: takes no --beams");
  }
  const bool draws = temperature || sampling.top_k || sampling.top_p || sampling.min_p;
  if (sampling.greedy && draws) {
    throw ConfigError("--greedy: takes no --temperature, --top-k, --top-p or --min-p");
  }
  if (request.beams.beams > 1 && (sampling.greedy || draws)) {
    throw ConfigError("--beams: takes no --greedy, --temperature, --top-k, --top-p or --min-p");
  }
  if (length_penalty && request.beams.beams == 1) {
    throw ConfigError("--length-penalty: goes with --beams");
  }
  request.beams.length_penalty = length_penalty.value_or(1);
  if (request.tokens < 1) {
    throw ConfigError(fmt::format("--tokens: expected at least 1, found {}", request.tokens));
  }
  if (temperature == 0.0) {
    sampling.greedy = true;
  } else {
    sampling.temperature = temperature.value_or(1);
  }
  try {
    check_sampling(sampling);
    check_beams(request.beams);
  } catch (const Error& error) {
    throw ConfigError(fmt::format("--{}", error.what()));
  }
  if (request.chat) {
    chat(real_files(), request, stdin, stdout);
  } else {
    mstrain::generate(real_files(), request, stdout);
  }
  return kDone;
}

int evaluate(const Usage& usage, Arguments arguments, const std::atomic<bool>& stop) {
  std::optional<std::string> checkpoint;
  std::optional<std::string> config;
  const std::vector<Option> options{
      text_option("--checkpoint", "DIR", checkpoint, kModelHelp),
      text_option("--model", "DIR", checkpoint, "the same"),
      text_option("--config", "FILE", config, "names the data; without it those of the run")};
  const auto overrides = parse_arguments(usage, arguments, options);
  if (!overrides) {
    return kDone;
  }
  warn_of_repeated(*overrides);
  for (const std::string& override : *overrides) {
    if (override.starts_with("model.")) {
      throw ConfigError(fmt::format(
          "{}: the model is the checkpoint's; data, batch and precision may be other ones",
          override.substr(0, override.find('='))));
    }
  }
  const std::string folder = required(checkpoint, "--checkpoint DIR");
  FileSystem& files = real_files();
  check_exists(files, folder);
  // A run directory, a checkpoint in its folder `checkpoints`, or what `.` stands for below either.
  std::optional<std::string> home;
  for (const char* above : {"", "/..", "/../.."}) {
    if (!home && files.exists(join_path(folder + above, kConfigFile))) {
      home = folder + above;
    }
  }
  if (!config && home) {
    config = join_path(*home, kConfigFile);
  }
  if (!config) {
    find_checkpoint(files, folder);  // says what else it is
    throw ConfigError(fmt::format("--config FILE is missing: {} lies in no run directory", folder));
  }
  YamlNode tree = load_config(*config);
  std::erase_if(tree.children, [](const YamlNode& section) {
    return section.key == "parallel";  // of the ranks that train; this is one
  });
  // What a training run needs memory for, such as the rows of a batch that each of its ranks holds, is not needed here.
  set_config(tree, "run.mode", YamlNode::string("eval"));
  if (home) {  // where what lies beside checkpoints is, however the run was called then
    set_config(tree, "run.output_dir", YamlNode::string(*home));
  }
  apply_overrides(tree, *overrides);
  evaluate_checkpoint({files, tree, stop, stdout}, folder);
  return stop ? kInterrupted : kDone;
}

int forward(const Usage& usage, Arguments arguments, const std::atomic<bool>&) {
  std::optional<std::string> model;
  std::optional<std::string> input;
  std::optional<std::string> output;
  ForwardRequest request;
  const std::vector<Option> options{
      text_option("--model", "DIR", model, kModelHelp),
      text_option("--checkpoint", "DIR", model, "the same"),
      text_option("--input", "FILE", input, "safetensors: input_ids, attention_mask, labels, ..."),
      text_option("--output", "FILE", output, "safetensors: logits, loss"),
      flag("--grads", request.gradients, "and a gradient for each parameter")};
  if (!parse_options(usage, arguments, options)) {
    return kDone;
  }
  request.model = required(model, "--model DIR");
  request.input = required(input, "--input FILE");
  request.output = required(output, "--output FILE");
  mstrain::forward(real_files(), request);
  return kDone;
}

int export_weights(const Usage& usage, Arguments arguments, const std::atomic<bool>&) {
  std::optional<std::string> model;
  std::optional<std::string> output;
  ExportOptions how;
  const std::vector<Option> options{
      text_option("--checkpoint", "DIR", model, kModelHelp),
      text_option("--model", "DIR", model, "the same"),
      text_option("--output", "DIR", output, "a new folder, or an empty one"),
      text_option(
          "--since", "DIR", how.since,
          "of a recommender: an earlier checkpoint of the run, after which rows have learned"),
      flag("--merge", how.merges, "of an adapter: whole weights, with what it adds")};
  if (!parse_options(usage, arguments, options)) {
    return kDone;
  }
  FileSystem& files = real_files();
  const std::string& folder = required(output, "--output DIR");
  export_model(files, required(model, "--checkpoint DIR"), folder, how);
  for (const std::string& name : files.list(folder)) {
    const std::string path = join_path(folder, name);
    fmt::print("{}: {} bytes\n", path, grouped(static_cast<int64_t>(files.file_size(path))));
  }
  return kDone;
}

}  // namespace mstrain::launcher
