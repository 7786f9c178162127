#include "core/backends/cuda/driver.h"

#include <gmock/gmock.h>

namespace mstrain::cuda {
namespace {

FoundDevices look_at_fake(const std::string& fault) {
  return look_for_devices(MSTRAIN_FAKE_DRIVERS "/libfake_driver_" + fault + ".so");
}

TEST(CudaDriver, TellsWhatDevicesThereAre) {
  const FoundDevices found = look_at_fake("nothing");
  EXPECT_EQ(found.missing, "");
  EXPECT_EQ(found.driver_version, 13000);
  ASSERT_EQ(found.devices.size(), 2U);
  EXPECT_EQ(found.devices[0].name, "Some GPU");
  EXPECT_EQ(found.devices[0].memory_bytes, 1 << 30);
  EXPECT_EQ(found.devices[1].major, 9);
  EXPECT_EQ(found.devices[1].minor, 1);
}

TEST(CudaDriver, TellsWhyThereIsNone) {
  EXPECT_THAT(look_for_devices("libno_such_driver.so.1").missing,
              testing::StartsWith("libno_such_driver.so.1: "));
  EXPECT_THAT(look_at_fake("no_init").missing, testing::EndsWith(": it has no cuInit"));
  EXPECT_THAT(look_at_fake("init_fails").missing,
              testing::EndsWith(": cuInit says CUDA_ERROR_UNKNOWN (999)"));
  EXPECT_THAT(look_at_fake("no_device").missing, testing::EndsWith(": the driver has no device"));
  EXPECT_THAT(look_at_fake("memory_fails").missing,
              testing::EndsWith(": cuDeviceTotalMem says an error without a name (201)"));
}

}  // namespace
}  // namespace mstrain::cuda
