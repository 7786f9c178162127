#include "core/runtime/device.h"

#include <cstdlib>
#include <string_view>

#include "core/base/error.h"
#include "core/runtime/context.h"
#include "core/runtime/deferred_device.h"

namespace mstrain {
namespace {

std::shared_ptr<Device> named_device(const char* name) {
  const std::string_view asked = name == nullptr ? "cpu" : name;
  if (asked == "cpu") {
    return host_device();
  }
  if (asked == "deferred") {
    return make_deferred_device({});
  }
  throw ConfigError(
      fmt::format("MSTRAIN_DEVICE: there is no device {}; there are cpu and deferred", asked));
}

std::shared_ptr<Device>& installed_device() {
  static std::shared_ptr<Device> device = named_device(std::getenv("MSTRAIN_DEVICE"));
  return device;
}

}  // namespace

void Event::settle() const noexcept {
  try {
    if (state_ != nullptr) {
      state_->settle();
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch): told to whoever reads what the work was to make
  }
}

const std::shared_ptr<Device>& default_device() { return installed_device(); }

void install_default_device(std::shared_ptr<Device> device) {
  installed_device() = std::move(device);
  install_default_memory();
}

}  // namespace mstrain
