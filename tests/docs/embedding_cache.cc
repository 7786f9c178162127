// What the snippets of docs/embedding_cache.md take for granted; scripts/check_docs.py puts them here, compiles and runs them.
#include <fmt/core.h>

#include <span>
#include <vector>

#include "core/base/error.h"

// @includes

namespace {

const std::vector<Id> ids{7, 1, 7, 42, 1'000'000'007, 3};

std::span<const Id> ids_of(uint64_t step) { return std::span(ids).subspan(step % 3); }

void forward_and_backward(std::span<const float> values, std::vector<float>& gradients) {
  gradients.assign(values.begin(), values.end());
}

void train_and_serve() {
  constexpr uint64_t step = 1;
  constexpr float lr = 1e-3F;
  const std::vector<std::byte> user_blob(5);
  {
    // @cpp 1
    mstrain::check(id == 1 && weights[0] != 0, "the first snippet did not learn");
    // @cpp 2
    mstrain::check(cache.last_step() == 10'000, "the second stopped at {}", cache.last_step());
  }
  {
    std::vector<float> weights(ids.size() * 81);
    // @cpp 3
    mstrain::check(weights[0] == weights[2 * 81] && reader.step() == 10'000,
                   "the third serves others");
  }
}

}  // namespace

int main() {
  try {
    train_and_serve();
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
}
