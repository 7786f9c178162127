// Dims and epilogues of a product as the attributes say them.
#include <algorithm>

#include "core/ops/dot_general.h"

namespace mstrain {
namespace {

constexpr std::string_view kActivations[] = {"gelu", "gelu_tanh", "relu", "silu"};
constexpr std::string_view kGradients[] = {"gelu_grad", "gelu_tanh_grad"};

bool has(std::string_view letters, char letter) {
  return letters.find(letter) != std::string_view::npos;
}

bool is_activation(std::string_view name) {
  return std::find(std::begin(kActivations), std::end(kActivations), name) !=
         std::end(kActivations);
}
bool is_gradient(std::string_view name) {
  return std::find(std::begin(kGradients), std::end(kGradients), name) != std::end(kGradients);
}

void check_letters(const DotDims& dims, std::string_view text) {
  const auto wrong = [&](std::string_view why, char letter) {
    throw ShapeError(fmt::format("dims \"{}\": '{}' {}", text, letter, why),
                     "write them like \"ab,bc->ac\"");
  };
  for (const std::string* letters : {&dims.a, &dims.b, &dims.out}) {
    for (size_t i = 0; i < letters->size(); ++i) {
      const char letter = (*letters)[i];
      if (!((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z'))) {
        wrong("is no letter", letter);
      }
      if (has(std::string_view(*letters).substr(i + 1), letter)) {
        wrong("is there twice in one tensor", letter);
      }
      if (has(dims.a, letter) + has(dims.b, letter) + has(dims.out, letter) < 2) {
        wrong("is a dim of one tensor alone", letter);
      }
    }
  }
}

}  // namespace

DotDims dot_dims(const Attrs& attrs) {
  const std::string& text = attrs.text("dims");
  const size_t comma = text.find(',');
  const size_t arrow = text.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || arrow < comma) {
    throw ShapeError(fmt::format("dims \"{}\" are none", text), "write them like \"ab,bc->ac\"");
  }
  DotDims dims{text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1),
               text.substr(arrow + 2)};
  check_letters(dims, text);
  return dims;
}

std::string to_text(const DotDims& dims) {
  std::string met;
  const auto renamed = [&](const std::string& letters) {
    std::string result;
    for (char letter : letters) {
      size_t at = met.find(letter);
      if (at == std::string::npos) {
        at = met.size();
        met.push_back(letter);
      }
      result.push_back(static_cast<char>(at < 26 ? 'a' + at : 'A' + at - 26));
    }
    return result;
  };
  const std::string a = renamed(dims.a);
  const std::string b = renamed(dims.b);
  return fmt::format("{},{}->{}", a, b, renamed(dims.out));
}

bool has_epilogue(const Attrs& attrs) { return attrs.find("epilogue") != nullptr; }

std::vector<Epilogue> epilogues_of(const Attrs& attrs) {
  std::vector<Epilogue> result;
  std::string_view rest = has_epilogue(attrs) ? attrs.text("epilogue") : std::string_view();
  size_t input = 2;
  while (!rest.empty()) {
    const std::string_view name = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    if (name == "scale") {
      result.push_back({.kind = Epilogue::Kind::kScale, .scale = attrs.number("scale")});
    } else if (name == "bias" || name == "add") {
      result.push_back({.kind = name == "bias" ? Epilogue::Kind::kBias : Epilogue::Kind::kAdd,
                        .input = input++});
    } else if (is_activation(name)) {
      result.push_back({.kind = Epilogue::Kind::kActivation, .activation = find_op(name)});
    } else if (is_gradient(name)) {
      result.push_back(
          {.kind = Epilogue::Kind::kGradient, .input = input++, .activation = find_op(name)});
    } else if (name == "keep") {
      result.push_back({.kind = Epilogue::Kind::kKeep});
    } else {
      throw ShapeError(fmt::format("'{}' is no epilogue of a product", name),
                       "there are scale, bias, add, gelu, gelu_tanh, relu, silu, gelu_grad, "
                       "gelu_tanh_grad and keep");
    }
  }
  return result;
}

Attrs with_epilogue(const Attrs& attrs, std::string_view name) {
  return attrs.with("epilogue", has_epilogue(attrs)
                                    ? fmt::format("{} {}", attrs.text("epilogue"), name)
                                    : std::string(name));
}

bool is_product_activation(const OpDef& op) { return is_activation(op.name); }
bool is_product_gradient(const OpDef& op) { return is_gradient(op.name); }

}  // namespace mstrain
