// A compiled step makes no heap allocation in this project's code, and none of 4 KiB or more in any library. The program's own
// malloc and its relatives stand before those of the C library and count while a program runs; who asked is told by the
// return address.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "core/base/rng.h"
#include "core/nn/random_scope.h"
#include "core/ops/build.h"
#include "core/ops/random.h"
#include "core/tensor/host.h"
#include "core/train/session.h"
#include "suites/transformer/gpt/gpt_run.h"

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

namespace {

struct Request {
  void* caller;
  size_t bytes;
};
constexpr size_t kMost = 100000;
constexpr size_t kPage = 4096;
Request g_requests[kMost];
std::atomic<size_t> g_count{0};
std::atomic<bool> g_counting{false};

void note(void* caller, size_t bytes) {
  if (g_counting.load(std::memory_order_relaxed)) {
    const size_t at = g_count.fetch_add(1);
    if (at < kMost) {
      g_requests[at] = {caller, bytes};
    }
  }
}

}  // namespace

extern "C" {
void* malloc(size_t bytes) {
  note(__builtin_return_address(0), bytes);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  note(__builtin_return_address(0), count * bytes);
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  note(__builtin_return_address(0), bytes);
  return __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  note(__builtin_return_address(0), bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  note(__builtin_return_address(0), bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  note(__builtin_return_address(0), bytes);
  *out = __libc_memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}
}

// Not inlined, so that return addresses are those of the callers.
[[gnu::noinline]] void* operator new(size_t bytes) {
  note(__builtin_return_address(0), bytes);
  void* data = __libc_malloc(bytes);
  return data != nullptr ? data : throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, size_t) noexcept { std::free(data); }

namespace mstrain {
namespace {

// The file that an address of code lies in.
std::string file_of(void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

bool is_library(const std::string& file) {
  return file.find("libdnnl") != std::string::npos || file.find("libgomp") != std::string::npos;
}

struct Allocations {
  size_t ours = 0;
  size_t largest = 0;  // in libraries
  std::string first;
};

// What is asked for while f runs.
template <class F>
Allocations allocations_in(const F& f) {
  g_count = 0;
  g_counting = true;
  f();
  g_counting = false;
  Allocations result;
  for (size_t i = 0; i < std::min<size_t>(g_count, kMost); ++i) {
    const std::string file = file_of(g_requests[i].caller);
    if (is_library(file)) {
      result.largest = std::max(result.largest, g_requests[i].bytes);
    } else if (++result.ours == 1) {
      result.first = fmt::format("{} bytes for {}", g_requests[i].bytes, file);
    }
  }
  return result;
}

TEST(Allocation, IsSeenByTheCounters) {
  const auto seen = allocations_in([] {
    const auto kept = std::make_unique<std::vector<int>>(100);
    EXPECT_EQ(kept->size(), 100U);
    std::free(std::malloc(10));
  });
  EXPECT_EQ(seen.ours, 3U);
  EXPECT_EQ(allocations_in([] {}).ours, 0U);
}

// A GPT whose products are large enough to be cut, and whose step has loops, dropout and clipping.
class Step : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Step, AllocatesNothing) {
  YamlNode tree = parse_yaml(
      "model: {type: gpt, vocab_size: 1000, hidden_size: 128, num_layers: 2,\n"
      "        num_attention_heads: 4, max_position_embeddings: 64, dropout: {hidden: 0.1}}\n"
      "data: {train: none.txt, seq_length: 64}\n"
      "batch: {global: 8, micro: 8}\n"
      "run: {threads: 2}\n",
      "step.yaml");
  apply_overrides(tree, GetParam());
  gpt::GptRun config;
  config.read(tree);
  const TrainTask task = config.task();
  const Context context = make_context(config.train);
  const ContextScope scope(context);
  const StepProgram program(task, config.train, *config.train.batch.micro.value, context);
  TrainState state = program.first_state(init_params(task.parameters, 1));
  std::vector<int32_t> ids(8 * 64);
  Rng rng(1);
  for (int32_t& id : ids) {
    id = static_cast<int32_t>(rng.below(1000));
  }
  const Tensor tokens = tensor<int32_t>(ids, {8, 64});
  Tensor held;  // the trainer reads a step's loss while the next one runs
  for (int i = 0; i < 6; ++i) {
    Tensors inputs = flatten_tree(state);
    state = {};
    inputs.insert(inputs.end(), {tokens, tokens, scalar(1e-3), rng_key(7), scalar(i, Dtype::kI32)});
    Tensors results;
    const auto seen = allocations_in(
        [&] { results = const_cast<Program*>(program.program())->run(std::move(inputs)); });
    if (i >= 3) {
      EXPECT_EQ(seen.ours, 0U) << "step " << i << ", first " << seen.first;
      EXPECT_LT(seen.largest, kPage) << "step " << i;
    }
    held = results[results.size() - 2];
    results.resize(results.size() - 2);
    state = with_leaves(program.form(), results);
  }
  EXPECT_TRUE(std::isfinite(item(held)));
}

using Overrides = std::vector<std::string>;
INSTANTIATE_TEST_SUITE_P(
    Of, Step,
    testing::Values(Overrides{}, Overrides{"batch.micro=2"}, Overrides{"memory.recompute=full"},
                    Overrides{"memory.recompute=selective", "memory.loss_chunks=3"},
                    Overrides{"batch.micro=4", "memory.loss_chunks=3"},
                    Overrides{"fusion.level=O0"}, Overrides{"fusion.level=O1"},
                    Overrides{"precision={params: bf16, moments: int8}", "batch.micro=4"},
                    Overrides{"precision={params: bf16, grads: bf16, master: none, moments: bf16}"},
                    Overrides{"run.threads=1"}));

}  // namespace
}  // namespace mstrain
