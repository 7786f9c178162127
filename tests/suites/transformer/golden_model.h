// Tiny models as Hugging Face computes them in double precision: the files tests/golden/*_hf.json, which the scripts of
// their names write, and the weights of tests/golden/philox_weights.py.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/base/json.h"
#include "core/base/rng.h"
#include "core/ops/elementwise.h"
#include "core/tensor/host.h"
#include "core/tensor/params.h"

namespace mstrain::golden {

struct Gradient {
  std::string name;
  double norm, greatest;  // greatest: of the absolute values
  double middle;          // element number count / 2
};

struct Case {
  std::string name;
  Json config;  // keys of config.json, where not those that all models of the script have
  double loss;
  std::vector<double> logits;       // of one place
  std::vector<Gradient> gradients;  // in the order of the streams that their weights are drawn from
  Json rest;                        // what else the script says of it
};

struct File {
  std::vector<Case> cases;
  Json rest;
};

// tests/golden/<name>.json
inline File read_file(const std::string& name) {
  const std::string path = std::string(MSTRAIN_SOURCE_DIR) + "/tests/golden/" + name + ".json";
  File file;
  file.rest = parse_json(real_files().read(path), path);
  for (const Json& each : file.rest.at("cases")) {
    std::vector<Gradient> gradients;
    for (const Json& row : each.at("gradients")) {
      gradients.push_back({row.at(0), row.at(1), row.at(2), row.at(3)});
    }
    file.cases.push_back({each.at("name"), each.at("config"), each.at("loss"), each.at("logits"),
                          std::move(gradients), each});
  }
  return file;
}

inline std::vector<double> weights(std::string_view name, int64_t count, uint64_t stream) {
  constexpr uint64_t kSeed = 20240601;
  const bool is_norm = name.ends_with("weight") && (name.find(".ln_") != std::string::npos ||
                                                    name.find("norm") != std::string::npos);
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t word =
        philox(philox_counter(static_cast<uint64_t>(i), stream), philox_key(kSeed))[0];
    const double centred = 2 * static_cast<double>(word >> 8) * 0x1p-24 - 1;
    values.push_back(is_norm ? 1 + 0.25 * centred : 0.5 * centred);
  }
  return values;
}

// The weights of a model with the parameters of `expected`, in the order of `specs`.
inline Params params(const std::vector<ParamSpec>& specs, const Case& expected, Dtype dtype) {
  std::map<std::string, uint64_t> streams;
  for (const Gradient& gradient : expected.gradients) {
    streams.emplace(gradient.name, streams.size());
  }
  EXPECT_EQ(specs.size(), streams.size()) << expected.name;
  Params p;
  for (const ParamSpec& spec : specs) {
    const auto values = weights(spec.name, spec.type.elements(), streams.at(spec.name));
    p.set(spec.name, cast(tensor<double>(values, spec.type.shape), dtype));
  }
  return p;
}

// Tokens below 11 that cases of language models read, [2, 6].
inline Tensor tokens() {
  std::vector<int32_t> ids;
  for (int b = 0; b < 2; ++b) {
    for (int t = 0; t < 6; ++t) {
      ids.push_back((7 * b + 3 * t + b * t) % 11);
    }
  }
  return tensor<int32_t>(ids, {2, 6});
}

// How far from a number another may be: `relative` for each unit of the greatest one.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
  double of(double size) const { return absolute + relative * size; }
};

inline void expect_gradient(const std::vector<double>& g, const Gradient& expected,
                            const Tolerance& tolerance) {
  SCOPED_TRACE(expected.name);
  double squares = 0;
  double greatest = 0;
  for (const double element : g) {
    squares += element * element;
    greatest = std::max(greatest, std::abs(element));
  }
  EXPECT_NEAR(std::sqrt(squares), expected.norm, tolerance.of(expected.norm));
  EXPECT_NEAR(greatest, expected.greatest, tolerance.of(expected.greatest));
  EXPECT_NEAR(g[g.size() / 2], expected.middle, tolerance.of(expected.greatest));
}

inline void expect_gradients(const Params& grads, const Case& expected,
                             const Tolerance& tolerance) {
  ASSERT_EQ(grads.size(), expected.gradients.size());
  for (const Gradient& gradient : expected.gradients) {
    const Tensor* const grad = grads.find(gradient.name);
    ASSERT_NE(grad, nullptr) << gradient.name;
    expect_gradient(to_doubles(*grad), gradient, tolerance);
  }
}

}  // namespace mstrain::golden
