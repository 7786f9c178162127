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
#include <functional>
#include <map>
#include <optional>

#include "benchmarks/run_main.h"
#include "benchmarks/step_on_gpu.h"
#include "core/backends/cuda/matmul_call.h"
#include "core/base/log.h"
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
constexpr int kRounds = 5;

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

// The library's proposals for a product that it does not refuse, the fastest first.
std::vector<Choice> proposals_of(MatmulCall& call, const MatmulCall::Memory& memory) {
  std::vector<Choice> all;
  for (const int64_t workspace : {cuda::kMatmulWorkspace, int64_t{0}, kLargestWorkspace}) {
    for (const auto reduction : {MatmulLibrary::kInComputeType, MatmulLibrary::kInAnyType}) {
      for (const Choice& it : call.proposals(memory, kMostProposals, workspace, reduction)) {
        if (std::ranges::none_of(all, [&](const Choice& other) {
              return std::memcmp(&it.algorithm, &other.algorithm, sizeof(it.algorithm)) == 0;
            })) {
          all.push_back(it);
        }
      }
    }
  }
  std::vector<std::pair<double, size_t>> times;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto run = [&] {
      return call.multiply(memory, all[i].algorithm, queue(), kLargestWorkspace);
    };
    if (run() == 0) {
      times.emplace_back(gpu::median_milliseconds(run, 1), i);
    }
  }
  std::ranges::sort(times);
  std::vector<Choice> sorted;
  for (const auto& [milliseconds, i] : times) {
    sorted.push_back(all[i]);
  }
  return sorted;
}

// Microseconds of each, all in turns: the card's clock falls under load. Medians.
std::vector<double> times_of(const std::vector<std::function<void()>>& all) {
  std::vector<std::vector<double>> rounds(all.size());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < all.size(); ++i) {
      rounds[i].push_back(1e3 * gpu::median_milliseconds(all[i], 3));
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& times : rounds) {
    std::ranges::nth_element(times, times.begin() + kRounds / 2);
    medians.push_back(times[kRounds / 2]);
  }
  return medians;
}

// As many of the proposals as may be the best, each as a call.
std::vector<std::function<void()>> finalists_of(MatmulCall& call, const MatmulCall::Memory& memory,
                                                std::vector<Choice> choices) {
  choices.resize(std::min(choices.size(), kFinalists));
  std::vector<std::function<void()>> runs;
  for (const Choice& it : choices) {
    runs.emplace_back(
        [&call, memory, it] { call.multiply(memory, it.algorithm, queue(), kLargestWorkspace); });
  }
  return runs;
}

// Microseconds of the fastest proposal; none: there is none.
std::optional<double> best_of(const cpu::Product& p, const After& after,
                              const MatmulCall::Memory& memory) {
  MatmulCall call(p, after);
  const auto runs = finalists_of(call, memory, proposals_of(call, memory));
  return runs.empty() ? std::nullopt : std::optional(std::ranges::min(times_of(runs)));
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
  const bool has_aux = (after.epilogue & MatmulLibrary::kWithAux) != 0;
  return {.a = operands.inputs[swapped ? 1 : 0],
          .b = operands.inputs[swapped ? 0 : 1],
          .c = operands.outputs[0],
          .d = operands.outputs[0],
          .bias = has_bias ? beside.bias.at() : nullptr,
          .aux = has_aux ? beside.aux.at() : nullptr,
          .workspace = beside.workspace.at()};
}

// Our kernel with an environment that holds when it first runs.
class Ours {
 public:
  Ours(const PlanStep& step, const gpu::StepMemory::Operands& operands, const char* tune)
      : kernel_(prepared(step)),
        operands_(operands),
        workspace_(std::max<int64_t>(kernel_.workspace_bytes, 64)) {
    setenv("MSTRAIN_CUDA_TUNE", tune, 1);
    run();
  }
  void run() const {
    kernel_.run({.inputs = operands_.inputs,
                 .outputs = operands_.outputs,
                 .workspace = workspace_.at(),
                 .queue = &queue()});
  }

 private:
  static Kernel prepared(const PlanStep& step) {
    const std::vector<ViewType> inputs = views_of(step.inputs), outputs = views_of(step.outputs);
    const KernelRequest request{*step.op, step.attrs, inputs, outputs};
    return usable_kernel(backend_named("cuda"), request)->prepare(request);
  }

  Kernel kernel_;
  const gpu::StepMemory::Operands& operands_;
  gpu::Memory workspace_;
};

// What the library does after a product of the plan.
After after_of(const PlanStep& step) {
  After after;
  bool keeps = false;
  for (const Epilogue& it : epilogues_of(step.attrs)) {
    keeps = keeps || it.kind == Epilogue::Kind::kKeep;
    if (it.kind == Epilogue::Kind::kBias) {
      after.bias = it.input;
    } else if (it.kind == Epilogue::Kind::kActivation) {
      after.epilogue = MatmulLibrary::kGelu | (keeps ? MatmulLibrary::kWithAux : 0U);
    } else if (it.kind == Epilogue::Kind::kGradient) {
      after.epilogue = MatmulLibrary::kGeluGrad | MatmulLibrary::kWithAux;
    }
  }
  return after;
}

void print_race(const Plan& plan) {
  const gpu::StepMemory memories(plan);
  std::vector<Kind> kinds = kinds_of(plan);
  std::map<const PlanStep*, std::string> notes;
  for (Kind& kind : kinds) {
    const PlanStep& step = *kind.step;
    const auto operands = memories.of(step);
    const Beside beside(step);
    const After after = after_of(step);
    const cpu::ProductLayout layout = layout_of(step);
    const auto memory = memory_of(step, operands, beside, after);
    MatmulCall call(layout.product, after);
    const std::vector<Choice> choices = proposals_of(call, memory);
    const Ours first(step, operands, "0"), ours(step, operands, "1");
    std::vector<std::function<void()>> runs = finalists_of(call, memory, choices);
    check(!runs.empty(), "cuBLASLt has no algorithm for {}", text_of(step));
    runs.insert(runs.begin(), {[&] { ours.run(); }, [&] { first.run(); }});
    const std::vector<double> times = times_of(runs);
    kind.ours = times[0];
    kind.first = times[1];
    kind.best = *std::min_element(times.begin() + 2, times.end());
    notes[&step] = fmt::format("{} proposals{}{}", choices.size(),
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
      const auto best = best_of(layout_of(*kind.step).product, it.after,
                                memory_of(*kind.step, operands, beside, it.after));
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
                             .workspace = workspace.at()});
  return flops_of(p) / best.value() * 1e-6;
}

int run(int argc, char** argv) {
  gpu::check_card();
  set_log_level(LogLevel::kWarning);
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
