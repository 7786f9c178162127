// Every model of the suites, with the commands and kinds of runs that they add.
#pragma once

namespace mstrain {

// Makes them known (suites/run/model_run.h). Once, at the start of a program.
void add_all_models();

}  // namespace mstrain
