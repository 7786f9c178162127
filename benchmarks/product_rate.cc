#include "benchmarks/product_rate.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>

#include "core/backends/cpu/onednn.h"
#include "core/ops/dot_general.h"

namespace mstrain {
namespace {

using dnnl::memory;
using Clock = std::chrono::steady_clock;

struct Shape3 {
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b;
  friend auto operator<=>(const Shape3&, const Shape3&) = default;
};

bool is_product(const PlanStep& step) { return step.op == &kDotGeneral; }

// Calls f(step, how often it runs) for every kernel.
void for_steps(const Plan& plan, double runs,
               const std::function<void(const PlanStep&, double)>& f) {
  for (const PlanStep& step : plan.steps) {
    if (step.loop == nullptr) {
      f(step, runs);
    } else {
      for_steps(*step.loop->body,
                runs * static_cast<double>(std::max<int64_t>(step.loop->length, 1)), f);
    }
  }
}

Shape3 shape_of(const PlanStep& step) {
  DotDims dims = dot_dims(step.attrs);
  const auto has = [](const std::string& letters, char letter) {
    return letters.find(letter) != std::string::npos;
  };
  std::map<char, int64_t> sizes;
  for (const auto& [i, letters] : {std::pair{size_t{0}, dims.a}, {size_t{1}, dims.b}}) {
    for (size_t d = 0; d < letters.size(); ++d) {
      sizes[letters[d]] = step.inputs[i].view.type.shape[static_cast<int>(d)];
    }
  }
  if (!dims.out.empty() && !has(dims.b, dims.out.back())) {
    std::swap(dims.a, dims.b);  // columns are those of b
  }
  Shape3 shape{1, 1, 1, 1, false, false};
  for (const auto& [letter, size] : sizes) {
    const bool summed = !has(dims.out, letter);
    const bool batch = has(dims.a, letter) && has(dims.b, letter);
    (summed ? shape.k : batch ? shape.batch : has(dims.a, letter) ? shape.m : shape.n) *= size;
  }
  shape.transpose_a = has(dims.out, dims.a.back());
  shape.transpose_b = !has(dims.out, dims.b.back());
  return shape;
}

// The median over some runs of at least 10 ms each.
double seconds_of(const std::function<void()>& run) {
  run();
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    const auto begin = Clock::now();
    int runs = 0;
    double seconds = 0;
    do {
      run();
      ++runs;
      seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    } while (seconds < 0.01);
    times.push_back(seconds / runs);
  }
  std::nth_element(times.begin(), times.begin() + 2, times.end());
  return times[2];
}

double seconds_of(const Shape3& s, int threads) {
  omp_set_num_threads(threads);
  const dnnl::engine& engine = cpu::onednn_engine();  // limited as MSTRAIN_ISA says
  dnnl::stream stream(engine);
  std::vector<float> a(static_cast<size_t>(s.batch * s.m * s.k));
  std::vector<float> b(static_cast<size_t>(s.batch * s.k * s.n));
  std::vector<float> c(static_cast<size_t>(s.batch * s.m * s.n));
  uint32_t state = 1;
  for (auto* x : {&a, &b}) {
    for (float& value : *x) {
      state = state * 1664525U + 1013904223U;
      value = static_cast<float>(state >> 8) * 0x1p-24F - 0.5F;
    }
  }
  const auto type = memory::data_type::f32;
  const auto describe = [&](int64_t rows, int64_t columns, bool transposed) {
    const memory::dims strides = transposed ? memory::dims{rows * columns, 1, rows}
                                            : memory::dims{rows * columns, columns, 1};
    return memory::desc({s.batch, rows, columns}, type, strides);
  };
  const memory::desc da = describe(s.m, s.k, s.transpose_a);
  const memory::desc db = describe(s.k, s.n, s.transpose_b);
  const memory::desc dc = describe(s.m, s.n, false);
  // Scratch memory of its own: oneDNN's would stay with the process, whose peak is measured too.
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::matmul::primitive_desc primitive(dnnl::matmul::desc(da, db, dc), attributes, engine);
  const dnnl::matmul matmul(primitive);
  memory ma(da, engine, a.data());
  memory mb(db, engine, b.data());
  memory mc(dc, engine, c.data());
  memory scratch(primitive.scratchpad_desc(), engine);
  double best = seconds_of([&] {
    matmul.execute(stream, {{DNNL_ARG_SRC, ma},
                            {DNNL_ARG_WEIGHTS, mb},
                            {DNNL_ARG_DST, mc},
                            {DNNL_ARG_SCRATCHPAD, scratch}});
  });
  if (s.batch == 1) {
    best = std::min(best, seconds_of([&] {
                      dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n,
                                 s.k, 1.0F, a.data(), s.transpose_a ? s.m : s.k, b.data(),
                                 s.transpose_b ? s.k : s.n, 0.0F, c.data(), s.n);
                    }));
  }
  return best;
}

}  // namespace

double product_seconds(int64_t batch, int64_t m, int64_t n, int64_t k, bool transpose_a,
                       bool transpose_b, int threads) {
  return seconds_of({batch, m, n, k, transpose_a, transpose_b}, threads);
}

ProductRate product_rate(const Plan& plan, int threads) {
  std::map<Shape3, double> runs;
  for_steps(plan, 1, [&](const PlanStep& step, double count) {
    if (is_product(step)) {
      runs[shape_of(step)] += count;
    }
  });
  ProductRate rate;
  for (const auto& [shape, count] : runs) {
    rate.flops += count * 2.0 * static_cast<double>(shape.batch * shape.m) *
                  static_cast<double>(shape.n * shape.k);
    rate.seconds += count * seconds_of(shape, threads);
    ++rate.shapes;
  }
  return rate;
}

double attention_flops(const Plan& plan) {
  double flops = 0;
  for_steps(plan, 1, [&](const PlanStep& step, double count) {
    flops += step.op->name.starts_with("attention") ? count * step.cost.flops : 0;
  });
  return flops;
}

}  // namespace mstrain
