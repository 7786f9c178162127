// Every operation on the device that runs late, in memory that the host cannot read: the host's bits, eager and in programs.
#include "core/runtime/deferred_device.h"
#include "core/tensor/host.h"
#include "tests/conformance/cases.h"

namespace mstrain {
namespace {

const Context& late_context() {
  static const Context context = [] {
    Context made;
    made.allocator = std::make_shared<Allocator>(Allocator::kCacheLimit, make_deferred_device({}));
    made.threads = 2;
    return made;
  }();
  return context;
}

const Context& host_context() {
  static const Context context = [] {
    Context made;
    made.allocator = std::make_shared<Allocator>(Allocator::kCacheLimit, host_device());
    made.threads = 2;
    return made;
  }();
  return context;
}

struct Results {
  Tensors eager, jitted;
};

Results results_on(const Context& context, const Case& it) {
  const ContextScope scope(context);
  const Tensors inputs = inputs_of(it);
  return {run(it, inputs), run_jitted(it, inputs, 2)};
}

class Devices : public OpTest {};

TEST_P(Devices, ResultsAreTheHostsBits) {
  for (const Case& it : some(cases_of(op()), 12)) {
    const Results late = results_on(late_context(), it);
    const Results expected = results_on(host_context(), it);
    ASSERT_EQ(late.eager.size(), expected.eager.size());
    for (size_t o = 0; o < expected.eager.size(); ++o) {
      EXPECT_EQ(bit_difference(late.eager[o], expected.eager[o]), "") << to_string(it);
      EXPECT_EQ(bit_difference(late.jitted[o], expected.jitted[o]), "") << to_string(it);
    }
  }
}

MSTRAIN_FOR_OPS(Devices, has_samples);

}  // namespace
}  // namespace mstrain
