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

#include "benchmarks/run_main.h"
#include "benchmarks/step_on_gpu.h"
#include "core/backends/cuda/text.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/paths.h"

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
      const std::map<int, int> numbers = gpu::buffers_of(step);
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
  const gpu::StepMemory memories(plan);
  std::vector<Kind> kinds = kinds_of(plan);
  double taken = 0, least = 0;
  int64_t calls = 0;
  for (Kind& kind : kinds) {
    const PlanStep& step = *kind.step;
    const gpu::StepMemory::Operands operands = memories.of(step);
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

int run(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  std::string folder;
  if (const auto at = std::ranges::find(words, "--texts"); at != words.end()) {
    check(at + 1 != words.end(), "--texts: a folder was expected");
    folder = at[1];
    words.erase(at, at + 2);
  }
  double rate = 0;
  if (folder.empty()) {
    gpu::check_card();
    rate = copy_rate();
    fmt::print("the card copies {:.0f} GB/s, read and written\n\n", 1e-9 * rate);
  }
  gpu::for_each_step(words, [&](const std::string& config, const Plan& plan) {
    if (!folder.empty()) {
      write_texts(plan, folder);
      return;
    }
    fmt::print("{}\n", config);
    print_times(plan, rate);
  });
  return 0;
}

}  // namespace
}  // namespace mstrain

int main(int argc, char** argv) { return mstrain::run_main(mstrain::run, argc, argv); }
