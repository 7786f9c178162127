// The mstrain command as a function: signals, errors and exit statuses.
#pragma once

namespace mstrain::launcher {

// What main() does once the models are known (suites/run/model_run.h). It may start the program anew, with a short spin of
// OpenMP's threads. Returns the exit status.
int run_program(int argc, char** argv);

}  // namespace mstrain::launcher
