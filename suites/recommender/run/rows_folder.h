// Directories of rows, for mstrain inspect.
#pragma once

#include "suites/run/folder_kind.h"

namespace mstrain::recommender {

FolderKind rows_folder();

}  // namespace mstrain::recommender
