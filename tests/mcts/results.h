// What tests ask of the results of searches.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "mcts/search/config.h"

namespace mstrain::mcts::testing {

template <class Result>
uint64_t edge_visits(const Result& result) {
  uint64_t sum = 0;
  for (const auto& e : result.edges) {
    sum += e.visits;
  }
  return sum;
}

template <class A, int kN>
void expect_equal(const SearchResult<A, kN>& a, const SearchResult<A, kN>& b) {
  ASSERT_EQ(a.edges.size(), b.edges.size());
  EXPECT_EQ(a.action, b.action);
  EXPECT_EQ(a.value, b.value);
  EXPECT_EQ(a.nodes, b.nodes);
  for (size_t i = 0; i < a.edges.size(); ++i) {
    EXPECT_EQ(a.edges[i].action, b.edges[i].action);
    EXPECT_EQ(a.edges[i].visits, b.edges[i].visits);
    EXPECT_EQ(a.edges[i].value, b.edges[i].value);
  }
}

}  // namespace mstrain::mcts::testing
