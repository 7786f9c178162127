// What tests ask of the results of searches.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

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

template <class A>
void expect_equal(const std::vector<RootEdge<A>>& a, const std::vector<RootEdge<A>>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].action, b[i].action);
    EXPECT_EQ(a[i].visits, b[i].visits);
    EXPECT_EQ(a[i].value, b[i].value);
  }
}

template <class A, int kN>
void expect_equal(const SearchResult<A, kN>& a, const SearchResult<A, kN>& b) {
  EXPECT_EQ(a.action, b.action);
  EXPECT_EQ(a.value, b.value);
  EXPECT_EQ(a.nodes, b.nodes);
  expect_equal(a.edges, b.edges);
}

}  // namespace mstrain::mcts::testing
