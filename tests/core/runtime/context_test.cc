#include "core/runtime/context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

namespace mstrain {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Context, ScopesRefuseThreadsThatNoMachineHas) {
  const int before = current_context().num_threads();
  for (const int threads : {-1, 1025, 100000}) {
    const Context context{.threads = threads};
    const std::string words = std::to_string(threads) + " threads; expected 1 to 1024, or 0";
    EXPECT_THAT([&] { const ContextScope scope(context); }, ThrowsMessage<Error>(HasSubstr(words)));
    EXPECT_THAT([&] { const ContextScope scope({.threads = threads}); },
                ThrowsMessage<Error>(HasSubstr(words)));
    EXPECT_EQ(current_context().num_threads(), before);
  }
  const ContextScope scope({.threads = 1024});
  EXPECT_EQ(current_context().num_threads(), 1024);
}

}  // namespace
}  // namespace mstrain
