// mstrain preprocess.
#pragma once

#include "suites/run/folder_kind.h"
#include "suites/run/suite.h"

namespace mstrain::recommender {

Command preprocess_command();
FolderKind prepared_folder();  // what it makes

}  // namespace mstrain::recommender
