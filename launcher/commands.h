// What `mstrain` can be asked to do. Results go to standard output. Each function returns the exit status: 0 done, 130
// interrupted. They throw ConfigError for bad usage or a bad configuration, PlanError where a plan does not fit, Error else.
#pragma once

#include <atomic>
#include <span>
#include <string>

#include "suites/run/suite.h"

namespace mstrain::launcher {

class Rank;

// With the arguments after the command's name.
int generate(const Usage& usage, Arguments arguments, const std::atomic<bool>& stop);
int evaluate(const Usage& usage, Arguments arguments, const std::atomic<bool>& stop);
int forward(const Usage& usage, Arguments arguments, const std::atomic<bool>& stop);
int export_weights(const Usage& usage, Arguments arguments, const std::atomic<bool>& stop);
int tokenize(const Usage& usage, Arguments arguments, const std::atomic<bool>& stop);
int inspect(const Usage& usage, Arguments arguments, const std::atomic<bool>& stop);
int keys(const Usage& usage, Arguments arguments, const std::atomic<bool>& stop);
int plan(const Usage& usage, Arguments arguments, const std::atomic<bool>& stop);
int watch(const Usage& usage, Arguments arguments, const std::atomic<bool>& stop);
int report(const Usage& usage, Arguments arguments, const std::atomic<bool>& stop);

// Runs the command line without the program's name. What needs one rank only is done by the first.
int run_command_line(Arguments arguments, const std::atomic<bool>& stop, Rank& rank);

}  // namespace mstrain::launcher
