#include "core/ops/einsum.h"

#include <algorithm>
#include <map>

#include "core/ops/build.h"
#include "core/ops/dot_general.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

bool has(std::string_view letters, char letter) {
  return letters.find(letter) != std::string_view::npos;
}

// A tensor with the letters of its dims.
struct Term {
  Tensor value;
  std::string letters;
};

struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

Equation parse(std::string_view text, const SourceLocation& where) {
  const auto wrong = [&](std::string_view why) {
    fail("einsum: \"{}\" {}, at {}; write it like \"ij,jk->ik\"", text, why, to_string(where));
  };
  const size_t arrow = text.find("->");
  if (arrow == std::string_view::npos) {
    wrong("has no arrow");
  }
  Equation equation{{""}, ""};
  std::string* current = &equation.operands.back();
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (i == arrow) {
      current = &equation.result;
      ++i;
    } else if (c == ',' && i < arrow) {
      current = &equation.operands.emplace_back();
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      if (has(*current, c)) {
        wrong(fmt::format("repeats {} in one tensor", c));
      }
      current->push_back(c);
    } else if (c != ' ') {
      wrong(fmt::format("contains '{}'", c));
    }
  }
  for (char letter : equation.result) {
    if (std::none_of(equation.operands.begin(), equation.operands.end(),
                     [&](const std::string& operand) { return has(operand, letter); })) {
      wrong(fmt::format("asks for {}, which no operand has", letter));
    }
  }
  return equation;
}

// Sums over the letters that `keep` does not want.
Term without_unused(Term term, std::string_view keep) {
  Shape axes;
  std::string letters;
  for (size_t i = 0; i < term.letters.size(); ++i) {
    if (has(keep, term.letters[i])) {
      letters.push_back(term.letters[i]);
    } else {
      axes.push_back(static_cast<int64_t>(i));
    }
  }
  return axes.rank() == 0 ? term : Term{sum(term.value, axes), letters};
}

Tensor ordered(const Term& term, std::string_view letters) {
  Shape axes;
  for (char letter : letters) {
    axes.push_back(static_cast<int64_t>(term.letters.find(letter)));
  }
  return transpose(term.value, axes);
}

// Letters of `a` for which `wanted` says yes, in the order of `a`.
template <class F>
std::string letters_where(std::string_view a, F&& wanted) {
  std::string result;
  std::copy_if(a.begin(), a.end(), std::back_inserter(result), wanted);
  return result;
}

// One product: letters of both that `keep` has not are summed over. The result has the letters of `wanted` in that order where
// it has all of them.
Term contract(Term a, Term b, std::string_view keep, std::string_view wanted) {
  a = without_unused(std::move(a), std::string(keep) + b.letters);
  b = without_unused(std::move(b), std::string(keep) + a.letters);
  const auto kept = [&](char c) { return has(keep, c); };
  std::string letters = letters_where(a.letters, kept);
  letters += letters_where(b.letters, [&](char c) { return kept(c) && !has(a.letters, c); });
  if (std::is_permutation(letters.begin(), letters.end(), wanted.begin(), wanted.end())) {
    letters = wanted;
  }
  return {dot_general(a.value, b.value, {a.letters, b.letters, letters}), letters};
}

void check_sizes(const Equation& equation, std::string_view text, std::span<const Tensor> operands,
                 const SourceLocation& where) {
  check(operands.size() == equation.operands.size(),
        "einsum: \"{}\" names {} operands, {} were given, at {}", text, equation.operands.size(),
        operands.size(), to_string(where));
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string& letters = equation.operands[i];
    check(operands[i].defined(), "einsum: operand {} is an empty tensor, at {}", i,
          to_string(where));
    check(static_cast<size_t>(operands[i].rank()) == letters.size(),
          "einsum: operand \"{}\" is {}, at {}", letters, to_string(operands[i].type()),
          to_string(where));
    check(operands[i].dtype() == operands[0].dtype(), "einsum: dtypes differ: {} and {}, at {}",
          name_of(operands[0].dtype()), name_of(operands[i].dtype()), to_string(where));
    for (size_t d = 0; d < letters.size(); ++d) {
      const int64_t size = operands[i].dim(static_cast<int>(d));
      const int64_t known = sizes.emplace(letters[d], size).first->second;
      check(known == size, "einsum: {} of \"{}\" is {} and {}, at {}", letters[d], text, known,
            size, to_string(where));
    }
  }
}

}  // namespace

Tensor einsum(std::string_view text, std::span<const Tensor> operands,
              const SourceLocation& where) {
  const Equation equation = parse(text, where);
  check_sizes(equation, text, operands, where);
  Term result{operands[0], equation.operands[0]};
  for (size_t i = 1; i < operands.size(); ++i) {
    std::string keep = equation.result;
    for (size_t j = i + 1; j < operands.size(); ++j) {
      keep += equation.operands[j];
    }
    result =
        contract(std::move(result), {operands[i], equation.operands[i]}, keep, equation.result);
  }
  return ordered(without_unused(std::move(result), equation.result), equation.result);
}

}  // namespace mstrain
