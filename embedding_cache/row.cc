#include "embedding_cache/row.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/rng.h"

namespace mstrain::embedding_cache {
namespace {

const char* optimizer_name(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd: return "sgd";
    case OptimizerKind::kAdagrad: return "adagrad";
    case OptimizerKind::kRowwiseAdagrad: return "rowwise_adagrad";
    case OptimizerKind::kFtrl: return "ftrl";
    case OptimizerKind::kLazyAdam: return "lazy_adam";
  }
  return "unknown";
}

std::string describe(const InitOptions& init) {
  switch (init.kind) {
    case InitKind::kZero: return "zero";
    case InitKind::kConstant: return fmt::format("constant({})", init.scale);
    case InitKind::kUniform: return fmt::format("uniform({})", init.scale);
    case InitKind::kNormal: return fmt::format("normal({})", init.scale);
  }
  return "unknown";
}

// Box-Muller: two uniforms give two normals. 1 - u is in (0, 1].
void two_normals(uint32_t bits0, uint32_t bits1, float scale, float* out, uint32_t count) {
  const float radius = scale * std::sqrt(-2.0F * std::log(1.0F - to_unit_float(bits0)));
  const float angle = 2.0F * std::numbers::pi_v<float> * to_unit_float(bits1);
  out[0] = radius * std::cos(angle);
  if (count > 1) {
    out[1] = radius * std::sin(angle);
  }
}

void fill_random(const InitOptions& init, PhiloxKey key, Id id, uint32_t stream, float* out,
                 uint32_t width) {
  for (uint32_t i = 0; i < width; i += 4) {
    const uint64_t block = (static_cast<uint64_t>(stream) << 32) | (i / 4);
    const PhiloxCounter bits = philox(philox_counter(id, block), key);
    const uint32_t count = std::min(4U, width - i);
    if (init.kind == InitKind::kNormal) {
      two_normals(bits[0], bits[1], init.scale, out + i, count);
      if (count > 2) {
        two_normals(bits[2], bits[3], init.scale, out + i + 2, count - 2);
      }
    } else {
      for (uint32_t j = 0; j < count; ++j) {
        out[i + j] = init.scale * (2.0F * to_unit_float(bits[j]) - 1.0F);
      }
    }
  }
}

}  // namespace

uint32_t state_floats(OptimizerKind kind, uint32_t width) {
  switch (kind) {
    case OptimizerKind::kSgd: return 0;
    case OptimizerKind::kAdagrad: return width;
    case OptimizerKind::kRowwiseAdagrad: return 1;
    case OptimizerKind::kFtrl:
    case OptimizerKind::kLazyAdam: return 2 * width;
  }
  fail("embedding_cache: unknown optimizer {}", static_cast<int>(kind));
}

RowLayout::RowLayout(const TableOptions& table) {
  for (const Segment& segment : table.segments) {
    parts_.push_back({.width = segment.width,
                      .weights = width_,
                      .state = 0,
                      .state_width = state_floats(segment.optimizer.kind, segment.width),
                      .options = segment});
    width_ += segment.width;
    schema_ +=
        fmt::format("{}{}:{}:{}", schema_.empty() ? "" : " + ",
                    optimizer_name(segment.optimizer.kind), segment.width, describe(segment.init));
    if (segment.optimizer.learns_always()) {  // what is past is gone through with what holds now
      const OptimizerOptions& o = segment.optimizer;
      schema_ += fmt::format(":always(lr {}, beta1 {}, beta2 {}, eps {}, l2 {})", o.lr, o.beta1,
                             o.beta2, o.eps, o.l2);
    }
  }
  uint32_t floats = width_;
  for (Part& part : parts_) {
    part.state = floats;
    floats += part.state_width;
  }
  record_bytes_ = kHeaderBytes + floats * 4;
  if (std::any_of(table.segments.begin(), table.segments.end(),
                  [](const Segment& each) { return each.optimizer.learns_always(); })) {
    until_ = record_bytes_;
    record_bytes_ += sizeof(uint32_t);
  }
}

void RowLayout::initialise(uint64_t table_seed, Id id, std::byte* record) const {
  store_header(record, {});
  begin_until(record);
  float* floats = weights_of(record);
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    const InitOptions& init = part.options.init;
    float* weights = floats + part.weights;
    if (init.kind == InitKind::kZero || init.kind == InitKind::kConstant) {
      std::fill_n(weights, part.width, init.kind == InitKind::kZero ? 0.0F : init.scale);
    } else {
      fill_random(init, philox_key(table_seed), id, static_cast<uint32_t>(i), weights, part.width);
    }
  }
  begin_state(floats);
}

void RowLayout::begin_state(float* floats) const {
  for (const Part& part : parts_) {
    const OptimizerOptions& optimizer = part.options.optimizer;
    const bool accumulates = optimizer.kind == OptimizerKind::kAdagrad ||
                             optimizer.kind == OptimizerKind::kRowwiseAdagrad ||
                             optimizer.kind == OptimizerKind::kFtrl;
    const uint32_t sums = optimizer.kind == OptimizerKind::kRowwiseAdagrad ? 1 : part.width;
    float* const state = floats + part.state;
    std::fill_n(state, part.state_width, 0.0F);
    if (accumulates) {
      std::fill_n(state, sums, optimizer.initial_accumulator);
    }
  }
}

void RowLayout::begin_with(const float* weights, std::byte* record) const {
  store_header(record, {.step = 0, .updates = 1});
  begin_until(record);
  float* const floats = weights_of(record);
  std::copy_n(weights, width_, floats);
  begin_state(floats);
  for (const Part& part : parts_) {
    const OptimizerOptions& o = part.options.optimizer;
    if (o.kind != OptimizerKind::kFtrl) {
      continue;
    }
    float* const z = floats + part.state + part.width;
    for (uint32_t i = 0; i < part.width; ++i) {
      const float w = weights[part.weights + i];
      z[i] = w == 0 ? 0.0F
                    : -w * (std::sqrt(o.initial_accumulator) / o.lr + 2 * o.l2) -
                          std::copysign(o.l1, w);
    }
  }
}

uint64_t table_seed(uint64_t seed, const std::string& table_name) {
  return Hasher(seed).add(table_name).finish().lo;
}

}  // namespace mstrain::embedding_cache
