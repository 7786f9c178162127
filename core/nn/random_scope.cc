#include "core/nn/random_scope.h"

#include <utility>

#include "core/ops/elementwise.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

thread_local const RandomScope* innermost = nullptr;

}  // namespace

RandomScope::RandomScope(Tensor key, std::optional<SamplePart> samples)
    : key_(std::move(key)),
      samples_(std::move(samples)),
      previous_(std::exchange(innermost, this)) {}

RandomScope::~RandomScope() { innermost = previous_; }

const RandomScope& RandomScope::scope(const std::string& path) {
  check(innermost != nullptr,
        "{}: draws random numbers, but no RandomScope gives a key; open one around the model",
        path);
  return *innermost;
}

const Tensor& RandomScope::key(const std::string& path) { return scope(path).key_; }

std::optional<RandomPart> RandomScope::part(const std::string& path, const Shape& shape) {
  const auto& samples = scope(path).samples_;
  if (!samples) {
    return std::nullopt;
  }
  check(shape.rank() > 0 && shape[0] % samples->count == 0,
        "{}: draws {} for {} samples; the leading dim must count them", path, to_string(shape),
        samples->count);
  const int64_t rows = shape[0] / samples->count;  // of each sample
  Shape whole = shape;
  whole[0] = rows * samples->whole;
  const Tensor first = reshape(samples->first * static_cast<double>(rows), {1});
  return RandomPart{pad(first, {0}, {shape.rank() - 1}), whole};
}

}  // namespace mstrain
