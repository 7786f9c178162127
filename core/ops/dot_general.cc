#include "core/ops/dot_general.h"

#include <array>

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();
constexpr std::string_view kActivations[] = {"gelu", "gelu_tanh", "relu", "silu"};

bool has(std::string_view letters, char letter) {
  return letters.find(letter) != std::string_view::npos;
}

bool has_epilogue(const Attrs& attrs) { return attrs.find("epilogue") != nullptr; }

Tensor plain(const Tensor& a, const Tensor& b, const DotDims& dims) {
  return apply1(kDotGeneral, {a, b}, {{"dims", to_text(dims)}}, kHere);
}

// The product itself, without epilogues.
Tensor plain(const Attrs& attrs, std::span<const Tensor> in) {
  Attrs product{{"dims", attrs.text("dims")}};
  if (const Attr* type = attrs.find("type")) {
    product.set("type", *type);
  }
  return apply1(kDotGeneral, {in[0], in[1]}, product, kHere);
}

// Sizes by letter; -1 where nothing has the letter.
class Sizes {
 public:
  Sizes(const DotDims& dims, const Shape& a, const Shape& b) : dims_(dims) {
    sizes_.fill(-1);
    add("a", dims.a, a);
    add("b", dims.b, b);
  }

  Shape of(std::string_view letters) const {
    Shape shape;
    for (char letter : letters) {
      shape.push_back(size(letter));
    }
    return shape;
  }
  int64_t size(char letter) const { return sizes_[static_cast<size_t>(letter)]; }

 private:
  void add(std::string_view operand, std::string_view letters, const Shape& shape) {
    if (static_cast<int>(letters.size()) != shape.rank()) {
      throw ShapeError(fmt::format("{} is {}, but has the dims \"{}\" of {}", operand,
                                   to_string(shape), letters, to_text(dims_)));
    }
    for (int i = 0; i < shape.rank(); ++i) {
      const char letter = letters[static_cast<size_t>(i)];
      int64_t& known = sizes_[static_cast<size_t>(letter)];
      if (known >= 0 && known != shape[i]) {
        throw ShapeError(
            fmt::format("dim {} of {} is {} and {}", letter, to_text(dims_), known, shape[i]));
      }
      known = shape[i];
    }
  }

  const DotDims& dims_;
  std::array<int64_t, 128> sizes_{};
};

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

Dtype result_type(Dtype operands, const Attrs& attrs) {
  if (attrs.find("type") == nullptr) {
    return operands;
  }
  const Dtype type = attrs.dtype("type");
  if (!is_short(operands) || type != accumulation_dtype(operands)) {
    throw ShapeError(fmt::format("gives no {} of {}", name_of(type), name_of(operands)));
  }
  return type;
}

bool is_suffix(const Shape& x, const Shape& of) {
  return x.rank() <= of.rank() && std::equal(x.begin(), x.end(), of.end() - x.rank());
}

void check_epilogue(const Epilogue& epilogue, std::span<const TensorType> in,
                    const TensorType& out) {
  using Kind = Epilogue::Kind;
  if (epilogue.kind == Kind::kScale || epilogue.kind == Kind::kActivation) {
    if (!is_floating(out.dtype)) {
      throw ShapeError(fmt::format("has no {} for {}",
                                   epilogue.kind == Kind::kScale ? "scale" : "activation",
                                   name_of(out.dtype)));
    }
    return;
  }
  const TensorType& term = in[epilogue.input];
  const bool fits =
      epilogue.kind == Kind::kAdd ? term.shape == out.shape : is_suffix(term.shape, out.shape);
  if (!fits || term.dtype != out.dtype) {
    throw ShapeError(fmt::format("{} {} does not fit the result {}",
                                 epilogue.kind == Kind::kAdd ? "addend" : "bias", to_string(term),
                                 to_string(out)));
  }
}

Types infer(std::span<const TensorType> in, const Attrs& attrs) {
  const DotDims dims = dot_dims(attrs);
  const std::vector<Epilogue> epilogues = epilogues_of(attrs);
  int count = 2;
  for (const Epilogue& epilogue : epilogues) {
    count += epilogue.input > 0 ? 1 : 0;
  }
  expect_inputs(in, count);
  if (in[0].dtype != in[1].dtype) {
    throw ShapeError(
        fmt::format("dtypes differ: {} and {}", name_of(in[0].dtype), name_of(in[1].dtype)),
        "convert one with cast()");
  }
  if (in[0].dtype == Dtype::kBool) {
    throw ShapeError("is not defined for bool", "convert it with cast()");
  }
  const TensorType out{result_type(in[0].dtype, attrs),
                       Sizes(dims, in[0].shape, in[1].shape).of(dims.out)};
  for (const Epilogue& epilogue : epilogues) {
    check_epilogue(epilogue, in, out);
  }
  return {out};
}

Tensors jvp(const Application& node, std::span<const Tensor> t) {
  if (has_epilogue(node.attrs)) {
    return jvp_by_decomposition(node, t);
  }
  const auto term = [&](const Tensor& a, const Tensor& b) {
    return a && b ? apply1(node.op, {a, b}, node.attrs, kHere) : Tensor();
  };
  return {add_or_zero(term(t[0], node.inputs[1]), term(node.inputs[0], t[1]))};
}

// A letter is in two of the three tensors, or in all: the cotangent of one is the product of the two others.
Tensors vjp(const Application& node, std::span<const Tensor> ct) {
  if (has_epilogue(node.attrs)) {
    return vjp_by_decomposition(node, ct);
  }
  const DotDims dims = dot_dims(node.attrs);
  const Tensor& a = node.inputs[0];
  const Tensor& b = node.inputs[1];
  const Tensor g = cast(ct[0], a.dtype());
  return {plain(g, b, {dims.out, dims.b, dims.a}), plain(a, g, {dims.a, dims.out, dims.b})};
}

// One letter more: a batch dim where both operands have it, else a free one.
Tensors batch(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
              std::span<const bool> batched, int64_t size) {
  Tensors inputs(in.begin(), in.end());
  for (const Epilogue& epilogue : epilogues_of(attrs)) {
    if (epilogue.kind == Epilogue::Kind::kBias && batched[epilogue.input]) {
      return batch_by_decomposition(op, attrs, in, batched, size);
    }
    if (epilogue.kind == Epilogue::Kind::kAdd && !batched[epilogue.input]) {
      inputs[epilogue.input] = repeat_leading(inputs[epilogue.input], size);
    }
  }
  if (!batched[0] && !batched[1]) {
    inputs[0] = repeat_leading(inputs[0], size);  // only what is added differs
  }
  DotDims dims = dot_dims(attrs);
  char letter = 'a';
  while (has(dims.a, letter) || has(dims.b, letter)) {
    letter = letter == 'z' ? 'A' : static_cast<char>(letter + 1);
  }
  const bool in_a = batched[0] || !batched[1];
  dims.a.insert(0, in_a ? 1 : 0, letter);
  dims.b.insert(0, batched[1] ? 1 : 0, letter);
  dims.out.insert(0, 1, letter);
  return apply(op, inputs, attrs.with("dims", to_text(dims)), kHere);
}

Tensors decompose(const Attrs& attrs, std::span<const Tensor> in) {
  Tensor z = plain(attrs, in);
  for (const Epilogue& epilogue : epilogues_of(attrs)) {
    switch (epilogue.kind) {
      case Epilogue::Kind::kScale: z = z * epilogue.scale; break;
      case Epilogue::Kind::kBias:
      case Epilogue::Kind::kAdd: z = z + in[epilogue.input]; break;
      case Epilogue::Kind::kActivation: z = apply1(*epilogue.activation, {z}, {}, kHere); break;
    }
  }
  return {z};
}

Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs) {
  const DotDims dims = dot_dims(attrs);
  double flops = 2;
  for (size_t i = 0; i < dims.a.size(); ++i) {
    if (!has(dims.out, dims.a[i])) {
      flops *= static_cast<double>(in[0].shape[static_cast<int>(i)]);
    }
  }
  Cost total = elementwise_cost(in, out, flops);
  for (const Epilogue& epilogue : epilogues_of(attrs)) {
    total.flops += epilogue.activation != nullptr ? epilogue.activation->cost(out, out, {}).flops
                                                  : static_cast<double>(out[0].elements());
  }
  return total;
}

struct SampleDims {
  const char* dims;
  Shape a, b;
};

const SampleDims kSamples[] = {
    {"a,a->", {5}, {5}},
    {"ab,bc->ac", {3, 4}, {4, 5}},
    {"ab,ac->bc", {17, 9}, {17, 33}},
    {"ab,cb->ac", {6, 9}, {31, 9}},
    {"ab,ca->bc", {4, 3}, {5, 4}},
    {"abcd,abde->abce", {2, 3, 4, 5}, {2, 3, 5, 2}},
    {"abc,adb->acd", {2, 5, 4}, {2, 3, 5}},
    {"ab,bc->ac", {1, 1}, {1, 1}},
    {"ab,bc->ac", {0, 4}, {4, 3}},
    {"ab,bc->ac", {3, 0}, {0, 2}},
    // Projections to heads and from them, and their derivatives.
    {"abc,cdef->abdef", {2, 3, 4}, {4, 3, 2, 5}},
    {"abcd,cde->abe", {2, 3, 2, 4}, {2, 4, 5}},
    {"abc,abde->cde", {2, 3, 4}, {2, 3, 2, 5}},
    {"abc,dec->abde", {2, 3, 4}, {2, 3, 4}},
    {"abc,dce->abde", {2, 3, 4}, {3, 4, 2}},
    {"abcd,aecd->acbe", {2, 3, 2, 4}, {2, 5, 2, 4}},
    {"abcd,adce->acbe", {2, 2, 3, 5}, {2, 5, 3, 4}},
    // Dims that are summed over in two orders, free dims in turns, a batch dim at the end or alone.
    {"abc,cbd->ad", {3, 2, 4}, {4, 2, 5}},
    {"abc,dce->adbe", {2, 3, 4}, {3, 4, 2}},
    {"abc,dc->dab", {2, 3, 4}, {5, 4}},
    {"abc,bdc->adb", {2, 3, 4}, {3, 5, 4}},
    {"ab,ab->ab", {3, 4}, {3, 4}},
    {"ab,ab->a", {3, 4}, {3, 4}},
    {"ab,ba->", {3, 4}, {4, 3}},
    // No dim to sum over; vectors, scalars, dims of size 1.
    {"a,b->ab", {3}, {4}},
    {"ab,b->a", {3, 4}, {4}},
    {"a,ab->b", {3}, {3, 4}},
    {",ab->ba", {}, {3, 2}},
    {",->", {}, {}},
    {"abc,cd->abd", {1, 3, 1}, {1, 2}},
    {"abc,dbc->adb", {3, 1, 2}, {1, 1, 2}},
};

// A sample with epilogues. Signs of `lift` keep what enters relu away from its corner, where no derivative can be compared.
Sample sample(Dtype t, const SampleDims& it, const std::string& epilogue = {}, int bias_rank = 1,
              double lift = 0) {
  Sample result{{{{t, it.a}, -1, 1}, {{t, it.b}, -1, 1}}, {{"dims", std::string(it.dims)}}};
  if (epilogue.empty()) {
    return result;
  }
  const DotDims dims = dot_dims(result.attrs);
  const Shape out = Sizes(dims, it.a, it.b).of(dims.out);
  result.attrs.set("epilogue", epilogue);
  result.attrs.set("scale", 0.25);
  for (const Epilogue& after : epilogues_of(result.attrs)) {
    if (after.kind == Epilogue::Kind::kBias) {
      const Shape last(std::span(out.end() - bias_rank, static_cast<size_t>(bias_rank)));
      result.inputs.push_back({{t, last}, lift - 1, lift + 1});
    } else if (after.kind == Epilogue::Kind::kAdd) {
      result.inputs.push_back({{t, out}, -1, 1});
    }
  }
  if (epilogue.find("scale") == std::string::npos) {
    result.attrs = Attrs{{"dims", std::string(it.dims)}, {"epilogue", epilogue}};
  }
  return result;
}

std::vector<Sample> samples(Dtype t) {
  std::vector<Sample> result;
  for (const SampleDims& it : kSamples) {
    result.push_back(sample(t, it));
  }
  const SampleDims matrices{"ab,bc->ac", {7, 5}, {5, 6}};
  const SampleDims transposed{"ba,cb->ac", {5, 7}, {6, 5}};
  const SampleDims heads{"abc,cdef->abdef", {2, 3, 4}, {4, 3, 2, 5}};
  const SampleDims batches{"abcd,abde->abce", {2, 3, 4, 5}, {2, 3, 5, 2}};
  const SampleDims turned{"abc,bdc->adb", {2, 3, 4}, {3, 5, 4}};
  const SampleDims none{"ab,bc->ac", {3, 0}, {0, 2}};
  const SampleDims empty{"ab,bc->ac", {0, 4}, {4, 3}};
  for (const SampleDims& it : {matrices, transposed, heads, batches, turned, none, empty}) {
    for (const char* epilogue : {"bias", "add", "bias add"}) {
      result.push_back(sample(t, it, epilogue));
    }
  }
  result.push_back(sample(t, heads, "bias", 3));
  result.push_back(sample(t, heads, "add bias", 2));
  result.push_back(sample(t, heads, "bias bias add add", 5));
  if (!is_floating(t)) {
    return result;
  }
  for (std::string_view activation : kActivations) {
    if (activation != "relu") {
      result.push_back(sample(t, matrices, fmt::format("bias {}", activation)));
      result.push_back(sample(t, batches, fmt::format("{} add", activation)));
      result.push_back(sample(t, none, fmt::format("bias {}", activation)));
    }
  }
  result.push_back(sample(t, matrices, "bias relu", 1, 8));
  result.push_back(sample(t, heads, "bias relu add", 3, -8));
  result.push_back(sample(t, matrices, "scale"));
  result.push_back(sample(t, turned, "scale bias silu add", 2));
  result.push_back(sample(t, transposed, "bias scale gelu add gelu_tanh"));
  if (is_short(t)) {
    for (Sample it : {sample(t, heads), sample(t, matrices, "scale gelu")}) {
      it.attrs.set("type", accumulation_dtype(t));
      result.push_back(std::move(it));
    }
  }
  return result;
}

// "dot_general + bias + gelu"
std::string title(const Attrs& attrs) {
  std::string text = "dot_general";
  for (const char c : has_epilogue(attrs) ? ' ' + attrs.text("epilogue") : std::string()) {
    text += c == ' ' ? " + " : std::string(1, c);
  }
  return text;
}

constexpr OpDef kDefs[] = {{.name = "dot_general",
                            .kind = OpKind::kContract,
                            .dtypes = DtypeClass::kNumeric,
                            .infer = infer,
                            .jvp = jvp,
                            .vjp = vjp,
                            .batch = batch,
                            .decompose = decompose,
                            .cost = cost,
                            .samples = samples,
                            .precision = Precision::kNarrow,
                            .title = title}};

}  // namespace

const OpDef& kDotGeneral = kDefs[0];

std::span<const OpDef> dot_general_ops() { return kDefs; }

Tensor dot_general(const Arg& a, const Arg& b, const DotDims& dims) {
  return apply1(kDotGeneral, {a.tensor(), b.tensor()}, {{"dims", to_text(dims)}}, a.where());
}

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

std::vector<Epilogue> epilogues_of(const Attrs& attrs) {
  std::vector<Epilogue> result;
  if (!has_epilogue(attrs)) {
    return result;
  }
  std::string_view rest = attrs.text("epilogue");
  size_t input = 2;
  while (!rest.empty()) {
    const std::string_view name = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    if (name == "scale") {
      result.push_back({.kind = Epilogue::Kind::kScale, .scale = attrs.number("scale")});
    } else if (name == "bias" || name == "add") {
      result.push_back({.kind = name == "bias" ? Epilogue::Kind::kBias : Epilogue::Kind::kAdd,
                        .input = input++});
    } else if (std::find(std::begin(kActivations), std::end(kActivations), name) !=
               std::end(kActivations)) {
      result.push_back({.kind = Epilogue::Kind::kActivation, .activation = find_op(name)});
    } else {
      throw ShapeError(fmt::format("'{}' is no epilogue of a product", name),
                       "there are scale, bias, add, gelu, gelu_tanh, relu and silu");
    }
  }
  return result;
}

Attrs with_epilogue(const Attrs& attrs, std::string_view name) {
  return attrs.with("epilogue", has_epilogue(attrs)
                                    ? fmt::format("{} {}", attrs.text("epilogue"), name)
                                    : std::string(name));
}

bool is_product_activation(const OpDef& op) {
  return std::find(std::begin(kActivations), std::end(kActivations), op.name) !=
         std::end(kActivations);
}

}  // namespace mstrain
