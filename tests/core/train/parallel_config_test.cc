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
  EXPECT_EQ(refusal("parallel: {copies: 2, pipeline: 2, tensor: 2}", 4), "no error");
  EXPECT_EQ(refusal("parallel: {copies: 2, pipeline: 2}", 2),
            "my.yaml:1: parallel.copies: hides the collectives of parallel.tensor and "
            "parallel.context, which are 1; leave it out");
  EXPECT_THAT(refusal("parallel: {pipeline: 2, schedule: own.txt}", 2),
              testing::StartsWith("my.yaml:1: parallel.schedule: 'own.txt' is none of gpipe, "));
  EXPECT_EQ(refusal("parallel: {data: 1, tensor: 1, sequence_parallel: false}"), "no error");
  EXPECT_EQ(refusal("parallel: {data: 4, zero: {stage: 3}, reduction: fast}", 4), "no error");
  EXPECT_EQ(refusal("parallel: {zero: {stage: 3, group: 2}}", 4), "no error");
  EXPECT_EQ(refusal("parallel: {zero: {stage: 3, group: 3}}", 4),
            "my.yaml:1: parallel.zero.group: 3 ranks do not divide the 4 along data; say 2 or 4");
  EXPECT_EQ(refusal("parallel: {zero: {stage: 0, group: 2}}", 4),
            "my.yaml:1: parallel.zero.group: is for parallel.zero.stage 1 or more; leave it out");
  EXPECT_EQ(refusal("parallel: {overlap: {gradients: false, parameters: false}, bucket_mb: 1}", 4),
            "no error");
  EXPECT_EQ(refusal("parallel: {tensor: 2, sequence_parallel: true}", 4), "no error");
  EXPECT_EQ(refusal("parallel: {sequence_parallel: true}", 4),
            "my.yaml:1: parallel.sequence_parallel: ranks along tensor share positions, and "
            "parallel.tensor is 1; say auto");
  EXPECT_EQ(refusal("parallel: {tensor: 2, overlap: {tensor: true}}", 2), "no error");
  EXPECT_EQ(
      refusal("parallel: {overlap: {tensor: true}}"),
      "my.yaml:1: parallel.overlap.tensor: hides the collectives of parallel.tensor, which is "
      "1; leave it out");
  EXPECT_EQ(refusal("parallel: {context: 2, context_way: ring}", 2), "no error");
  EXPECT_EQ(refusal("parallel: {context_way: ring}"),
            "my.yaml:1: parallel.context_way: is for parallel.context of 2 or more; leave it out");
}

TEST(ParallelConfig, KeysOfPipelinesThatDoNotFitAreRefusedWithWhatWould) {
  EXPECT_EQ(refusal("parallel: {pipeline: 2, schedule: zbv, stage_layout: [1, 2, 2, 1]}", 2),
            "no error");
  EXPECT_EQ(refusal("parallel: {pipeline: 2, schedule: interleaved, virtual_pipeline: 2}", 4),
            "no error");
  EXPECT_EQ(refusal("parallel: {pipeline: 2, zero: {stage: 3}}", 4), "no error");
  EXPECT_EQ(refusal("parallel: {pipeline: 2, tensor: 2}", 4), "no error");
  EXPECT_EQ(refusal("parallel: {pipeline: 2, schedule: 1f2b}", 2),
            "my.yaml:1: parallel.schedule: '1f2b' is none of gpipe, 1f1b, interleaved, zb_h1, zbv, "
            "and no file; did you mean 1f1b?");
  EXPECT_EQ(refusal("parallel: {pipeline: 2, virtual_pipeline: 2}", 2),
            "my.yaml:1: parallel.virtual_pipeline: 2 parts a rank are for parallel.schedule: "
            "interleaved");
  EXPECT_EQ(refusal("parallel: {schedule: zbv}"),
            "my.yaml:1: parallel.schedule: is for parallel.pipeline of 2 or more; leave it out");
  EXPECT_EQ(refusal("parallel: {stage_layout: [1, 2]}"),
            "my.yaml:1: parallel.stage_layout: is for parallel.pipeline of 2 or more; leave it "
            "out");
  EXPECT_EQ(refusal("parallel: {pipeline: 3}", 4),
            "my.yaml: parallel.data: pipeline 3 is not the 4 ranks that there are; start 3");
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
