// The mixer as the mstrain command sees it.
#pragma once

#include "suites/run/model_run.h"

namespace mstrain::mixer {

ModelEntry entry();

}  // namespace mstrain::mixer
