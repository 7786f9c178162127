// prioritised_replay ITEMS DRAWN: draws DRAWN of ITEMS items in proportion to their priorities, one from each of as many equal parts, and gives
// them new ones. For every number on
// its input it takes so many turns and prints {"step_seconds": of a turn}, as contenders of benchmarks/race.py do.
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

#include "core/base/rng.h"
#include "suites/reinforcement/train/sum_tree.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: prioritised_replay ITEMS DRAWN\n");
    return 2;
  }
  const int64_t items = std::atoll(argv[1]);
  const int64_t drawn = std::atoll(argv[2]);
  mstrain::Rng rng(1);
  mstrain::reinforcement::SumTree tree(items);
  for (int64_t i = 0; i < items; ++i) {
    tree.set(i, rng.uniform() + 0.01);
  }
  std::vector<double> places(static_cast<size_t>(drawn));
  std::vector<double> weights(places.size());
  const auto turn = [&] {
    const double part = tree.total() / static_cast<double>(drawn);
    for (size_t i = 0; i < places.size(); ++i) {
      places[i] = (static_cast<double>(i) + rng.uniform()) * part;
      weights[i] = rng.uniform() + 0.01;
    }
    tree.set(tree.find(places), weights);
  };
  fmt::print("{{\"ready\": true}}\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    const int64_t turns = std::atoll(line.c_str());
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < turns; ++i) {
      turn();
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    fmt::print("{{\"step_seconds\": {}}}\n", took.count() / static_cast<double>(turns));
    std::fflush(stdout);
  }
  return 0;
}
