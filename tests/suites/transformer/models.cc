// The tests know every model.
#include "suites/all.h"

namespace mstrain {
namespace {
const bool kModelsAreKnown = (add_all_models(), true);
}
}  // namespace mstrain
