#include "core/train/parallel_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/base/message_of.h"

namespace mstrain {
namespace {

struct File {
  ParallelConfig parallel;
  template <class V>
  void fields(V& v) {
    v("parallel", parallel, "");
  }
};

std::string refusal(const std::string& text, int64_t ranks = 1) {
  const YamlNode tree = parse_yaml(text, "my.yaml");
  File file;
  read_config(tree, file);
  return error_of([&] { check_runs(file.parallel, tree, ranks); });
}

TEST(ParallelConfig, WhatCannotBeRunIsRefusedAndNeverIgnored) {
  for (const char* key :
       {"pipeline: 2", "context: 2", "virtual_pipeline: 2", "copies: 2", "plan: auto",
        "schedule: zbv", "stage_layout: [1, 2]", "overlap: {gradients: false}",
        "overlap: {tensor: true}", "bucket_mb: 32"}) {
    EXPECT_THAT(refusal(std::string("parallel: {") + key + "}"),
                testing::AllOf(testing::StartsWith("my.yaml:1: parallel."),
                               testing::HasSubstr("is planned, by mstrain plan")))
        << key;
  }
  EXPECT_EQ(refusal("parallel: {data: 1, tensor: 1, sequence_parallel: false}"), "no error");
  EXPECT_EQ(refusal("parallel: {data: 4, zero: {stage: 3}, reduction: fast}", 4), "no error");
  EXPECT_EQ(refusal("parallel: {tensor: 2, sequence_parallel: true}", 4), "no error");
  EXPECT_EQ(refusal("parallel: {sequence_parallel: true}", 4),
            "my.yaml:1: parallel.sequence_parallel: ranks along tensor share positions, and "
            "parallel.tensor is 1; say auto");
}

TEST(ParallelConfig, OtherRanksThanTheKeysMakeUpAreRefusedWithWhatFits) {
  EXPECT_EQ(refusal("parallel: {data: 4}", 6),
            "my.yaml:1: parallel.data: data 4 is not the 6 ranks that there are; say "
            "parallel.data=6, or start 4");
  EXPECT_EQ(refusal("parallel: {data: 2}"),
            "my.yaml:1: parallel.data: data 2 is not the 1 rank that there is; say "
            "parallel.data=1, or start 2");
  EXPECT_EQ(mesh_of(ParallelConfig(), 6).describe(), "data 6");
}

}  // namespace
}  // namespace mstrain
