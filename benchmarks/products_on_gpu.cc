// Products of steps of training alone on a card, on memory that lies as the plan has it: as our kernel makes them with the algorithm
// that timing chooses, and with the library's first (MSTRAIN_CUDA_TUNE=0), against the best of all that cuBLASLt proposes, whatever
// workspace it wants and however it keeps parts of a sum. Prints a line for each kind, the one that loses most first.
//
//   products_on_gpu [--epilogues] CONFIG [key.path=value ...] [-- CONFIG [key.path=value ...] ...]
//
// --epilogues: instead, what the library's epilogues cost: the best of its proposals for each product with a bias, with what GELU needs
// and writes, with GELU's derivative, with sums of columns.
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>

#include "benchmarks/run_main.h"
#include "benchmarks/step_on_gpu.h"
#include "core/backends/cuda/matmul_call.h"
#include "core/ops/dot_general.h"

namespace mstrain {
namespace {

using cuda::After;
using cuda::MatmulCall;
using cuda::MatmulLibrary;
using Choice = MatmulLibrary::Choice;

constexpr int64_t kLargestWorkspace = int64_t{128} << 20;
constexpr int kMostProposals = 64;
constexpr size_t kFinalists = 6;

Queue& queue() { return cuda::device()->queue(Device::Use::kKernels); }

struct Kind {
  const PlanStep* step;
  int64_t calls = 0;
  double ours = 0, first = 0, best = 0;  // microseconds of a call
  double lost() const { return static_cast<double>(calls) * (ours - best); }
};

std::vector<ViewType> views_of(const std::vector<PlanView>& all) {
  std::vector<ViewType> views;
  for (const PlanView& view : all) {
    views.push_back(view.view);
  }
  return views;
}

std::string text_of(const PlanStep& step) {
  std::string text = step.attrs.text("dims");
  if (has_epilogue(step.attrs)) {
    text += " " + step.attrs.text("epilogue");
  }
  for (const PlanView& view : step.inputs) {
    text += " " + to_string(view.view.type.shape);
    if (!(view.view == ViewType::dense(view.view.type))) {
      text += " strided";
    }
  }
  return text;
}

std::vector<Kind> kinds_of(const Plan& plan) {
  std::map<std::string, Kind> kinds;
  for (const PlanStep& step : plan.steps) {
    if (step.op == &kDotGeneral) {
      ++kinds.try_emplace(text_of(step), Kind{&step}).first->second.calls;
    }
  }
  std::vector<Kind> result;
  for (const auto& [text, kind] : kinds) {
    result.push_back(kind);
  }
  return result;
}

cpu::ProductLayout layout_of(const PlanStep& step) {
  cpu::ProductLayout layout =
      cpu::layout_of(dot_dims(step.attrs), step.inputs[0].view, step.inputs[1].view,
                     step.outputs[0].view.type.shape, {false, false});
  layout.product.dtype = step.outputs[0].view.type.dtype;
  return layout;
}

double flops_of(const cpu::Product& p) {
  return 2 * static_cast<double>(p.m * p.n) * static_cast<double>(p.k) *
         static_cast<double>(p.batch.inner());
}

// Microseconds of the fastest of the library's proposals; none: it has none. `tried` is how many there were.
std::optional<double> best_of(const cpu::Product& p, const After& after,
                              const MatmulCall::Memory& memory, MatmulLibrary::Reduction reduction,
                              size_t* tried = nullptr) {
  MatmulCall call(p, after);
  std::vector<Choice> all;
  for (const int64_t workspace : {cuda::kMatmulWorkspace, int64_t{0}, kLargestWorkspace}) {
    for (const Choice& it : call.proposals(memory, kMostProposals, workspace, reduction)) {
      if (std::ranges::none_of(all, [&](const Choice& other) {
            return std::memcmp(&it.algorithm, &other.algorithm, sizeof(it.algorithm)) == 0;
          })) {
        all.push_back(it);
      }
    }
  }
  const auto run = [&](const Choice& it) {
    return call.multiply(memory, it.algorithm, queue(), kLargestWorkspace);
  };
  std::vector<std::pair<double, const Choice*>> times;
  for (const Choice& it : all) {
    if (run(it) == 0) {
      times.emplace_back(gpu::median_milliseconds([&] { run(it); }, 1), &it);
    }
  }
  if (tried != nullptr) {
    *tried = times.size();
  }
  std::ranges::sort(times);
  times.resize(std::min(times.size(), kFinalists));
  std::optional<double> best;
  for (auto& [milliseconds, choice] : times) {
    milliseconds = gpu::median_milliseconds([&] { run(*choice); });
    best = std::min(best.value_or(milliseconds), milliseconds);
  }
  return best ? std::optional(1e3 * *best) : std::nullopt;
}

// What a call reads and writes, beside the operands of a step.
struct Beside {
  gpu::Memory workspace{kLargestWorkspace};
  gpu::Memory aux, bias;
  explicit Beside(const PlanStep& step)
      : aux(step.outputs[0].view.type.bytes()), bias(int64_t{1} << 20) {}
};

MatmulCall::Memory memory_of(const PlanStep& step, const gpu::StepMemory::Operands& operands,
                             const Beside& beside, const After& after) {
  const bool swapped = layout_of(step).swapped;
  const bool has_bias =
      after.bias || (after.epilogue & (MatmulLibrary::kSumOfA | MatmulLibrary::kSumOfColumns)) != 0;
  return {.a = operands.inputs[swapped ? 1 : 0],
          .b = operands.inputs[swapped ? 0 : 1],
          .c = operands.outputs[0],
          .d = operands.outputs[0],
          .bias = has_bias ? beside.bias.at() : nullptr,
          .aux = (after.epilogue & MatmulLibrary::kWithAux) != 0 ? beside.aux.at() : nullptr,
          .workspace = beside.workspace.at()};
}

// A kernel's time with an environment that holds when it first runs.
double time_ours(const PlanStep& step, const gpu::StepMemory::Operands& operands,
                 const char* tune) {
  setenv("MSTRAIN_CUDA_TUNE", tune, 1);
  const std::vector<ViewType> inputs = views_of(step.inputs), outputs = views_of(step.outputs);
  const KernelRequest request{*step.op, step.attrs, inputs, outputs};
  const Kernel kernel = usable_kernel(backend_named("cuda"), request)->prepare(request);
  const gpu::Memory workspace(std::max<int64_t>(kernel.workspace_bytes, 64));
  return 1e3 * gpu::median_milliseconds([&] {
           kernel.run({.inputs = operands.inputs,
                       .outputs = operands.outputs,
                       .workspace = workspace.at(),
                       .queue = &queue()});
         });
}

void print_race(const Plan& plan) {
  const gpu::StepMemory memories(plan);
  std::vector<Kind> kinds = kinds_of(plan);
  std::map<const PlanStep*, std::string> notes;
  for (Kind& kind : kinds) {
    const PlanStep& step = *kind.step;
    const auto operands = memories.of(step);
    const Beside beside(step);
    After after;
    if (has_epilogue(step.attrs)) {
      after.bias = 2;
    }
    const cpu::ProductLayout layout = layout_of(step);
    const auto memory = memory_of(step, operands, beside, after);
    size_t tried = 0;
    kind.first = time_ours(step, operands, "0");
    kind.best =
        best_of(layout.product, after, memory, MatmulLibrary::kInComputeType, &tried).value_or(0);
    const double loose =
        best_of(layout.product, after, memory, MatmulLibrary::kInAnyType).value_or(0);
    kind.ours = time_ours(step, operands, "1");
    notes[&step] = fmt::format("{:3} tried, {:5.1f} with sums in any type{}{}", tried, loose,
                               layout.copied[0] || layout.copied[1] ? ", copies an operand" : "",
                               layout.result ? ", reorders the result" : "");
  }
  std::ranges::sort(kinds, std::greater<>(), &Kind::lost);
  fmt::print("{:>8} {:>5} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "lost us", "calls", "ours us", "first",
             "best", "of best", "TFLOP/s");
  double ours = 0, first = 0, best = 0, flops = 0;
  for (const Kind& kind : kinds) {
    const auto often = static_cast<double>(kind.calls);
    const double own = flops_of(layout_of(*kind.step).product);
    ours += often * kind.ours;
    first += often * kind.first;
    best += often * kind.best;
    flops += often * own;
    fmt::print("{:8.0f} {:5} {:8.1f} {:8.1f} {:8.1f} {:7.1f}% {:8.0f}  {}; {}\n", kind.lost(),
               kind.calls, kind.ours, kind.first, kind.best, 100 * kind.best / kind.ours,
               own / kind.ours * 1e-6, text_of(*kind.step), notes[kind.step]);
  }
  fmt::print(
      "ours {:.0f} us ({:.0f} TFLOP/s), the first proposals {:.0f}, the best {:.0f}: {:.1f} % of "
      "the "
      "best\n\n",
      ours, flops / ours * 1e-6, first, best, 100 * best / ours);
  std::fflush(stdout);
}

void print_epilogues(const Plan& plan) {
  struct Variant {
    const char* name;
    After after;
  };
  const auto with = [](uint32_t epilogue, bool bias) {
    After after;
    after.epilogue = epilogue;
    after.bias = bias ? std::optional<size_t>(2) : std::nullopt;
    return after;
  };
  constexpr uint32_t kGeluAux = MatmulLibrary::kGelu | MatmulLibrary::kWithAux;
  constexpr uint32_t kGrad = MatmulLibrary::kGeluGrad | MatmulLibrary::kWithAux;
  const std::array<Variant, 6> variants{
      {{"plain", {}},
       {"bias", with(0, true)},
       {"+gelu,aux", with(kGeluAux, true)},
       {"dgelu", with(kGrad, false)},
       {"+sums", with(kGrad | MatmulLibrary::kSumOfColumns, false)},
       {"sums of A", with(MatmulLibrary::kSumOfA, false)}}};
  for (const Variant& it : variants) {
    fmt::print("{:>10}", it.name);
  }
  fmt::print("  us of the best proposal\n");
  const gpu::StepMemory memories(plan);
  for (const Kind& kind : kinds_of(plan)) {
    const auto operands = memories.of(*kind.step);
    const Beside beside(*kind.step);
    for (const Variant& it : variants) {
      const auto best =
          best_of(layout_of(*kind.step).product, it.after,
                  memory_of(*kind.step, operands, beside, it.after), MatmulLibrary::kInComputeType);
      fmt::print("{:>10}", best ? fmt::format("{:.1f}", *best) : "-");
    }
    fmt::print("  {} times {}\n", kind.calls, text_of(*kind.step));
    std::fflush(stdout);
  }
}

// TFLOP/s of a product of 8192 x 8192 x 8192 by the best of the proposals.
double best_rate() {
  constexpr int64_t kSide = 8192;
  const TensorType type{Dtype::kBF16, {kSide, kSide}};
  gpu::Operation square("dot_general", {type, type}, {{"dims", "ab,bc->ac"}});
  for (size_t i = 0; i < 2; ++i) {
    square.in[i].write(gpu::random_bf16(kSide * kSide, static_cast<uint32_t>(i)).data());
  }
  const ViewType view = ViewType::dense(type);
  cpu::Product p =
      cpu::layout_of({"ab", "bc", "ac"}, view, view, type.shape, {false, false}).product;
  p.dtype = Dtype::kBF16;
  const gpu::Memory workspace(kLargestWorkspace);
  const auto best = best_of(p, {},
                            {.a = square.in[0].at(),
                             .b = square.in[1].at(),
                             .c = square.out[0].at(),
                             .d = square.out[0].at(),
                             .workspace = workspace.at()},
                            MatmulLibrary::kInComputeType);
  return flops_of(p) / best.value() * 1e-6;
}

int run(int argc, char** argv) {
  gpu::check_card();
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool epilogues = std::erase(words, "--epilogues") > 0;
  fmt::print("8192 x 8192 x 8192: {:.0f} TFLOP/s\n\n", best_rate());
  gpu::for_each_step(words, [&](const std::string& config, const Plan& plan) {
    fmt::print("{}\n", config);
    epilogues ? print_epilogues(plan) : print_race(plan);
  });
  return 0;
}

}  // namespace
}  // namespace mstrain

int main(int argc, char** argv) { return mstrain::run_main(mstrain::run, argc, argv); }
