#include "core/base/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

#if defined(__x86_64__)
// A machine with everything up to `best`.
auto machine(Isa best) {
  return [best](Isa isa) { return isa <= best; };
}

std::string error_of(const char* asked, Isa best) {
  try {
    choose_isa(asked, machine(best));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

TEST(Isa, IsTheBestOfTheMachineUnlessALesserOneIsAskedFor) {
  EXPECT_EQ(choose_isa(nullptr, machine(Isa::kAvx2)), Isa::kAvx2);
  EXPECT_EQ(choose_isa("", machine(Isa::kAvx2)), Isa::kAvx2);  // as a shell unsets it
  EXPECT_EQ(choose_isa(nullptr, machine(Isa::kAvx512)), Isa::kAvx512);
  EXPECT_EQ(choose_isa(nullptr, machine(Isa::kAmx)), Isa::kAmx);
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx}) {
    EXPECT_EQ(choose_isa(std::string(to_string(isa)).c_str(), machine(Isa::kAmx)), isa);
  }
}

TEST(Isa, ASetWithAGapBelowItIsNotUsed) {
  EXPECT_EQ(choose_isa(nullptr, [](Isa isa) { return isa != Isa::kAvx512Bf16; }), Isa::kAvx512);
}

TEST(Isa, AnUnknownNameIsAnErrorThatSaysTheNearest) {
  EXPECT_THAT(error_of("avx21", Isa::kAmx),
              HasSubstr("MSTRAIN_ISA=avx21: unknown instruction set; did you mean avx2?"));
  EXPECT_THAT(error_of("neon", Isa::kAmx), HasSubstr("one of avx2, avx512, avx512_bf16, amx"));
  EXPECT_THAT(error_of("baseline", Isa::kAvx2), HasSubstr("unknown instruction set"));
}

TEST(Isa, WhatTheMachineLacksIsAnErrorThatSaysWhatItHas) {
  EXPECT_EQ(error_of("avx512", Isa::kAvx2),
            "MSTRAIN_ISA=avx512: this machine lacks it; the best that it has is avx2");
}

TEST(Isa, AMachineWithoutAvx2IsAnErrorWhateverIsAskedFor) {
  for (const char* asked : {static_cast<const char*>(nullptr), "avx2", "none"}) {
    EXPECT_THAT(error_of(asked, Isa::kBaseline), HasSubstr("lacks AVX2")) << (asked ? asked : "-");
  }
}
#endif

TEST(Isa, ThisProcessUsesOneThatTheMachineHas) {
  EXPECT_TRUE(has_isa(isa()));
  EXPECT_LE(isa(), best_isa());
}

}  // namespace
}  // namespace mstrain
