// The float functions in the vector loops of every instruction set against long double, over all exponents and signs:
// random mantissas and the ends of each binade. MSTRAIN_LONG_TESTS=1 tries all 2^32 arguments
// (some minutes for each function).
#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "core/backends/cpu/loops.h"
#include "core/base/rng.h"
#include "core/ops/scalar_math.h"
#include "tests/amount.h"

namespace mstrain::cpu {
namespace {

using Exact = long double (*)(long double);

long double sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }

// x times what goes to zero faster than x grows towards -inf.
long double gated(long double x, long double gate) { return x == -INFINITY ? -0.0L : x * gate; }

const std::map<std::string, Exact>& exact_functions() {
  static const std::map<std::string, Exact> functions = {
      {"sqrt", [](long double x) { return std::sqrt(x); }},
      {"rsqrt", [](long double x) { return 1 / std::sqrt(x); }},
      {"exp", [](long double x) { return std::exp(x); }},
      {"expm1", [](long double x) { return std::expm1(x); }},
      {"log", [](long double x) { return std::log(x); }},
      {"log1p", [](long double x) { return std::log1p(x); }},
      {"sin", [](long double x) { return std::sin(x); }},
      {"cos", [](long double x) { return std::cos(x); }},
      {"tanh", [](long double x) { return std::tanh(x); }},
      {"erf", [](long double x) { return std::erf(x); }},
      {"exp2", [](long double x) { return std::exp2(x); }},
      {"log2", [](long double x) { return std::log2(x); }},
      {"log10", [](long double x) { return std::log10(x); }},
      {"cbrt", [](long double x) { return std::cbrt(x); }},
      {"tan", [](long double x) { return std::tan(x); }},
      {"asin", [](long double x) { return std::asin(x); }},
      {"acos", [](long double x) { return std::acos(x); }},
      {"atan", [](long double x) { return std::atan(x); }},
      {"sinh", [](long double x) { return std::sinh(x); }},
      {"cosh", [](long double x) { return std::cosh(x); }},
      {"asinh", [](long double x) { return std::asinh(x); }},
      {"acosh", [](long double x) { return std::acosh(x); }},
      {"atanh", [](long double x) { return std::atanh(x); }},
      {"sigmoid", sigmoid},
      {"softplus",
       [](long double x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x))); }},
      {"silu", [](long double x) { return gated(x, sigmoid(x)); }},
      {"gelu", [](long double x) { return gated(x, std::erfc(-x * std::sqrt(0.5L)) / 2); }},
      {"gelu_tanh",
       [](long double x) {
         const long double u =
             2 * std::sqrt(2 / 3.14159265358979323846L) * (x + 0.044715L * x * x * x);
         return gated(x, sigmoid(u));
       }},
  };
  return functions;
}

// The size of a unit in the last place at `value`.
long double unit_at(long double value) {
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1.0L, std::max(exponent, -125) - 24);
}

// How far `got` lies from `exact`, in units; 0 where both overflow alike or are NaN.
long double distance(long double exact, float got, float x, bool of_argument) {
  constexpr long double kWrong = 1e9;
  if (std::isnan(exact) || std::isnan(got)) {
    return std::isnan(exact) && std::isnan(got) ? 0 : kWrong;
  }
  if (std::isinf(got) || std::isinf(exact)) {
    // The largest finite number and infinity are neighbours.
    const bool near = std::abs(exact) >= 3.4028230e38L && std::signbit(exact) == std::signbit(got);
    return near && (std::isinf(got) || !std::isinf(exact)) ? 0 : kWrong;
  }
  const long double scale =
      of_argument ? std::max(std::abs(exact), std::abs((long double)x)) : exact;
  return std::abs(static_cast<long double>(got) - exact) / unit_at(scale);
}

// Calls f with tiles of arguments.
template <class F>
void for_arguments(const F& f) {
  std::vector<float> tile;
  const auto visit = [&](uint32_t bits) {
    tile.push_back(std::bit_cast<float>(bits));
    if (tile.size() == kTile) {
      f(tile);
      tile.clear();
    }
  };
  if (long_tests()) {
    for (uint64_t bits = 0; bits < uint64_t{1} << 32; ++bits) {
      visit(static_cast<uint32_t>(bits));
    }
    return;
  }
  Rng rng(20);
  for (uint32_t binade = 0; binade < 512; ++binade) {  // sign and exponent
    const uint32_t first = binade << 23;
    for (uint32_t end = 0; end < 20; ++end) {
      visit(first + end);
      visit(first + (1U << 23) - 1 - end);
    }
    for (int i = 0; i < 150; ++i) {
      visit(first + static_cast<uint32_t>(rng.below(1U << 23)));
    }
  }
  f(tile);
}

class ErrorBounds : public testing::TestWithParam<const char*> {};

TEST_P(ErrorBounds, HoldInTheLoopsOfEveryInstructionSet) {
  std::fesetenv(FE_DFL_ENV);  // execution, which other tests begin, flushes denormal numbers
  for (const scalar::ErrorBound& bound : scalar::kErrorBounds) {
    if (bound.name != std::string_view(GetParam())) {
      continue;
    }
    const Exact exact = exact_functions().at(bound.name);
    struct Worst {
      long double ulps = 0;
      float at = 0;
    };
    std::map<std::string, std::pair<TileLoop, Worst>> sets;
    for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
      const Loops* loops = loops_for(isa);
      for (int i = 0; loops != nullptr && i < loops->elementwise->count; ++i) {
        if (std::string_view(loops->elementwise->rows[i].name) == bound.name) {
          sets[std::string(to_string(isa))].first = loops->elementwise->rows[i].f32;
        }
      }
    }
    ASSERT_TRUE(sets.contains("baseline")) << bound.name;
    for_arguments([&](const std::vector<float>& x) {
      std::vector<long double> expected;
      for (float value : x) {
        expected.push_back(exact(static_cast<long double>(value)));
      }
      std::vector<float> y(x.size());
      const void* const inputs[1] = {x.data()};
      for (auto& [isa, set] : sets) {
        auto& [loop, worst] = set;
        loop(static_cast<int64_t>(x.size()), inputs, y.data());
        for (size_t i = 0; i < x.size(); ++i) {
          if (std::abs(x[i]) > bound.within) {
            continue;
          }
          const long double off = distance(expected[i], y[i], x[i], bound.of_argument);
          if (off > worst.ulps) {
            worst = {off, x[i]};
          }
        }
      }
    });
    for (const auto& [isa, set] : sets) {
      const Worst& worst = set.second;
      EXPECT_LE(worst.ulps, bound.ulps) << bound.name << " of " << isa << " at " << worst.at;
      RecordProperty(std::string(bound.name) + "." + isa, std::to_string(worst.ulps));
    }
  }
}

std::vector<const char*> names() {
  std::vector<const char*> names;
  for (const scalar::ErrorBound& bound : scalar::kErrorBounds) {
    if (names.empty() || names.back() != std::string_view(bound.name)) {
      names.push_back(bound.name);
    }
  }
  return names;
}
INSTANTIATE_TEST_SUITE_P(Of, ErrorBounds, testing::ValuesIn(names()),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace mstrain::cpu
