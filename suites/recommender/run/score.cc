#include "suites/recommender/run/score.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <future>

#include "core/base/error.h"
#include "core/base/same_file.h"
#include "core/base/thread_pool.h"
#include "core/io/atomic_file.h"
#include "core/train/loss_program.h"
#include "core/train/run_directory.h"
#include "suites/recommender/run/recommender_run.h"
#include "suites/run/stored_model.h"

namespace mstrain::recommender {
namespace {

constexpr int64_t kMostAtOnce = 4096;  // samples: more are no faster, and take memory

int score(const Usage& usage, Arguments arguments, const std::atomic<bool>& stop) {
  std::optional<std::string> checkpoint, input, output;
  const Option options[] = {
      text_option("--checkpoint", "DIR", checkpoint, "a checkpoint, or a run: its newest one"),
      text_option("--input", "FILE", input, "samples, in the columns of the run's data"),
      text_option("--output", "FILE", output, "gets a line for each: the probability of label 1")};
  if (!parse_options(usage, arguments, options)) {
    return kDone;
  }
  FileSystem& files = real_files();
  const StoredModel stored = open_model(files, required(checkpoint, "--checkpoint"));
  const std::string path = required(input, "--input");
  const std::string to = required(output, "--output");
  refuse_same_file(path, to, "--output");
  if (const std::string folder = std::filesystem::absolute(to).parent_path().string();
      !files.is_directory(folder)) {
    throw ConfigError(fmt::format("--output: {}: there is no folder {}", to, folder));
  }
  const auto [run, tree] = run_of_checkpoint(stored);
  run->open_to_score(files, tree, path, stored.folder);
  const Context context = make_context(run->train);
  const ContextScope scope(context);
  const TrainTask task = run->task();
  const TrainData data = run->samples(Json::object());
  read_outside(files, stored.folder, *data.outside);
  const int64_t rows =
      std::min(run->train.batch.micro.value_or(run->train.batch.global), kMostAtOnce);
  const LossProgram program(task, run->train, rows, context);
  const Params params = load_params(files, stored);
  const int64_t total = data.evaluation.at(0).total;
  const auto batches = data.evaluation[0].first(BatchPart(rows), total);
  ThreadPool reader(1);  // after what it uses
  const auto read = [&] {
    return reader.submit([&] {
      const ContextScope own(context);
      return batches->next();
    });
  };
  std::future<Tensors> coming = read();
  std::string text = "probability\n";
  for (int64_t first = 0; first < total; first += rows) {
    if (stop) {
      return kInterrupted;
    }
    const Tensors batch = coming.get();
    if (first + rows < total) {
      coming = read();  // while this one is computed
    }
    const std::vector<double> scores = program.run(params, batch).at(0).scores;
    for (int64_t i = 0; i < std::min(rows, total - first); ++i) {
      text += probability_line(scores[static_cast<size_t>(i)]);
    }
  }
  write_file_atomic(files, to, text);
  fmt::print("{}: {} predictions\n", to, total);
  return kDone;
}

}  // namespace

std::string probability_line(double log_odds) {
  return fmt::format("{}\n", 1 / (1 + std::exp(-log_odds)));
}

Command score_command() {
  return {{"score", "--checkpoint DIR --input FILE --output FILE",
           "what a recommender predicts of the samples of a file"},
          score};
}

}  // namespace mstrain::recommender
