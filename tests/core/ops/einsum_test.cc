#include "core/ops/einsum.h"

#include <map>

#include "tests/core/ops/values.h"

namespace mstrain {
namespace {

using ::testing::HasSubstr;
using Einsum = OnReference;

const std::map<char, int64_t> kSizes{{'a', 2}, {'b', 3}, {'c', 4}, {'d', 5}, {'e', 1}};

Shape shape_of(std::string_view letters) {
  Shape shape;
  for (char letter : letters) {
    shape.push_back(kSizes.at(letter));
  }
  return shape;
}

// Every operand over all letters, multiplied and summed.
Tensor expected(std::span<const std::string> operands, std::string_view result,
                const Tensors& values) {
  const std::string all = "abcde";
  Tensor product = full(shape_of(all), 1, Dtype::kF64);
  for (size_t i = 0; i < operands.size(); ++i) {
    Shape axes;
    Shape spread = Shape::filled(5, 1);
    for (char letter : all) {
      const size_t at = operands[i].find(letter);
      if (at != std::string::npos) {
        axes.push_back(static_cast<int64_t>(at));
        spread[letter - 'a'] = kSizes.at(letter);
      }
    }
    product = product * reshape(transpose(values[i], axes), spread);
  }
  // Letters that no operand has were repeated, not summed.
  Shape axes;
  std::string kept;
  double repeated = 1;
  for (char letter : all) {
    bool used = false;
    for (const std::string& operand : operands) {
      used = used || operand.find(letter) != std::string::npos;
    }
    repeated *= used ? 1 : static_cast<double>(kSizes.at(letter));
    if (result.find(letter) == std::string_view::npos) {
      axes.push_back(letter - 'a');
    } else {
      kept.push_back(letter);
    }
  }
  Tensor total = (axes.rank() == 0 ? product : sum(product, axes)) / repeated;
  Shape order;
  for (char letter : result) {
    order.push_back(static_cast<int64_t>(kept.find(letter)));
  }
  return transpose(total, order);
}

TEST_F(Einsum, IsTheSumOfProductsOverAllOtherLetters) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> equations{
      {{"ab", "bc"}, "ac"},
      {{"ab", "cb"}, "ac"},
      {{"ba", "bc"}, "ca"},
      {{"adbc", "aebc"}, "abde"},
      {{"abc", "cd"}, "abd"},
      {{"abc"}, "cb"},
      {{"ab"}, ""},
      {{"a", "b"}, "ba"},
      {{"a", "a"}, ""},
      {{"ab", "ab"}, "ab"},
      {{"abc", "acd", "db"}, "ab"},
      {{"abcd", "dcb"}, "a"},
      {{"ae", "eb"}, "ab"},
      {{"abd", "cd"}, "b"}};
  uint64_t seed = 1;
  for (const auto& [operands, result] : equations) {
    std::string text;
    Tensors values;
    for (const std::string& operand : operands) {
      text += (text.empty() ? "" : ",") + operand;
      values.push_back(random_tensor(shape_of(operand), seed++));
    }
    text += " -> " + result;
    EXPECT_LT(greatest_difference(einsum(text, values), expected(operands, result, values)), 1e-13)
        << text;
  }
}

TEST_F(Einsum, MistakesAreNamed) {
  const Tensor x = random_tensor({2, 3}, 1);
  const auto message = [&](std::string_view text, const Tensors& values) {
    return error_of([&] { einsum(text, values); });
  };
  EXPECT_THAT(message("ab", {x}), HasSubstr("einsum: \"ab\" has no arrow"));
  EXPECT_THAT(message("aa->a", {x}), HasSubstr("repeats a in one tensor"));
  EXPECT_THAT(message("ab->c", {x}), HasSubstr("asks for c, which no operand has"));
  EXPECT_THAT(message("a1->a", {x}), HasSubstr("contains '1'"));
  EXPECT_THAT(message("abc->a", {x}), HasSubstr("operand \"abc\" is f64[2, 3]"));
  EXPECT_THAT(message("ab,ab->a", {x}), HasSubstr("names 2 operands, 1 were given"));
  EXPECT_THAT(message("ab,bc->ac", {x, x}), HasSubstr("b of \"ab,bc->ac\" is 3 and 2"));
}

}  // namespace
}  // namespace mstrain
