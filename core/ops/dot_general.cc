#include "core/ops/dot_general.h"

#include <algorithm>
#include <array>

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/layouts.h"
#include "core/ops/samples.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

bool has(std::string_view letters, char letter) {
  return letters.find(letter) != std::string_view::npos;
}

Tensor plain(const Tensor& a, const Tensor& b, const DotDims& dims) {
  return apply1(kDotGeneral, {a, b}, {{"dims", to_text(dims)}}, kHere);
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

bool is_suffix(const Shape& x, const Shape& of) {
  return x.rank() <= of.rank() && std::equal(x.begin(), x.end(), of.end() - x.rank());
}

void check_epilogue(const Epilogue& epilogue, std::span<const TensorType> in,
                    const TensorType& out) {
  using Kind = Epilogue::Kind;
  const bool is_bias = epilogue.kind == Kind::kBias, is_addend = epilogue.kind == Kind::kAdd;
  if (!is_bias && !is_addend && !is_floating(out.dtype)) {
    throw ShapeError(fmt::format("has no {} for {}",
                                 epilogue.kind == Kind::kScale  ? "scale"
                                 : epilogue.kind == Kind::kKeep ? "further result"
                                                                : "activation",
                                 name_of(out.dtype)));
  }
  if (epilogue.input == 0) {
    return;
  }
  const TensorType& term = in[epilogue.input];
  const bool fits = is_bias ? is_suffix(term.shape, out.shape) : term.shape == out.shape;
  if (!fits || term.dtype != out.dtype) {
    throw ShapeError(fmt::format("{} {} does not fit the result {}",
                                 is_bias     ? "bias"
                                 : is_addend ? "addend"
                                             : "operand",
                                 to_string(term), to_string(out)));
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
  const TensorType out{in[0].dtype, Sizes(dims, in[0].shape, in[1].shape).of(dims.out)};
  Types results{out};
  for (const Epilogue& epilogue : epilogues) {
    check_epilogue(epilogue, in, out);
    if (epilogue.kind == Epilogue::Kind::kKeep) {
      results.push_back(out);
    }
  }
  return results;
}

Tensors jvp(const Application& node, std::span<const Tensor> t) {
  if (has_epilogue(node.attrs)) {
    return jvp_by_decomposition(node, t);
  }
  const auto term = [&](const Tensor& a, const Tensor& b) {
    return a.defined() && b.defined() ? apply1(node.op, {a, b}, node.attrs, kHere) : Tensor();
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
  return {plain(ct[0], b, {dims.out, dims.b, dims.a}), plain(a, ct[0], {dims.a, dims.out, dims.b})};
}

// One letter more: a batch dim where both operands have it, else a free one.
Tensors batch(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
              std::span<const bool> batched, int64_t size) {
  Tensors inputs(in.begin(), in.end());
  for (const Epilogue& epilogue : epilogues_of(attrs)) {
    if ((epilogue.kind == Epilogue::Kind::kBias && batched[epilogue.input]) ||
        epilogue.kind == Epilogue::Kind::kGradient || epilogue.kind == Epilogue::Kind::kKeep) {
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

// A product without epilogues is simple; with some, its last one follows a product with those before.
Tensors decompose(const Attrs& attrs, std::span<const Tensor> in) {
  const std::vector<Epilogue> epilogues = epilogues_of(attrs);
  if (epilogues.empty()) {
    return {};
  }
  const Epilogue& last = epilogues.back();
  const std::string& names = attrs.text("epilogue");
  Attrs before{{"dims", attrs.text("dims")}};
  if (epilogues.size() > 1) {
    before.set("epilogue", names.substr(0, names.rfind(' ')));
  }
  if (attrs.find("scale") != nullptr) {
    before.set("scale", attrs.number("scale"));
  }
  const size_t count = in.size() - (last.input > 0 ? 1 : 0);
  Tensors results = apply(
      kDotGeneral, Tensors(in.begin(), in.begin() + static_cast<int64_t>(count)), before, kHere);
  Tensor& z = results[0];
  switch (last.kind) {
    case Epilogue::Kind::kScale: z = z * last.scale; break;
    case Epilogue::Kind::kBias:
    case Epilogue::Kind::kAdd: z = z + in[last.input]; break;
    case Epilogue::Kind::kActivation: z = apply1(*last.activation, {z}, {}, kHere); break;
    case Epilogue::Kind::kGradient:
      z = apply1(*last.activation, {in[last.input], z}, {}, kHere);
      break;
    case Epilogue::Kind::kKeep: results.push_back(z); break;
  }
  return results;
}

Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs) {
  const DotDims dims = dot_dims(attrs);
  double flops = 2;
  for (size_t i = 0; i < dims.a.size(); ++i) {
    if (!has(dims.out, dims.a[i])) {
      flops *= static_cast<double>(in[0].shape[static_cast<int>(i)]);
    }
  }
  Cost total = elementwise_cost(in, out.first(1), flops);
  for (const TensorType& kept : out.subspan(1)) {
    total.bytes += static_cast<double>(kept.bytes());
  }
  for (const Epilogue& epilogue : epilogues_of(attrs)) {
    if (epilogue.kind != Epilogue::Kind::kKeep) {
      total.flops += epilogue.activation != nullptr
                         ? epilogue.activation->cost(out.first(1), out.first(1), {}).flops
                         : static_cast<double>(out[0].elements());
    }
  }
  return total;
}

// Of parts of a summed dim that the ranks do not divide: what fills up the smaller operand is taken out, so that it adds nothing.
// Null where they divide it.
PartProgram without_summed_filling(const LayoutRequest& request,
                                   std::span<const Placement> inputs) {
  const bool second =
      !inputs[0].sharded() ||
      (inputs[1].sharded() && request.inputs[1].bytes() < request.inputs[0].bytes());
  const Placement& placement = inputs[second ? 1 : 0];
  const int64_t whole = request.inputs[second ? 1 : 0].shape[placement.dim];
  if (whole % request.axis.size == 0) {
    return nullptr;
  }
  return [second, whole, dim = placement.dim, attrs = request.attrs, &op = request.op](
             std::span<const Tensor> parts, const MeshAxis& axis) {
    Tensors in(parts.begin(), parts.end());
    Tensor& smaller = in[second ? 1 : 0];
    smaller = layout::without_filling(smaller, dim, whole, axis);
    return apply(op, in, attrs, kHere);
  };
}

bool is_linear(std::span<const Epilogue> epilogues) {
  return std::all_of(epilogues.begin(), epilogues.end(), [](const Epilogue& epilogue) {
    return epilogue.kind == Epilogue::Kind::kScale;
  });
}

// Parts of a letter's dim wherever it is; of one that is summed over, terms of the sum.
std::vector<Way> letter_ways(const LayoutRequest& request, std::span<const Epilogue> epilogues) {
  const DotDims dims = dot_dims(request.attrs);
  std::vector<Way> ways;
  std::string letters = dims.a;
  for (const char letter : dims.b) {
    letters.append(has(letters, letter) ? 0 : 1, letter);
  }
  const auto place = [](std::string_view tensor, char letter) {
    const size_t at = tensor.find(letter);
    return at == std::string_view::npos ? kReplicated : sharded(static_cast<int>(at));
  };
  for (const char letter : letters) {
    Way way = request.whole();
    way.inputs[0] = place(dims.a, letter);
    way.inputs[1] = place(dims.b, letter);
    if (!has(dims.out, letter)) {
      way.outputs[0] = partial();
      way.uneven = true;
      way.program = without_summed_filling(request, way.inputs);
      if (is_linear(epilogues)) {
        ways.push_back(std::move(way));
      }
      continue;
    }
    way.outputs[0] = place(dims.out, letter);
    way.uneven = true;
    way.outputs.assign(request.outputs.size(), way.outputs[0]);
    for (const Epilogue& epilogue : epilogues) {
      if (epilogue.input > 0) {
        const int missing =
            request.outputs[0].shape.rank() - request.inputs[epilogue.input].shape.rank();
        const int dim = way.outputs[0].dim - missing;
        way.inputs[epilogue.input] = dim >= 0 ? sharded(dim) : kReplicated;
      }
    }
    ways.push_back(std::move(way));
  }
  return ways;
}

std::vector<Way> layout_letters(const LayoutRequest& request) {
  const std::vector<Epilogue> epilogues = epilogues_of(request.attrs);
  std::vector<Way> ways;
  if (is_linear(epilogues)) {
    for (const uint32_t operand : {0b01U, 0b10U}) {
      ways.push_back(layout::sums(request, operand).at(0));
    }
  }
  const std::vector<Way> more = letter_ways(request, epilogues);
  ways.insert(ways.end(), more.begin(), more.end());
  return ways;
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
                            .layout = layout_letters,
                            .samples = samples::dot_general,
                            .precision = Precision::kNarrow,
                            .title = title}};

}  // namespace

const OpDef& kDotGeneral = kDefs[0];

std::vector<Way> layout::letters(const LayoutRequest& request) { return letter_ways(request, {}); }

std::span<const OpDef> dot_general_ops() { return kDefs; }

Tensor dot_general(const Arg& a, const Arg& b, const DotDims& dims) {
  return apply1(kDotGeneral, {a.tensor(), b.tensor()}, {{"dims", to_text(dims)}}, a.where());
}

}  // namespace mstrain
