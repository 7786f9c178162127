// What must hold for any program. Each failure prints the seed of its program.
#include <cmath>
#include <map>

#include "core/compile/passes.h"
#include "core/compile/plan.h"
#include "core/ir/backend.h"
#include "core/ir/text.h"
#include "core/ir/verify.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "core/transform/grad.h"
#include "tests/conformance/random_programs.h"

namespace mstrain {
namespace {

constexpr uint64_t kFirstSeed = 1000;
int64_t number_of_programs() { return repetitions(250, 5000); }

// Calls f(program) for many programs, until one fails.
template <class F>
void for_programs(ProgramOptions options, int64_t count, const F& f) {
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + static_cast<uint64_t>(count); ++seed) {
    SCOPED_TRACE(fmt::format("program of seed {}", seed));
    f(RandomProgram(seed, options));
    if (testing::Test::HasFailure()) {
      return;
    }
  }
}

void expect_bits(const Tensors& actual, const Tensors& expected, const char* what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(bit_difference(actual[i], expected[i]), "") << what << ", result " << i;
  }
}

void expect_close(const Tensors& actual, const Tensors& expected, double tolerance,
                  const char* what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    double scale = 1;
    for (double value : to_doubles(expected[i])) {
      scale = std::isfinite(value) ? std::max(scale, std::abs(value)) : scale;
    }
    ASSERT_EQ(difference(actual[i], expected[i], {tolerance, scale}), "")
        << what << ", result " << i;
  }
}

TEST(Properties, ProgramsGiveTheSameInEagerModeGraphModeAndOnTheReference) {
  for_programs({}, number_of_programs(), [](const RandomProgram& program) {
    const Tensors x = program.inputs();
    const auto f = [&](const Tensors& in) { return values_and_gradients(program, in); };
    const auto on = [&](const Backend* backend, const auto& g) {
      const ContextScope scope(context_of(backend));
      return g(x);
    };
    const Tensors eager = on(backend_named("cpu"), f);
    expect_bits(on(backend_named("cpu"), jit(f, {.level = 0})), eager, "graph mode");
    // Operations that are good to 1e-13, a dozen deep, and their derivatives.
    expect_close(on(backend_named("cpu"), jit(f)), eager, 1e-9, "optimised graph");
    expect_close(on(backend_named("reference"), f), eager, 1e-9, "reference");
  });
}

// The compiler on many more programs than the matrix of modes has time for.
TEST(Properties, ThousandsOfProgramsGiveTheSameAtEveryLevel) {
  const ContextScope scope(context_of(backend_named("cpu")));
  for_programs({}, repetitions(2000, 20000), [](const RandomProgram& program) {
    const Tensors x = program.inputs();
    const Tensors eager = program(x);
    expect_close(jit(program, {.level = 1})(x), eager, 1e-9, "simplified");
    expect_close(jit(program, {.level = 2})(x), eager, 1e-9, "fused");
  });
}

TEST(Properties, ProgramsThatJumpGiveTheSameBitsInBothModes) {
  for (Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
    for_programs({.smooth = false, .dtype = dtype}, number_of_programs() / 2,
                 [](const RandomProgram& program) {
                   const ContextScope scope(context_of(backend_named("cpu")));
                   const Tensors x = program.inputs();
                   expect_bits(jit(program, {.level = 0})(x), program(x), "graph mode");
                 });
  }
}

TEST(Properties, ResultsAreReproducibleForOneThreadCount) {
  for_programs({.smooth = false, .dtype = Dtype::kF32}, number_of_programs() / 4,
               [](const RandomProgram& program) {
                 const Tensors x = program.inputs();
                 for (int threads : {1, 2}) {
                   const ContextScope scope(context_of(backend_named("cpu"), threads));
                   const auto compiled = jit(program);
                   const Tensors first = compiled(x);
                   expect_bits(compiled(x), first, "a second run");
                   expect_bits(jit(program)(x), first, "a second compilation");
                   expect_bits(program(x), program(x), "eager mode");
                 }
               });
}

double inner_product_of(const Tensors& a, const Tensors& b) {
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const std::vector<double> x = to_doubles(a[i]);
    const std::vector<double> y = to_doubles(b[i]);
    for (size_t j = 0; j < x.size(); ++j) {
      total += x[j] * y[j];
    }
  }
  return total;
}

// ⟨J v, w⟩ = ⟨v, Jᵀ w⟩, whatever J is.
TEST(Properties, ForwardAndReverseModeAreTransposes) {
  const ContextScope scope(context_of(backend_named("cpu")));
  for_programs({}, number_of_programs(), [](const RandomProgram& program) {
    const Tensors x = program.inputs();
    const Tensors v = random_like_all(x, 10);
    const auto [y, pushed] = jvp(program, x, v);
    const Tensors w = random_like_all(y, 20);
    const auto [same, pulled] = vjp(program, x, w);
    expect_bits(same, y, "the value");
    const double expected = inner_product_of(v, pulled);
    ASSERT_NEAR(inner_product_of(pushed, w), expected, 1e-9 * std::max(1.0, std::abs(expected)));
  });
}

TEST(Properties, GradientsAreSlopes) {
  const ContextScope scope(context_of(backend_named("reference")));
  for_programs({}, number_of_programs() / 4, [](const RandomProgram& program) {
    const Tensors x = program.inputs();
    const Tensors v = random_like_all(x, 30);
    const auto f = [&](const Tensors& in) { return program(in)[1]; };
    const auto at = [&](double s) {
      Tensors moved;
      for (size_t i = 0; i < x.size(); ++i) {
        moved.push_back(x[i] + s * v[i]);
      }
      return item(f(moved));
    };
    const auto central = [&](double h) { return (at(h) - at(-h)) / (2 * h); };
    const double expected = (4 * central(5e-5) - central(1e-4)) / 3;
    // Ids that are made of numbers jump; such programs show by slopes that depend on the step.
    if (std::abs(central(1e-4) - central(5e-5)) < 1e-4) {
      ASSERT_NEAR(inner_product_of(grad(f)(x), v), expected,
                  1e-6 * std::max(1.0, std::abs(expected)));
    }
  });
}

TEST(Properties, ThePrintedGraphParsesBackToTheSame) {
  for_programs({.smooth = false}, number_of_programs(), [](const RandomProgram& program) {
    const GraphPtr graph = graph_of(program);
    const std::string text = to_text(*graph);
    const GraphPtr parsed = parse_graph(text);
    ASSERT_EQ(parsed->hash(), graph->hash()) << text;
    ASSERT_TRUE(*parsed == *graph) << text;
    ASSERT_EQ(to_text(*parsed), text);
  });
  for_programs({}, number_of_programs() / 4, [](const RandomProgram& program) {
    const GraphPtr graph = gradient_graph(program);
    const GraphPtr parsed = parse_graph(to_text(*graph));
    ASSERT_EQ(parsed->hash(), graph->hash());
    ASSERT_TRUE(*parsed == *graph);
  });
}

TEST(Properties, GraphsOfEveryLevelAreSound) {
  for_programs({}, number_of_programs() / 2, [](const RandomProgram& program) {
    const GraphPtr graph = gradient_graph(program);
    ASSERT_NO_THROW(verify(*graph));
    for (int level : {0, 1, 2}) {
      for (const Backend* backend : {backend_named("cpu"), backend_named("reference")}) {
        ASSERT_NO_THROW(verify(*optimise(*graph, {level, backend, {}}))) << "level " << level;
      }
    }
  });
}

// Plays a plan on memory that remembers for each byte which buffer was written there last: what a step reads must be
// what was written for it. Knows nothing of lifetimes.
class Shadow {
 public:
  explicit Shadow(const Plan& plan) : plan_(plan) {
    for (int id : plan.inputs) {
      write(id);
    }
  }

  // What goes wrong first; empty where nothing does.
  std::string play() {
    for (const PlanStep& step : plan_.steps) {
      std::vector<int> touched;
      for (const PlanView& view : step.inputs) {
        if (!holds(view.buffer)) {
          return fmt::format("{} reads what was overwritten", step.op->name);
        }
        touched.push_back(view.buffer);
      }
      std::vector<int> written;
      for (const PlanView& view : step.outputs) {
        written.push_back(view.buffer);
      }
      if (step.workspace >= 0) {
        written.push_back(step.workspace);
      }
      touched.insert(touched.end(), written.begin(), written.end());
      for (int a : touched) {
        if (!fits(a)) {
          return fmt::format("{} leaves the arena", step.op->name);
        }
        for (int b : touched) {
          if (a != b && overlap(a, b)) {
            return fmt::format("{} uses one place for two things", step.op->name);
          }
        }
      }
      for (int id : written) {
        write(id);
      }
      if (step.loop != nullptr) {
        std::string problem = Shadow(*step.loop->body).play();
        if (problem.empty() && step.loop->condition != nullptr) {
          problem = Shadow(*step.loop->condition).play();
        }
        if (!problem.empty()) {
          return "in a loop: " + problem;
        }
      }
    }
    for (int id : plan_.outputs) {
      if (!holds(id)) {
        return "a result was overwritten";
      }
    }
    return {};
  }

 private:
  struct Range {
    int space;  // -1: the arena; 0 …: inputs, then outputs that take over none
    int64_t begin, end;
  };

  Range range_of(int id) const {
    const PlanBuffer& buffer = plan_.buffers[static_cast<size_t>(id)];
    switch (buffer.kind) {
      case PlanBuffer::Kind::kInput: return {buffer.index, 0, buffer.bytes};
      case PlanBuffer::Kind::kOutput: {
        const int taken = plan_.output_alias[static_cast<size_t>(buffer.index)];
        const int own = static_cast<int>(plan_.inputs.size()) + buffer.index;
        return {taken >= 0 ? taken : own, 0, buffer.bytes};
      }
      case PlanBuffer::Kind::kArena: break;
    }
    return {-1, buffer.offset, buffer.offset + buffer.bytes};
  }

  bool fits(int id) const {
    const Range range = range_of(id);
    return range.space >= 0 || (range.begin >= 0 && range.end <= plan_.arena_bytes &&
                                range.begin % kPlanAlignment == 0);
  }

  bool overlap(int a, int b) const {
    const Range x = range_of(a);
    const Range y = range_of(b);
    return x.space == y.space && x.begin < y.end && y.begin < x.end;
  }

  void write(int id) {
    const Range range = range_of(id);
    for (int64_t byte = range.begin; byte < range.end; ++byte) {
      owner_[{range.space, byte}] = id;
    }
  }

  bool holds(int id) const {
    const Range range = range_of(id);
    for (int64_t byte = range.begin; byte < range.end; ++byte) {
      const auto found = owner_.find({range.space, byte});
      if (found == owner_.end() || found->second != id) {
        return false;
      }
    }
    return true;
  }

  const Plan& plan_;
  std::map<std::pair<int, int64_t>, int> owner_;
};

TEST(Properties, PlansNeverOverwriteWhatIsStillRead) {
  for_programs({}, number_of_programs() / 2, [](const RandomProgram& program) {
    const GraphPtr graph = gradient_graph(program);
    for (bool donated : {false, true}) {
      PlanOptions options{.backend = backend_named("cpu")};
      options.donated.assign(graph->inputs().size(), donated);
      ASSERT_EQ(Shadow(make_plan(*optimise(*graph, {}), options)).play(), "");
    }
  });
}

TEST(Properties, ThePlanCheckSeesWhatOverlaps) {
  const GraphPtr graph = gradient_graph(RandomProgram(kFirstSeed, {}));
  int noticed = 0;
  const size_t buffers = make_plan(*optimise(*graph, {}), {}).buffers.size();
  for (size_t i = 0; i < buffers; ++i) {
    Plan plan = make_plan(*optimise(*graph, {}), {});
    PlanBuffer& moved = plan.buffers[i];
    for (const PlanBuffer& other : plan.buffers) {
      const bool both_live = moved.kind == PlanBuffer::Kind::kArena &&
                             other.kind == PlanBuffer::Kind::kArena && &other != &moved &&
                             moved.bytes > 0 && other.bytes > 0 && moved.first < other.first &&
                             other.first <= moved.last;
      if (both_live) {
        moved.offset = other.offset;
        ASSERT_NE(Shadow(plan).play(), "") << "buffer " << i;
        ++noticed;
        break;
      }
    }
  }
  EXPECT_GT(noticed, 5);
}

// What results take over from donated arguments changes no result.
TEST(Properties, DonatedArgumentsGiveTheSameResults) {
  const ContextScope scope(context_of(backend_named("cpu")));
  for_programs({}, number_of_programs() / 4, [](const RandomProgram& program) {
    // Results like the arguments, as an update of parameters gives them.
    const auto update = [&](const Tensors& x) {
      Tensors gradients = grad([&](const Tensors& in) { return program(in)[1]; })(x);
      for (size_t i = 0; i < gradients.size(); ++i) {
        gradients[i] = x[i] - gradients[i];
      }
      return gradients;
    };
    const Tensors expected = jit(update)(program.inputs());
    Tensors own;
    for (const Tensor& x : program.inputs()) {
      own.push_back(tensor_from_bytes(HostRead(x).data(), x.type()));
    }
    expect_bits(jit(update, {.donate = {0}})(std::move(own)), expected, "donated");
  });
}

}  // namespace
}  // namespace mstrain
