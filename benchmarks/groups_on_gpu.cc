// What moves memory in a step of training, alone on a card: every kernel of the plan that is no product and no attention, on memory
// that lies as the plan has it. Prints a line for each kind, the one that loses most first: how often it runs, what it takes, its
// bytes, and its share of the rate at which this card copies. Then what all of them take and would take at that rate.
//
//   groups_on_gpu [--texts FOLDER] CONFIG [key.path=value ...] [-- CONFIG [key.path=value ...] ...]
//
// --texts writes the texts of their kernels to FOLDER instead, and needs no card where a run.device_description is given.
#include <fmt/format.h>

#include <cstdio>
#include <map>

#include "benchmarks/gpu_timing.h"
#include "benchmarks/run_main.h"
#include "core/backends/cuda/text.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/paths.h"
#include "core/compile/plan.h"
#include "core/exec/execute.h"
#include "core/ops/fused.h"
#include "core/train/run_device.h"
#include "core/train/step.h"
#include "suites/all.h"
#include "suites/transformer/text/text_run.h"

namespace mstrain {
namespace {

// Kernels that do the same on memory that lies alike, in another place.
struct Kind {
  const PlanStep* step;
  int64_t calls = 0;
  double microseconds = 0, bytes = 0;  // of a call
  double lost = 0;                     // microseconds of all calls
};

bool is_counted(const PlanStep& step) {
  return step.op->name != "dot_general" && !step.op->name.starts_with("attention") &&
         std::ranges::find(cuda::text_entries(), step.op->name, &cuda::TextEntry::op) !=
             cuda::text_entries().end();
}

// Buffers by the order in which a step names them.
std::map<int, int> buffers_of(const PlanStep& step) {
  std::map<int, int> numbers;
  for (const auto* views : {&step.inputs, &step.outputs}) {
    for (const PlanView& view : *views) {
      numbers.try_emplace(view.buffer, static_cast<int>(numbers.size()));
    }
  }
  return numbers;
}

// What a view touches in memory, in bytes: repeated elements once.
int64_t bytes_of(const ViewType& view) {
  int64_t elements = 1;
  for (int d = 0; d < view.type.shape.rank(); ++d) {
    elements *= view.strides[d] == 0 ? 1 : view.type.shape[d];
  }
  return elements * size_of(view.type.dtype);
}

// The fewest bytes that a step has to move: of tables that it looks rows up in or adds to, those rows.
double least_bytes(const PlanStep& step) {
  double bytes = 0;
  for (const auto* views : {&step.inputs, &step.outputs}) {
    for (const PlanView& view : *views) {
      bytes += static_cast<double>(bytes_of(view.view));
    }
  }
  const auto size = [](const PlanView& view) { return static_cast<double>(bytes_of(view.view)); };
  if (step.op->name == "gather") {
    bytes += size(step.outputs[0]) - size(step.inputs[0]);
  } else if (step.op->name == "scatter_add") {
    bytes += 2 * size(step.inputs[2]) - 2 * size(step.inputs[0]);
  }
  return bytes;
}

std::string name_of(const PlanStep& step) {
  const PlanView& largest =
      *std::ranges::max_element(step.inputs.empty() ? step.outputs : step.inputs, {},
                                [](const PlanView& view) { return view.view.type.elements(); });
  return fmt::format("{} of {}", step.name, to_string(largest.view.type));
}

class Memories {
 public:
  explicit Memories(const Plan& plan) : plan_(plan) {
    std::vector<uint16_t> floats = gpu::random_bf16(kPattern / 2, 1);
    random_.write(floats.data());
  }

  // What a step needs, filled; the addresses of its operands.
  struct Operands {
    std::vector<gpu::Memory> buffers;
    std::vector<void*> inputs, outputs;
  };
  Operands of(const PlanStep& step) const {
    Operands result;
    const std::map<int, int> numbers = buffers_of(step);
    std::vector<int> buffers(numbers.size());
    for (const auto& [buffer, number] : numbers) {
      buffers[static_cast<size_t>(number)] = buffer;
    }
    for (int buffer : buffers) {
      result.buffers.emplace_back(
          std::max<int64_t>(plan_.buffers[static_cast<size_t>(buffer)].bytes, 1));
      fill(result.buffers.back());
    }
    const auto address = [&](const PlanView& view) {
      const gpu::Memory& memory = result.buffers[static_cast<size_t>(numbers.at(view.buffer))];
      return static_cast<void*>(static_cast<char*>(memory.at()) + view.offset);
    };
    for (const PlanView& view : step.inputs) {
      result.inputs.push_back(address(view));
      if (!is_floating(view.view.type.dtype)) {
        fill_with_ids(view, result.buffers[static_cast<size_t>(numbers.at(view.buffer))]);
      }
    }
    for (const PlanView& view : step.outputs) {
      result.outputs.push_back(address(view));
    }
    return result;
  }

 private:
  static constexpr int64_t kPattern = int64_t{16} << 20;

  void fill(const gpu::Memory& memory) const {
    cuda::bind_context();
    for (int64_t at = 0; at < memory.bytes(); at += kPattern) {
      cuda::check_driver(
          cuda::driver().copy(gpu::Memory::address(static_cast<char*>(memory.at()) + at),
                              gpu::Memory::address(random_.at()),
                              static_cast<size_t>(std::min(kPattern, memory.bytes() - at)),
                              cuda::stream_of(cuda::device()->queue(Device::Use::kKernels))),
          "cuMemcpyAsync");
    }
  }

  // Numbers of tokens that come as often as words do (Zipf's law), within every table: all have at least 256 rows.
  static void fill_with_ids(const PlanView& view, const gpu::Memory& memory) {
    if (view.view.type.dtype != Dtype::kI32) {
      memory.write(std::vector<std::byte>(static_cast<size_t>(memory.bytes())).data());
      return;
    }
    std::vector<int32_t> ids(static_cast<size_t>(memory.bytes() / 4) + 1);
    uint64_t state = 1;
    for (int32_t& id : ids) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      const double uniform = static_cast<double>(state >> 40U) * 0x1p-24;
      id = static_cast<int32_t>(std::exp(uniform * std::log(50000.0))) - 1;
    }
    memory.write(ids.data());
  }

  const Plan& plan_;
  gpu::Memory random_{kPattern};
};

// Bytes a second, read and written, of a copy that no cache holds.
double copy_rate() {
  constexpr int64_t kBytes = int64_t{2} << 30;
  const gpu::Memory from(kBytes), to(kBytes);
  const double milliseconds = gpu::median_milliseconds([&] {
    cuda::check_driver(
        cuda::driver().copy(gpu::Memory::address(to.at()), gpu::Memory::address(from.at()),
                            static_cast<size_t>(kBytes),
                            cuda::stream_of(cuda::device()->queue(Device::Use::kKernels))),
        "cuMemcpyAsync");
  });
  return 2e3 * static_cast<double>(kBytes) / milliseconds;
}

cuda::KernelText text_of(const PlanStep& step) {
  std::vector<ViewType> inputs, outputs;
  for (const PlanView& view : step.inputs) {
    inputs.push_back(view.view);
  }
  for (const PlanView& view : step.outputs) {
    outputs.push_back(view.view);
  }
  const auto entry = std::ranges::find(cuda::text_entries(), step.op->name, &cuda::TextEntry::op);
  return cuda::named(entry->print({*step.op, step.attrs, inputs, outputs}));
}

std::vector<Kind> kinds_of(const Plan& plan) {
  std::map<std::string, Kind> kinds;
  for (const PlanStep& step : plan.steps) {
    if (is_counted(step)) {
      std::string key = text_of(step).text;
      const std::map<int, int> numbers = buffers_of(step);
      for (const auto* views : {&step.inputs, &step.outputs}) {
        for (const PlanView& view : *views) {
          key += fmt::format(" {}+{}", numbers.at(view.buffer), view.offset % 16);
        }
      }
      ++kinds.try_emplace(key, Kind{&step}).first->second.calls;
    }
  }
  std::vector<Kind> result;
  for (const auto& [key, kind] : kinds) {
    result.push_back(kind);
  }
  return result;
}

void print_times(const Plan& plan, double rate) {
  const Memories memories(plan);
  std::vector<Kind> kinds = kinds_of(plan);
  double taken = 0, least = 0;
  int64_t calls = 0;
  for (Kind& kind : kinds) {
    const PlanStep& step = *kind.step;
    const Memories::Operands operands = memories.of(step);
    const gpu::Memory workspace(std::max<int64_t>(step.kernel->workspace_bytes, 64));
    kind.microseconds =
        1e3 * gpu::median_milliseconds([&] {
          step.kernel->run({.inputs = operands.inputs,
                            .outputs = operands.outputs,
                            .workspace = workspace.at(),
                            .queue = &cuda::device()->queue(Device::Use::kKernels)});
        });
    kind.bytes = least_bytes(step);
    const auto often = static_cast<double>(kind.calls);
    kind.lost = often * (kind.microseconds - 1e6 * kind.bytes / rate);
    taken += often * kind.microseconds;
    least += often * 1e6 * kind.bytes / rate;
    calls += kind.calls;
  }
  std::ranges::sort(kinds, std::greater<>(), &Kind::lost);
  fmt::print("{:>8} {:>6} {:>9} {:>10} {:>8} {:>7}\n", "lost us", "calls", "us each", "MB each",
             "GB/s", "of copy");
  for (const Kind& kind : kinds) {
    const double own = 1e6 * kind.bytes / kind.microseconds;
    fmt::print("{:8.0f} {:6} {:9.1f} {:10.3f} {:8.0f} {:6.0f}%  {}\n", kind.lost, kind.calls,
               kind.microseconds, 1e-6 * kind.bytes, 1e-9 * own, 100 * own / rate,
               name_of(*kind.step));
  }
  fmt::print(
      "{} calls take {:.0f} us; their bytes at the rate of a copy {:.0f} us: {:.0f} us lost\n\n",
      calls, taken, least, taken - least);
}

void write_texts(const Plan& plan, const std::string& folder) {
  int number = 0;
  for (const Kind& kind : kinds_of(plan)) {
    const PlanStep& step = *kind.step;
    const cuda::KernelText text = text_of(step);
    std::string all = fmt::format("// {} times {}\n", kind.calls, name_of(step));
    for (const cuda::KernelLaunch& launch : text.launches) {
      all += fmt::format("// {}: {} blocks of {} threads\n", launch.name, launch.blocks,
                         launch.threads);
    }
    write_file_atomic(real_files(), join_path(folder, fmt::format("{:02}.cu", number++)),
                      all + text.text);
  }
}

struct Asked {
  std::string config;
  std::vector<std::string> overrides{"run.device=cuda", "precision.params=bf16",
                                     "precision.grads=bf16"};
};

void look_at(const Asked& asked, const std::string& folder, double rate) {
  YamlNode tree = load_config(asked.config, asked.overrides);
  const std::unique_ptr<ModelRun> run = read_run(tree);
  auto& config = dynamic_cast<TextRun&>(*run);
  Context context = current_context();
  context.backend = planned_backend(real_files(), config.train.run, tree);
  const ContextScope scope(context);
  const TrainTask task = config.task();
  const StepProgram program(task, config.train, config.train.batch.micro.value_or(1), context);
  const Plan& plan = plan_of(*program.program());
  if (!folder.empty()) {
    write_texts(plan, folder);
    return;
  }
  fmt::print("{}\n", asked.config);
  print_times(plan, rate);
}

int run(int argc, char** argv) {
  add_all_models();
  std::string folder;
  std::vector<Asked> all(1);
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--texts") {
      check(++i < argc, "--texts: a folder was expected");
      folder = argv[i];
    } else if (word == "--") {
      all.emplace_back();
    } else if (all.back().config.empty()) {
      all.back().config = word;
    } else {
      all.back().overrides.push_back(word);
    }
  }
  double rate = 0;
  if (folder.empty()) {
    const std::string missing = backend_named("cuda")->missing();
    check(missing.empty(), "{}", missing);
    rate = copy_rate();
    fmt::print("the card copies {:.0f} GB/s, read and written\n\n", 1e-9 * rate);
  }
  for (const Asked& asked : all) {
    look_at(asked, folder, rate);
  }
  return 0;
}

}  // namespace
}  // namespace mstrain

int main(int argc, char** argv) { return mstrain::run_main(mstrain::run, argc, argv); }
