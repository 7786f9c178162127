// In contexts that are batch invariant a row has the same bits whatever is computed beside it, by any number of threads.
#include "core/ops/attention.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/transform/vmap.h"
#include "tests/amount.h"
#include "tests/core/backends/cpu/against_reference.h"

namespace mstrain {
namespace {

Context invariant(int threads) {
  Context context;
  context.backend = backend_named("cpu");
  context.threads = threads;
  context.batch_invariant = true;
  return context;
}

std::vector<float> numbers(const Tensor& x) { return to_vector<float>(x + 0); }

struct Orientation {
  bool transpose_a, transpose_b;
  std::string epilogue;
};

class InvariantProducts : public testing::TestWithParam<Orientation> {};
INSTANTIATE_TEST_SUITE_P(Of, InvariantProducts,
                         testing::Values(Orientation{false, false, ""},
                                         Orientation{false, true, ""}, Orientation{true, false, ""},
                                         Orientation{true, true, ""},
                                         Orientation{false, true, "bias add"},
                                         Orientation{false, false, "bias gelu"}));

TEST_P(InvariantProducts, GiveARowTheSameBits) {
  const auto& [transpose_a, transpose_b, epilogue] = GetParam();
  constexpr int64_t kRows = 280;
  Attrs attrs{
      {"dims", fmt::format("{},{}->ac", transpose_a ? "ba" : "ab", transpose_b ? "cb" : "bc")}};
  if (!epilogue.empty()) {
    attrs.set("epilogue", epilogue);
    attrs.set("scale", 0.3);
  }
  for (const int64_t k :
       kSanitized ? std::vector<int64_t>{70, 513} : std::vector<int64_t>{1, 70, 512, 513, 1300}) {
    for (const int64_t n :
         kSanitized ? std::vector<int64_t>{1, 207} : std::vector<int64_t>{1, 15, 64, 207}) {
      const Tensor a = random(transpose_a ? Shape{k, kRows} : Shape{kRows, k}, 1);
      const Tensor b = random(transpose_b ? Shape{n, k} : Shape{k, n}, 2);
      const Tensor bias = random({n}, 3);
      const Tensor addend = random({kRows, n}, 4);
      const auto multiply = [&](int64_t first, int64_t count, int threads) {
        const Context context = invariant(threads);
        const ContextScope scope(context);
        Tensors inputs{slice(a, transpose_a ? 1 : 0, first, first + count), b};
        if (!epilogue.empty()) {
          inputs.push_back(bias);
        }
        if (epilogue == "bias add") {
          inputs.push_back(slice(addend, 0, first, first + count));
        }
        return numbers(apply(*find_op("dot_general"), inputs, attrs, SourceLocation::current())[0]);
      };
      const std::vector<float> all = multiply(0, kRows, 1);
      for (const int64_t count : {1, 7, 48, 49, 257}) {
        for (const int threads : {1, 2, 3}) {
          constexpr int64_t kFirst = 9;
          const auto begin = all.begin() + kFirst * n;
          EXPECT_EQ(multiply(kFirst, count, threads), std::vector<float>(begin, begin + count * n))
              << k << " " << n << " " << count << " " << threads;
        }
      }
      if (epilogue.empty() && k <= 513) {
        const Tensor expected = run("dot_general", {a, b}, attrs, backend_named("reference"))[0];
        expect_near(expected, tensor<float>(all, {kRows, n}), 2e-6, "all rows");
      }
    }
  }
}

// Queries alone, where the keys of later ones are not there, or have room for more.
TEST(InvariantAttention, GivesAQueryTheSameBits) {
  constexpr int64_t kLength = 150;
  for (const int64_t window : {0, 20, 64}) {
    const Tensor q = random({2, kLength, 6, 24}, 5);
    const Tensor k = random({2, kLength, 2, 24}, 6);
    const Tensor v = random({2, kLength, 2, 32}, 7);
    AttentionOptions options{.causal = true};
    options.window = window;
    const Context context = invariant(2);
    const ContextScope scope(context);
    const Tensor all = attention(q, k, v, options);
    for (const int64_t position : {0, 1, 63, 64, 100, 149}) {
      for (const int64_t count : {1, 3, 90}) {
        const int64_t end = std::min(position + count, kLength);
        for (const int64_t room : {0, 1, 77}) {
          const auto kept = [&](const Tensor& x) {
            return pad(slice(x, 1, 0, end), {0, 0, 0, 0}, {0, room, 0, 0});
          };
          options.start = full({2}, static_cast<double>(position), Dtype::kI32);
          const Tensor some = attention(slice(q, 1, position, end), kept(k), kept(v), options);
          EXPECT_EQ(numbers(some), numbers(slice(all, 1, position, end)))
              << window << " " << position << " " << count << " " << room;
        }
      }
    }
  }
}

// Of one query a head, as a token is written, with whatever is added to its scores, and values that fill no register.
TEST(InvariantAttention, GivesOneQueryTheSameBitsWithTermsOfItsScores) {
  constexpr int64_t kLength = 100;
  const Tensor q = random({3, kLength, 4, 24}, 5);
  const Tensor k = random({3, kLength, 2, 24}, 6);
  const Tensor mask = greater(random({3, kLength}, 8), -0.7);
  const Tensor bias = random({3, 4, kLength, kLength}, 9);
  const Tensor segments = cast(greater(iota({3, kLength}, 1), 40), Dtype::kI32);
  const RelativeBias relative{random({8, 4}, 10), 30};
  for (const int64_t width : {32, 20}) {
    const Tensor v = random({3, kLength, 2, width}, 7);
    for (const std::string_view term : {"none", "mask", "bias", "segments", "relative"}) {
      for (const int threads : {1, 2, 5}) {  // some share the heads of a batch element
        const Context context = invariant(threads);
        const ContextScope scope(context);
        const auto attend = [&](int64_t first, int64_t end) {
          AttentionOptions options{.causal = true};
          options.start = full({3}, static_cast<double>(first), Dtype::kI32);
          if (term == "mask") {
            options.key_mask = mask;
          } else if (term == "bias") {
            options.bias = slice(bias, 2, first, end);
          } else if (term == "segments") {
            options.query_segments = slice(segments, 1, first, end);
            options.key_segments = segments;
          } else if (term == "relative") {
            options.relative = relative;
          }
          return numbers(attention(slice(q, 1, first, end), k, v, options));
        };
        const std::vector<float> all = attend(0, kLength);
        for (const int64_t position : {0, 40, 41, 64, 99}) {
          const std::vector<float> one = attend(position, position + 1);
          const int64_t row = 4 * width;
          for (int64_t b = 0; b < 3; ++b) {
            const auto expected = all.begin() + (b * kLength + position) * row;
            EXPECT_TRUE(std::equal(expected, expected + row, one.begin() + b * row))
                << term << " " << width << " " << threads << " " << position;
          }
        }
      }
    }
  }
}

// x[b, s, …] whose elements begin with the first counts[b] positions of the element before.
Tensor with_repeated(const Tensor& x, const std::vector<int32_t>& counts) {
  Tensors elements{slice(x, 0, 0, 1)};
  for (int64_t b = 1; b < x.dim(0); ++b) {
    const int64_t count = counts[static_cast<size_t>(b)];
    elements.push_back(concat(
        {slice(elements.back(), 1, 0, count), slice(slice(x, 0, b, b + 1), 1, count, x.dim(1))},
        1));
  }
  return concat(elements, 0);
}

struct Repeated {
  int64_t heads, key_heads, width;
  std::vector<int32_t> counts, places;
};

class RepeatedKeys : public testing::TestWithParam<Repeated> {};
INSTANTIATE_TEST_SUITE_P(
    Of, RepeatedKeys,
    testing::Values(
        // Groups of one prompt each, which end within a block of keys and with it.
        Repeated{6,
                 2,
                 32,
                 {0, 37, 37, 37, 0, 64, 64, 5, 130, 130},
                 {37, 60, 63, 64, 70, 64, 140, 5, 130, 149}},
        // One of a group is left; prompts that begin likewise.
        Repeated{4, 4, 20, {0, 20, 90, 90, 16, 16, 100}, {95, 99, 90, 91, 30, 110, 102}},
        // More than a run has.
        Repeated{2, 1, 16, std::vector<int32_t>(40, 80), std::vector<int32_t>(40, 99)},
        // Queries before the end of what is repeated, at its first key, and before all keys.
        Repeated{3, 3, 32, {0, 120, 120, 120, 120}, {120, 79, 64, 0, -1}}));

TEST_P(RepeatedKeys, ChangeNoBit) {
  const Repeated& n = GetParam();
  constexpr int64_t kLength = 150;
  const auto b = std::ssize(n.counts);
  const Tensor q = random({b, 1, n.heads, 24}, 5);
  const Tensor k = with_repeated(random({b, kLength, n.key_heads, 24}, 6), n.counts);
  const Tensor v = with_repeated(random({b, kLength, n.key_heads, n.width}, 7), n.counts);
  for (const int64_t window : {0, 30, 149}) {
    for (const int threads : {1, 2, 3, 50}) {
      const Context context = invariant(threads);
      const ContextScope scope(context);
      AttentionOptions options{.causal = true};
      options.window = window;
      options.start = tensor<int32_t>(n.places, {b});
      const std::vector<float> each = numbers(attention(q, k, v, options));
      options.repeated_keys = tensor<int32_t>(n.counts, {b});
      EXPECT_EQ(numbers(attention(q, k, v, options)), each) << window << " " << threads;
    }
  }
}

// A sample of a batch of batches does not begin like the last one of the batch before.
TEST(RepeatedKeys, AreThoseOfOneLane) {
  const std::vector<int32_t> counts{64, 64, 64};
  const Tensor q = random({2, 3, 1, 4, 24}, 5);
  const auto lanes = [&](uint64_t seed) {
    const Tensor x = random({2, 3, 90, 2, 24}, seed);
    return concat({expand_dims(with_repeated(squeeze(slice(x, 0, 0, 1), 0), counts), 0),
                   expand_dims(with_repeated(squeeze(slice(x, 0, 1, 2), 0), counts), 0)},
                  0);
  };
  const Context context = invariant(1);
  const ContextScope scope(context);
  const auto attend = [&](const Tensor& repeated) {
    return vmap([&](const Tensor& q_bthd, const Tensor& k_bshd, const Tensor& v_bshe) {
      return attention(q_bthd, k_bshd, v_bshe, {.causal = true, .repeated_keys = repeated});
    })(q, lanes(6), lanes(7));
  };
  EXPECT_EQ(numbers(attend(tensor<int32_t>(counts, {3}))), numbers(attend({})));
}

// Keys that are promised to be those of the first element, and are not, are not looked at.
TEST(RepeatedKeys, AreReadOnce) {
  const std::vector<int32_t> counts{0, 70, 70};
  const Tensor q = random({3, 1, 4, 24}, 5);
  const Tensor k = random({3, 90, 2, 24}, 6);
  const Tensor v = random({3, 90, 2, 32}, 7);
  const Context context = invariant(1);
  const ContextScope scope(context);
  AttentionOptions options{.causal = true};
  const std::vector<int32_t> in_whole_vectors{0, 64, 64};
  const std::vector<float> expected = numbers(attention(
      q, with_repeated(k, in_whole_vectors), with_repeated(v, in_whole_vectors), options));
  options.repeated_keys = tensor<int32_t>(counts, {3});
  EXPECT_EQ(numbers(attention(q, k, v, options)), expected);
}

}  // namespace
}  // namespace mstrain
