#include "core/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mstrain {
namespace {

SourceLocation here(SourceLocation where = SourceLocation::current()) { return where; }

TEST(Error, PlacesAreRelativeToTheSourceTreeAndWholeOutsideOfIt) {
  EXPECT_THAT(to_string(here()), testing::StartsWith("tests/core/base/error_test.cc:"));
// A tree beside this one, whose name begins like its own.
#line 43 MSTRAIN_NEIGHBOUR
  EXPECT_EQ(to_string(here()), MSTRAIN_NEIGHBOUR ":43");
}

}  // namespace
}  // namespace mstrain
