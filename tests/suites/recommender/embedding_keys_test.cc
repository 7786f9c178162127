// Keys of the section embedding that nobody reads beside others.
#include <gmock/gmock.h>

#include "suites/all.h"
#include "suites/run/model_run.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

// What a configuration with this section is refused for; empty: it is not.
std::string refusal(const std::string& embedding) {
  static const bool models_are_known = (add_all_models(), true);
  EXPECT_TRUE(models_are_known);
  try {
    read_run(
        parse_yaml(fmt::format("model: {{type: wide_deep}}\nembedding: {}\n", embedding), "f"));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(EmbeddingKeys, ThatNobodyReadsAreRefused) {
  EXPECT_THAT(refusal("{optimizer: {kind: adagrad, l1: 5}}"),
              HasSubstr("embedding.optimizer.l1: has no effect with embedding.optimizer.kind: "
                        "adagrad; ftrl reads it"));
  EXPECT_THAT(
      refusal("{optimizer: {initial_accumulator: 2}}"),
      HasSubstr("embedding.optimizer.kind: lazy_adam; ftrl, adagrad, rowwise_adagrad read"));
  EXPECT_THAT(refusal("{optimizer: {kind: sgd, beta1: 0.5}}"),
              HasSubstr("optimizer.beta1: has no"));
  EXPECT_THAT(refusal("{wide_optimizer: {beta2: 0.5}}"), HasSubstr("wide_optimizer.beta2: has no"));
  EXPECT_THAT(refusal("{wide_init: {kind: zero, scale: 3}}"), HasSubstr("wide_init.scale: has no"));
  EXPECT_THAT(refusal("{admission: {count: 7}}"),
              HasSubstr("with embedding.admission.kind: none; count, bloom read it"));
  EXPECT_THAT(refusal("{eviction: {min_keep_rows: 7}}"),
              HasSubstr("min_keep_rows: has no effect without embedding.eviction.ttl_steps"));
  EXPECT_THAT(refusal("{eviction: {ttl_steps: 9, score: lfu}}"),
              HasSubstr("score: has no effect without embedding.eviction.max_rows"));
  EXPECT_THAT(refusal("{evict_every: 3}"), HasSubstr("embedding.evict_every: has no effect"));
}

TEST(EmbeddingKeys, ThatAreReadOrSayTheDefaultPass) {
  for (const char* const section :
       {"{optimizer: {kind: ftrl, l1: 5, initial_accumulator: 2}}",
        "{optimizer: {kind: sgd, beta1: 0.9, l1: 0, l2: 0.1}}",
        "{wide_optimizer: {kind: sgd, lr: 0.1}}",
        "{wide_optimizer: {kind: sgd, l1: 0, initial_accumulator: 0}}",
        "{admission: {kind: bloom, count: 7, bloom_counters: 100, window_steps: 3}}",
        "{admission: {kind: probability, probability: 0.1}}",
        "{eviction: {ttl_steps: 9, min_keep_rows: 7}, evict_every: 3}",
        "{eviction: {max_rows: 9, score: lfu}, evict_every: 3}", "{evict_every: 1000}"}) {
    EXPECT_EQ(refusal(section), "") << section;
  }
}

}  // namespace
}  // namespace mstrain
