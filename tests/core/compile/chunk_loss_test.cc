#include "core/compile/passes.h"
#include "core/ops/build.h"
#include "core/ops/index.h"
#include "core/ops/linear_cross_entropy.h"
#include "core/transform/accumulate.h"
#include "tests/amount.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

constexpr int64_t kChunks = 5;

// What a head may look like.
struct Form {
  int64_t rows = 1, width = 1, classes = 1, chunks = 1;
  bool bias = false;
  bool transposed = false;  // the weight is [width, classes]
  int64_t ignored = -100;
  double smoothing = 0;
  int64_t micro_batches = 1;
  Dtype dtype = Dtype::kF32;

  friend void PrintTo(const Form& f, std::ostream* out) {
    *out << fmt::format("{} x {} -> {} in {}, bias {}, transposed {}, ignored {}, {}, {}, {}",
                        f.rows, f.width, f.classes, f.chunks, f.bias, f.transposed, f.ignored,
                        f.smoothing, f.micro_batches, name_of(f.dtype));
  }
};

struct Head {
  Tensor x, w, b;
  template <class V>
  void fields(V& v) {
    v("x", x);
    v("w", w);
    v("b", b);
  }
};

struct Micro {
  Tensor x, targets;
  template <class V>
  void fields(V& v) {
    v("x", x);
    v("targets", targets);
  }
};

LinearCrossEntropyOptions options_of(const Form& form, const Head& head) {
  return {.bias = form.bias ? head.b : Tensor(),
          .transpose_weight = !form.transposed,
          .ignore_index = form.ignored,
          .label_smoothing = form.smoothing};
}

Tensor rows_of(const Form& form, const Head& head, const Tensor& x, const Tensor& targets) {
  return linear_cross_entropy_rows(x, head.w, targets, options_of(form, head)).loss;
}

// Mean loss and gradients of everything; over micro-batches their sums.
Tensors step(const Form& form, const Head& head, const Tensor& targets) {
  const auto loss = [&](const Head& h, const Tensor& x, const Tensor& t) {
    const Tensor rows = rows_of(form, h, x, t);
    const Tensor counted = cast(not_equal(t, form.ignored), Dtype::kI32);
    return sum(rows) / cast(maximum(sum(counted), 1), rows.dtype());
  };
  if (form.micro_batches == 1) {
    const auto [value, gradients] =
        value_and_grad([&](const Head& h) { return loss(h, tanh(h.x), targets); })(head);
    return {value, gradients.x, gradients.w, gradients.b};
  }
  const auto one = [&](const Micro& m) {
    const auto [value, gradients] =
        value_and_grad([&](const Head& h) { return loss(h, tanh(m.x), m.targets); })(head);
    return std::tuple(value, gradients.w, gradients.b);
  };
  const auto [value, w, b] = accumulate(form.micro_batches, one)(Micro{head.x, targets});
  return {value, w, b};
}

Head values_of(const Form& form, uint64_t seed) {
  const auto random = [&](const Shape& shape, uint64_t salt) {
    return cast(random_tensor(shape, seed + salt, -2, 2), form.dtype);
  };
  const int64_t all = form.rows * form.micro_batches;
  const Shape weight =
      form.transposed ? Shape{form.width, form.classes} : Shape{form.classes, form.width};
  return {random({all, form.width}, 1), random(weight, 2), random({form.classes}, 3)};
}

Tensor targets_of(const Form& form, uint64_t seed) {
  Rng rng(seed);
  std::vector<int32_t> targets(static_cast<size_t>(form.rows * form.micro_batches));
  for (int32_t& target : targets) {
    target = rng.below(5) == 0
                 ? static_cast<int32_t>(form.ignored)
                 : static_cast<int32_t>(rng.below(static_cast<uint64_t>(form.classes)));
  }
  const auto rows = static_cast<int64_t>(targets.size());
  return tensor<int32_t>(targets, {rows});
}

// Chunked losses in a program when it is optimised, loops within.
int64_t chunked_in(const Graph& graph, int level = 2, int64_t chunks = kChunks) {
  const GraphPtr optimised = optimise(graph, {.level = level, .loss_chunks = chunks});
  int64_t found = 0;
  const std::vector<bool> live = optimised->live();
  for (NodeId id = 0; id < optimised->size(); ++id) {
    const Node& node = optimised->node(id);
    if (live[id] && node.op->name == "scan") {
      found += node.attrs.find("loss_chunks") != nullptr
                   ? 1
                   : chunked_in(*node.attrs.graph("body"), level, chunks);
    }
  }
  return found;
}

GraphPtr graph_of(const std::function<Tensors(std::span<const Tensor>)>& f, const Types& types) {
  Tensors captures;
  return trace_program(types, f, &captures);
}

GraphPtr graph_of(const Form& form) {
  Types types;
  for (const Tensor& x : flatten_tree(values_of(form, 1))) {
    types.push_back(x.type());
  }
  types.push_back(targets_of(form, 1).type());
  return graph_of(
      [&](std::span<const Tensor> x) {
        return step(form, Head{x[0], x[1], x[2]}, x[3]);
      },
      types);
}

void expect_same(const Form& form, uint64_t seed) {
  SCOPED_TRACE(testing::PrintToString(form) + fmt::format(", seed {}", seed));
  const Head head = values_of(form, seed);
  const Tensor targets = targets_of(form, seed);
  const auto f = [&](const Head& h, const Tensor& t) { return step(form, h, t); };
  // What one chunk rounds, another order of sums does as well.
  const double tolerance = form.dtype == Dtype::kF64 ? 1e-12 : 1e-5;
  for (int level : {1, 2}) {
    const Tensors whole = jit(f, {.level = level, .loss_chunks = 1})(head, targets);
    const Tensors chunked = jit(f, {.level = level, .loss_chunks = form.chunks})(head, targets);
    for (size_t i = 0; i < whole.size(); ++i) {
      expect_near(chunked[i], whole[i], tolerance);
    }
  }
}

TEST(ChunkLoss, CutsHeadsOfEveryForm) {
  for (const bool bias : {false, true}) {
    for (const bool transposed : {false, true}) {
      for (const int64_t micro : {1, 3}) {
        const Form form{.rows = 12,
                        .width = 6,
                        .classes = 31,
                        .chunks = kChunks,
                        .bias = bias,
                        .transposed = transposed,
                        .micro_batches = micro};
        const GraphPtr graph = graph_of(form);
        SCOPED_TRACE(testing::PrintToString(form));
        EXPECT_EQ(chunked_in(*graph), 1);
        EXPECT_EQ(chunked_in(*graph, 2, 1), 0);
        EXPECT_EQ(chunked_in(*graph, 0), 0) << "as eager";
        EXPECT_EQ(chunked_in(*graph, 2, kAutoChunks), 0) << "small logits";
      }
    }
  }
}

TEST(ChunkLoss, ChangesNoValueButByRounding) {
  for (const bool bias : {false, true}) {
    for (const bool transposed : {false, true}) {
      for (const Dtype dtype : {Dtype::kF32, Dtype::kF64}) {
        for (const int64_t micro : {1, 3}) {
          expect_same({.rows = 12,
                       .width = 6,
                       .classes = 31,
                       .chunks = kChunks,
                       .bias = bias,
                       .transposed = transposed,
                       .micro_batches = micro,
                       .dtype = dtype},
                      1);
        }
      }
    }
  }
}

// One row, primes, more chunks than rows, rows that do not divide, ignored targets, smoothing.
TEST(ChunkLoss, HoldsForRandomForms) {
  const auto count = static_cast<uint64_t>(repetitions(60, 2000));
  for (uint64_t seed = 1; seed <= count && !testing::Test::HasFailure(); ++seed) {
    Rng rng(seed);
    const auto any = [&](int64_t most) {
      return 1 + static_cast<int64_t>(rng.below(static_cast<uint64_t>(most)));
    };
    Form form;
    form.rows = any(rng.below(4) == 0 ? 400 : 30);
    form.width = any(20);
    form.classes = any(70);
    form.chunks = any(9);
    form.bias = rng.below(2) == 0;
    form.transposed = rng.below(2) == 0;
    form.ignored = rng.below(2) == 0 ? -100 : 0;
    form.smoothing = rng.below(2) == 0 ? 0.1 : 0;
    form.micro_batches = any(3);
    form.dtype = rng.below(4) == 0 ? Dtype::kF64 : Dtype::kF32;
    expect_same(form, seed);
  }
}

// No gradient: losses, and which predictions come true, of any precision.
TEST(ChunkLoss, EvaluationIsChunkedToo) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
    const Form form{.rows = 23, .width = 8, .classes = 40, .chunks = kChunks, .dtype = dtype};
    const Head head = values_of(form, 3);
    const Tensor targets = targets_of(form, 3);
    const auto f = [&](const Head& h, const Tensor& t) {
      const CrossEntropySums sums = linear_cross_entropy(h.x, h.w, t, options_of(form, h));
      return Tensors{sums.loss, sums.count, sums.correct};
    };
    const GraphPtr graph = graph_of(
        [&](std::span<const Tensor> x) {
          return f(Head{x[0], x[1], x[2]}, x[3]);
        },
        {head.x.type(), head.w.type(), head.b.type(), targets.type()});
    EXPECT_EQ(chunked_in(*graph), 1);
    const Tensors chunked = jit(f, {.loss_chunks = kChunks})(head, targets);
    const Tensors whole = jit(f, {.loss_chunks = 1})(head, targets);
    expect_near(chunked[0], whole[0], 1e-5);
    expect_equal(chunked[1], whole[1]);
    expect_equal(chunked[2], whole[2]);
  }
}

// The cotangent of a function of the loss is known only when all rows are: the logits are made again, in chunks too.
TEST(ChunkLoss, HoldsWhereTheGradientNeedsTheLoss) {
  const Form form{.rows = 12, .width = 6, .classes = 31, .bias = true};
  const auto f = [&](const Head& h, const Tensor& t) {
    return grad([&](const Head& at) { return square(sum(rows_of(form, at, at.x, t))); })(h);
  };
  const Head head = values_of(form, 1);
  const Tensor targets = targets_of(form, 1);
  const GraphPtr graph = graph_of(
      [&](std::span<const Tensor> x) {
        return flatten_tree(f(Head{x[0], x[1], x[2]}, x[3]));
      },
      {head.x.type(), head.w.type(), head.b.type(), targets.type()});
  EXPECT_EQ(chunked_in(*graph), 2);
  const Tensors chunked = flatten_tree(jit(f, {.loss_chunks = kChunks})(head, targets));
  const Tensors whole = flatten_tree(f(head, targets));
  for (size_t i = 0; i < whole.size(); ++i) {
    expect_near(chunked[i], whole[i], 1e-4);
  }
}

// Two heads of one weight, each of whose gradients reads the other one's loss.
TEST(ChunkLoss, HoldsForHeadsThatNeedEachOther) {
  const Form form{.rows = 12, .width = 6, .classes = 31};
  const Head head = values_of(form, 2);
  const Tensor targets = targets_of(form, 2);
  for (const bool product : {true, false}) {
    const auto f = [&](const Head& h, const Tensor& t) {
      return grad([&](const Head& at) {
        const Tensor a = sum(rows_of(form, at, at.x, t));
        const Tensor b = sum(rows_of(form, at, tanh(at.x), t));
        return product ? a * b : a + b;
      })(h);
    };
    const Tensors chunked = flatten_tree(jit(f, {.loss_chunks = kChunks})(head, targets));
    const Tensors whole = flatten_tree(f(head, targets));
    for (size_t i = 0; i < whole.size(); ++i) {
      expect_near(chunked[i], whole[i], 1e-4);
    }
  }
}

// What nobody reads is not computed: the gradient of the weight alone takes two products, not three.
TEST(ChunkLoss, MakesNoGradientThatNobodyReads) {
  const Form form{.rows = 12, .width = 6, .classes = 31};
  const Head head = values_of(form, 1);
  const Tensor targets = targets_of(form, 1);
  const auto products = [&](const std::function<Tensors(std::span<const Tensor>)>& f) {
    const GraphPtr optimised =
        optimise(*graph_of(f, {head.x.type(), head.w.type(), targets.type()}), {.loss_chunks = 1});
    int64_t count = 0;
    const std::vector<bool> live = optimised->live();
    for (NodeId id = 0; id < optimised->size(); ++id) {
      count += live[id] && optimised->node(id).op->name == "dot_general" ? 1 : 0;
    }
    return count;
  };
  const auto loss = [&](const Tensor& x, const Tensor& w, const Tensor& t) {
    return linear_cross_entropy(x, w, t, {.transpose_weight = true}).loss;
  };
  EXPECT_EQ(products([&](auto in) { return Tensors{loss(in[0], in[1], in[2])}; }), 1);
  EXPECT_EQ(products([&](auto in) {
              const auto of_weight = [&](const Tensor& w) { return loss(in[0], w, in[2]); };
              return Tensors{grad(of_weight)(in[1])};
            }),
            2);
  EXPECT_EQ(products([&](auto in) {
              const auto of_both = [&](const Tensors& xw) { return loss(xw[0], xw[1], in[2]); };
              return grad(of_both)(Tensors{in[0], in[1]});
            }),
            3);
}

// Beside the weight's gradient there is never more than a chunk of logits.
TEST(ChunkLoss, TakesAFractionOfTheLogits) {
  Form form{.rows = 2048, .width = 32, .classes = 5000, .chunks = 16};
  const int64_t logits = form.rows * form.classes * 4;
  const int64_t weight = form.width * form.classes * 4;
  const GraphPtr graph = graph_of(form);
  const auto arena = [&](int64_t chunks) {
    const auto program = compile(*graph, {.loss_chunks = chunks});
    return program->memory().arena;
  };
  EXPECT_GE(arena(1), logits);
  EXPECT_LT(arena(16), logits / 16 + weight + (1 << 20));
  EXPECT_LE(arena(kAutoChunks), arena(1));
  // With micro-batches the sums are made in place: no second gradient beside them.
  form.micro_batches = 2;
  EXPECT_LT(compile(*graph_of(form), {.loss_chunks = 16})->memory().arena, logits / 16 + (2 << 20));
}

}  // namespace
}  // namespace mstrain
