// How long training waits for a checkpoint, written beside it and while it waits, against the disk alone: runs of a GPT on
// random tokens that take turns.
//
//   bench_checkpoint FOLDER [layers] [width] [rounds]
//
// The folder decides which disk is measured. Each run makes 3 * kInterval steps and saves twice between them; the first
// pause of a run beside training also touches the memory of the copy for the first time.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/base/config.h"
#include "core/base/rng.h"
#include "core/tensor/host.h"
#include "core/train/saver.h"
#include "core/train/session.h"
#include "suites/transformer/gpt/gpt_run.h"

namespace mstrain {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kInterval = 12;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

class RandomTokens final : public BatchStream {
 public:
  RandomTokens(int64_t rows, int64_t seq, int64_t vocab) : rows_(rows), seq_(seq), vocab_(vocab) {}
  Tensors next() override {
    std::vector<int32_t> ids(static_cast<size_t>(rows_ * seq_));
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(rng_.below(static_cast<uint64_t>(vocab_)));
    }
    samples_ += rows_;
    const Tensor tokens = tensor<int32_t>(ids, {rows_, seq_});
    return {tokens, tokens};
  }
  int64_t samples() const override { return samples_; }

 private:
  int64_t rows_, seq_, vocab_, samples_ = 0;
  Rng rng_{7};
};

// The saver, and how long each of its calls between two steps takes.
class TimedSaver final : public Callback {
 public:
  explicit TimedSaver(Saver& saver) : saver_(saver) {}
  void on_start(Trainer& trainer) override { saver_.on_start(trainer); }
  void on_step(Trainer& trainer, const StepMetrics& metrics) override {
    saver_.on_step(trainer, metrics);
    (saves_ == 0 ? before : after).push_back(metrics.seconds);
  }
  bool wants(int64_t step, Moment moment) override {
    return moment == Moment::kStep && saver_.wants(step, moment);
  }
  void on_state(Trainer& trainer, Moment moment) override {
    const auto begin = Clock::now();
    saver_.on_state(trainer, moment);
    pauses.push_back(seconds_since(begin));
    ++saves_;
    saved_ = Clock::now();
  }
  void on_save(Trainer&, int64_t, const std::string&) override { written = seconds_since(saved_); }
  void on_stop(Trainer& trainer) override { saver_.on_stop(trainer); }

  std::vector<double> pauses;  // seconds
  std::vector<double> before;  // steps up to the first save
  std::vector<double> after;   // and while something is written
  double written = 0;          // from the last pause's end to its checkpoint's

 private:
  Saver& saver_;
  int saves_ = 0;
  Clock::time_point saved_;
};

struct Setting {
  gpt::GptRun config;
  TrainTask task;
  TrainData data;
  std::string folder;
};

struct Pauses {
  double first = 0, later = 0;
  double step_before = 0, step_after = 0;
  double written = 0;
};

Pauses run_once(const Setting& setting, const StepProgram& program, bool asynchronous) {
  FileSystem& files = real_files();
  files.remove_all(setting.folder);
  const RunDirectory directory(files, setting.folder);
  const TrainConfig& config = setting.config.train;
  Trainer trainer(setting.task, setting.data, config, program);
  trainer.start(1, config.batch.global);
  MetricsLog log(directory, config, Units(), 0);
  Saver saver(directory, config, log, asynchronous, 0);
  TimedSaver timed(saver);
  const std::atomic<bool> never = false;
  trainer.run({&log, &timed}, never);
  return {timed.pauses.front(), timed.pauses.back(), median(timed.before), median(timed.after),
          timed.written};
}

// Writes and syncs `bytes` into one file, as fast as the disk goes.
double disk_seconds(const std::string& folder, int64_t bytes) {
  const std::string path = join_path(folder, "raw");
  std::vector<std::byte> block(size_t{16} << 20);
  Rng rng(3);
  for (size_t i = 0; i + 8 <= block.size(); i += 8) {
    const uint64_t word = rng.next_u64();
    std::memcpy(block.data() + i, &word, 8);
  }
  const auto begin = Clock::now();
  const auto file = real_files().open(path, WriteMode::kTruncate);
  for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(block.size())) {
    const auto size = std::min<int64_t>(bytes - at, static_cast<int64_t>(block.size()));
    file->append(std::span(block).first(static_cast<size_t>(size)));
  }
  file->sync();
  file->close();
  const double seconds = seconds_since(begin);
  real_files().remove(path);
  return seconds;
}

double copy_seconds(int64_t bytes) {
  std::vector<std::byte> from(static_cast<size_t>(bytes));
  std::vector<std::byte> to(from.size());
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto begin = Clock::now();
    std::memcpy(to.data(), from.data(), from.size());
    best = std::min(best, seconds_since(begin));
    from[static_cast<size_t>(i)] = to.back();
  }
  return best;
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_checkpoint FOLDER [layers] [width] [rounds]\n");
    return 2;
  }
  const auto number = [&](int i, int otherwise) {
    return i < argc ? std::atoi(argv[i]) : otherwise;
  };
  const int layers = number(2, 8);
  const int width = number(3, 512);
  const int rounds = number(4, 3);
  YamlNode tree =
      parse_yaml(fmt::format("model: {{vocab_size: 8192, hidden_size: {}, num_layers: {},\n"
                             "        num_attention_heads: {}, max_position_embeddings: 64}}\n"
                             "data: {{train: none, seq_length: 64}}\n"
                             "batch: {{global: 4, micro: 4}}\n"
                             "schedule: {{total_steps: {}}}\n"
                             "checkpoint: {{interval: {}, keep: 1}}\n",
                             width, layers, width / 64, 3 * kInterval, kInterval),
                 "checkpoint_pause");
  Setting setting;
  setting.config.read(tree);
  setting.task = setting.config.task();
  setting.data.training = [](uint64_t, const BatchPart& part, int64_t) {
    return std::make_unique<RandomTokens>(part.rows(), 64, 8192);
  };
  setting.folder = join_path(argv[1], "bench_checkpoint");

  const Context context = make_context(setting.config.train);
  const ContextScope scope(context);
  const StepProgram program(setting.task, setting.config.train, 4, context);
  int64_t bytes = 0;
  for (const TensorType& type : program.state_types()) {
    bytes += type.bytes();
  }
  std::vector<double> copied, first, later, waited, ratio, disk, written, slower;
  for (int round = 0; round < rounds; ++round) {
    const Pauses beside = run_once(setting, program, true);
    const Pauses waiting = run_once(setting, program, false);
    disk.push_back(disk_seconds(setting.folder, bytes));
    copied.push_back(copy_seconds(bytes));
    first.push_back(beside.first);
    later.push_back(beside.later);
    waited.push_back(waiting.later);
    ratio.push_back(waiting.later / beside.later);
    written.push_back(beside.written);
    slower.push_back(beside.step_after / waiting.step_after);
  }
  real_files().remove_all(setting.folder);
  const double megabytes = static_cast<double>(bytes) / 1e6;
  std::printf("%d layers x %d, %d thread(s): %.0f MB of state; medians of %d rounds\n", layers,
              width, context.num_threads(), megabytes, rounds);
  const auto line = [&](const char* what, const std::vector<double>& seconds) {
    std::printf("  %-46s %8.1f ms  %7.0f MB/s\n", what, 1e3 * median(seconds),
                megabytes / median(seconds));
  };
  line("pause, written beside training, first", first);
  line("pause, written beside training, later", later);
  line("  one thread's memcpy of as many bytes", copied);
  line("pause, training waits", waited);
  line("  write and sync of as many bytes alone", disk);
  line("until the checkpoint lies there, beside training", written);
  std::printf("  pause shorter by %.1fx; steps from the first save on take %.2fx\n", median(ratio),
              median(slower));
  return 0;
}

}  // namespace
}  // namespace mstrain

int main(int argc, char** argv) { return mstrain::run(argc, argv); }
