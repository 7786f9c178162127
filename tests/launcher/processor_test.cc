// What the environment and the machine change.
#include <gmock/gmock.h>

#include "core/base/isa.h"
#include "tests/core/train/memory_disk.h"
#include "tests/launcher/command.h"

namespace mstrain {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Processor, TheEnvironmentLimitsTheInstructionSet) {
  const Environment limit("MSTRAIN_ISA", "avx2");
  EXPECT_THAT(run_command({"--version"}).out, HasSubstr("\ninstruction set avx2"));
}

TEST(Processor, AnUnknownInstructionSetIsStatus2BeforeAnythingBegins) {
  const Environment limit("MSTRAIN_ISA", "avx3");
  const CommandResult result = run_command({"--version"});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err,
              StartsWith("MSTRAIN_ISA=avx3: unknown instruction set; did you mean avx2"));
}

TEST(Processor, AnUnknownDeviceIsStatus2BeforeAnythingBegins) {
  const Environment device("MSTRAIN_DEVICE", "nope");
  const CommandResult result = run_command({"--version"});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("MSTRAIN_DEVICE: there is no device nope"));
}

TEST(Processor, FewerThreadsThanARunIsToHaveAreStatus2) {
  const SmallRun run;
  const Environment limit("OMP_THREAD_LIMIT", "2");
  const CommandResult more = run_command(run.arguments("run", {"run.threads=3"}));
  EXPECT_EQ(more.status, 2) << more.err;
  EXPECT_THAT(more.err, HasSubstr("run.threads: OpenMP starts 2 of 3 threads, with an "
                                  "OMP_THREAD_LIMIT of 2; set that to 3, or run.threads to 2"));
  const CommandResult fewer = run_command(run.arguments("run", {"run.threads=2"}));
  EXPECT_EQ(fewer.status, 0) << fewer.err;
}

TEST(Processor, ARunThatGoesOnUnderAnotherNumberOfThreadsWarnsOnce) {
  const SmallRun run;
  const std::string threads = "run.threads=";
  const CommandResult first =
      run_command(run.arguments("run", {"run.time_limit_hours=1.0e-9", threads + "1"}));
  ASSERT_EQ(first.status, 130) << first.err;
  const CommandResult same =
      run_command(run.arguments("run", {"run.time_limit_hours=1.0e-9", threads + "1"}));
  EXPECT_THAT(same.err, Not(HasSubstr("last bits")));
  const CommandResult other = run_command(run.arguments("run", {threads + "2"}));
  EXPECT_EQ(other.status, 0) << other.err;
  const std::string set(to_string(isa()));
  const std::string warning = "made with " + set + " and 1 thread, going on with " + set +
                              " and 2: numbers differ in their last bits";
  EXPECT_THAT(other.err, HasSubstr(warning));
  EXPECT_EQ(other.err.find(warning), other.err.rfind(warning));
}

}  // namespace
}  // namespace mstrain
