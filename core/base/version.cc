#include "core/base/version.h"

namespace mstrain {

std::string_view version() { return MSTRAIN_VERSION; }

}  // namespace mstrain
