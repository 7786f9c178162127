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

std::string refusal(const std::string& text) {
  const YamlNode tree = parse_yaml(text, "my.yaml");
  File file;
  read_config(tree, file);
  return error_of([&] { check_runs_alone(file.parallel, tree); });
}

TEST(ParallelConfig, WhatOneRankCannotDoIsRefusedAndNeverIgnored) {
  for (const char* key :
       {"data: 2", "tensor: 2", "pipeline: 2", "context: 2", "virtual_pipeline: 2", "copies: 2",
        "plan: auto", "schedule: zbv", "stage_layout: [1, 2]", "zero: {stage: 3}",
        "sequence_parallel: true", "overlap: {gradients: false}", "overlap: {tensor: true}",
        "bucket_mb: 32"}) {
    EXPECT_THAT(refusal(std::string("parallel: {") + key + "}"),
                testing::AllOf(testing::StartsWith("my.yaml:1: parallel."),
                               testing::HasSubstr("is planned, by mstrain plan")))
        << key;
  }
  EXPECT_EQ(refusal("parallel: {data: 1, tensor: 1, sequence_parallel: false}"), "no error");
}

}  // namespace
}  // namespace mstrain
