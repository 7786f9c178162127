// Steps of training as the CUDA back end plans them, and memory for their kernels one at a time.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/gpu_timing.h"
#include "core/base/error.h"
#include "core/compile/plan.h"
#include "core/exec/execute.h"
#include "core/train/run_device.h"
#include "core/train/step.h"
#include "suites/all.h"
#include "suites/transformer/text/text_run.h"

namespace mstrain::gpu {

// Throws Error where there is no card.
inline void check_card() {
  const std::string missing = backend_named("cuda")->missing();
  check(missing.empty(), "{}", missing);
}

// Buffers by the order in which a step names them.
inline std::map<int, int> buffers_of(const PlanStep& step) {
  std::map<int, int> numbers;
  for (const auto* views : {&step.inputs, &step.outputs}) {
    for (const PlanView& view : *views) {
      numbers.try_emplace(view.buffer, static_cast<int>(numbers.size()));
    }
  }
  return numbers;
}

// Memory for one step of a plan at a time.
class StepMemory {
 public:
  explicit StepMemory(const Plan& plan) : plan_(plan) {
    std::vector<uint16_t> floats = random_bf16(kPattern / 2, 1);
    random_.write(floats.data());
  }

  // What a step needs, filled; the addresses of its operands.
  struct Operands {
    std::vector<Memory> buffers;
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
      const Memory& memory = result.buffers[static_cast<size_t>(numbers.at(view.buffer))];
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

  void fill(const Memory& memory) const {
    cuda::bind_context();
    for (int64_t at = 0; at < memory.bytes(); at += kPattern) {
      cuda::check_driver(
          cuda::driver().copy(Memory::address(static_cast<char*>(memory.at()) + at),
                              Memory::address(random_.at()),
                              static_cast<size_t>(std::min(kPattern, memory.bytes() - at)),
                              cuda::stream_of(cuda::device()->queue(Device::Use::kKernels))),
          "cuMemcpyAsync");
    }
  }

  // Numbers of tokens that come as often as words do (Zipf's law), within every table: all have at least 256 rows.
  static void fill_with_ids(const PlanView& view, const Memory& memory) {
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
  Memory random_{kPattern};
};

// The plans of the steps that `words` ask for: CONFIG [key.path=value ...] [-- CONFIG [key.path=value ...] ...], in bf16 but for masters
// and moments.
inline void for_each_step(const std::vector<std::string>& words,
                          const std::function<void(const std::string&, const Plan&)>& use) {
  add_all_models();
  for (auto at = words.begin(); at != words.end();) {
    const auto end = std::find(at, words.end(), "--");
    std::vector<std::string> overrides{"run.device=cuda", "precision.params=bf16",
                                       "precision.grads=bf16"};
    overrides.insert(overrides.end(), at + 1, end);
    YamlNode tree = load_config(*at, overrides);
    const std::unique_ptr<ModelRun> run = read_run(tree);
    auto& config = dynamic_cast<TextRun&>(*run);
    Context context = current_context();
    context.backend = planned_backend(real_files(), config.train.run, tree);
    const ContextScope scope(context);
    const TrainTask task = config.task();
    const StepProgram program(task, config.train, config.train.batch.micro.value_or(1), context);
    std::string name;
    for (auto word = at; word != end; ++word) {
      name += (name.empty() ? "" : " ") + *word;
    }
    use(name, plan_of(*program.program()));
    at = end == words.end() ? end : end + 1;
  }
}

}  // namespace mstrain::gpu
