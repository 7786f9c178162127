// main() of a program whose errors end in a message.
#pragma once

#include <cstdio>
#include <exception>

namespace mstrain {

inline int run_main(int (*run)(int, char**), int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace mstrain
