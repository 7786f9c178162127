#include "core/ops/control.h"

#include <algorithm>

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

Types types_of(const Graph& graph, const std::vector<Value>& values) {
  Types types;
  for (const Value& value : values) {
    types.push_back(graph.type(value));
  }
  return types;
}

Types types_of(std::span<const Tensor> tensors) {
  Types types;
  for (const Tensor& tensor : tensors) {
    types.push_back(tensor.type());
  }
  return types;
}

void expect_types(std::string_view what, std::span<const TensorType> expected,
                  std::span<const TensorType> given) {
  if (expected.size() != given.size()) {
    throw ShapeError(
        fmt::format("{}: {} tensors instead of {}", what, given.size(), expected.size()));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (!(expected[i] == given[i])) {
      throw ShapeError(fmt::format("{} {}: {} instead of {}", what, i, to_string(given[i]),
                                   to_string(expected[i])));
    }
  }
}

// A list of tensors with its parts, to take them apart again.
struct Parts {
  Tensors all;
  void add(std::span<const Tensor> tensors) {
    all.insert(all.end(), tensors.begin(), tensors.end());
  }
};

// Indices of the floating tensors: those that have derivatives.
std::vector<size_t> floating(std::span<const Tensor> tensors) {
  std::vector<size_t> which;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_floating(tensors[i].dtype())) {
      which.push_back(i);
    }
  }
  return which;
}

Tensors pick(std::span<const Tensor> tensors, const std::vector<size_t>& which) {
  Tensors result;
  for (size_t i : which) {
    result.push_back(tensors[i]);
  }
  return result;
}

// `values` at the places `which` of a list of `count` empty tensors.
Tensors place(std::span<const Tensor> values, const std::vector<size_t>& which, size_t count) {
  Tensors result(count);
  for (size_t i = 0; i < which.size(); ++i) {
    result[which[i]] = values[i];
  }
  return result;
}

Tensors or_zeros(Tensors tensors, std::span<const Tensor> like) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i]) {
      tensors[i] = zeros_like(like[i]);
    }
  }
  return tensors;
}

// Records `f` of values like `inputs`; what it uses from outside must be among the inputs.
GraphPtr closed_program(const Types& types,
                        const std::function<Tensors(std::span<const Tensor>)>& f) {
  Tensors captures;
  GraphPtr program = trace_program(types, f, &captures);
  check(captures.empty(), "a loop body uses {} tensors that are not among its inputs",
        captures.size());
  return program;
}

// ---- scan ----

struct ScanForm {
  size_t carries, constants, xs, ys;
  int64_t length;
  bool reverse, keep;
  const Graph* body;

  explicit ScanForm(const Attrs& attrs)
      : carries(static_cast<size_t>(attrs.integer("carries"))),
        constants(static_cast<size_t>(attrs.integer("constants"))),
        length(attrs.integer("length")),
        reverse(attrs.flag("reverse")),
        keep(attrs.flag("keep_carries")),
        body(attrs.graph("body").get()) {
    xs = body->inputs().size() - carries - constants;
    ys = body->outputs().size() - carries;
  }
};

TensorType stacked(TensorType type, int64_t length) {
  type.shape = type.shape.with_inserted(0, length);
  return type;
}

Types infer_scan(std::span<const TensorType> in, const Attrs& attrs) {
  const ScanForm form(attrs);
  const size_t given = form.body->inputs().size();
  if (form.carries > form.body->outputs().size() || form.carries > given ||
      form.constants > given - form.carries || form.length < 0) {
    throw ShapeError(fmt::format(
        "{} carries and {} constants do not fit a body of {} inputs and {} outputs",
        attrs.integer("carries"), attrs.integer("constants"), given, form.body->outputs().size()));
  }
  const Types body_in = types_of(*form.body, form.body->inputs());
  const Types body_out = types_of(*form.body, form.body->outputs());
  Types expected(body_in.begin(),
                 body_in.begin() + static_cast<int64_t>(form.carries + form.constants));
  for (size_t i = form.carries + form.constants; i < body_in.size(); ++i) {
    expected.push_back(stacked(body_in[i], form.length));
  }
  expect_types("input", expected, in);
  expect_types("carry", std::span(body_in).first(form.carries),
               std::span(body_out).first(form.carries));
  Types out(body_out.begin(), body_out.begin() + static_cast<int64_t>(form.carries));
  for (size_t i = form.carries; i < body_out.size(); ++i) {
    out.push_back(stacked(body_out[i], form.length));
  }
  for (size_t i = 0; form.keep && i < form.carries; ++i) {
    out.push_back(stacked(body_out[i], form.length));
  }
  return out;
}

const OpDef& scan_op();

// keep_carries: the carries that enter each step follow the ys, stacked.
Tensors scan_with(const GraphPtr& body, const Tensors& inputs, size_t carries, size_t constants,
                  int64_t length, bool reverse, bool keep) {
  return apply(scan_op(), inputs,
               {{"body", body},
                {"carries", static_cast<int64_t>(carries)},
                {"constants", static_cast<int64_t>(constants)},
                {"length", length},
                {"reverse", reverse},
                {"keep_carries", keep}},
               kHere);
}

// The attributes of the loop that gives the carries which enter each step as further ys.
Attrs kept_as_ys(const Attrs& attrs) {
  const GraphPtr& body = attrs.graph("body");
  const auto carries = static_cast<size_t>(attrs.integer("carries"));
  const GraphPtr with_carries =
      closed_program(types_of(*body, body->inputs()), [&](std::span<const Tensor> args) {
        Parts result;
        result.add(replay(*body, args));
        result.add(args.first(carries));
        return result.all;
      });
  return attrs.with("body", with_carries).with("keep_carries", false);
}

// One loop over pairs (value, tangent) of everything floating.
Tensors jvp_scan(const Application& node, std::span<const Tensor> given) {
  const Attrs attrs = node.attrs.flag("keep_carries") ? kept_as_ys(node.attrs) : node.attrs;
  const ScanForm form(attrs);
  const std::span<const Tensor> in = node.inputs;
  const Tensors tangents = or_zeros(Tensors(given.begin(), given.end()), in);
  const auto section = [](std::span<const Tensor> all, size_t from, size_t count) {
    return all.subspan(from, count);
  };
  const auto c = section(in, 0, form.carries);
  const auto k = section(in, form.carries, form.constants);
  const auto x = section(in, form.carries + form.constants, form.xs);
  const auto fc = floating(c);
  const auto fk = floating(k);
  const auto fx = floating(x);
  const Tensors tc = pick(section(tangents, 0, form.carries), fc);
  const Tensors tk = pick(section(tangents, form.carries, form.constants), fk);
  const Tensors tx = pick(section(tangents, form.carries + form.constants, form.xs), fx);
  const size_t n = form.carries;

  Parts inputs;
  for (const auto& part : {Tensors(c.begin(), c.end()), tc, Tensors(k.begin(), k.end()), tk,
                           Tensors(x.begin(), x.end()), tx}) {
    inputs.add(part);
  }
  Types types = types_of(inputs.all);
  for (size_t i = types.size() - form.xs - fx.size(); i < types.size(); ++i) {
    types[i].shape = types[i].shape.without(0);
  }
  std::vector<size_t> fy;  // floating ys
  const GraphPtr body = closed_program(types, [&](std::span<const Tensor> args) {
    size_t at = 0;
    const auto take = [&](size_t count) {
      at += count;
      return args.subspan(at - count, count);
    };
    Parts primal;
    Parts tangent;
    for (const auto& [count, which] :
         {std::pair{form.carries, &fc}, {form.constants, &fk}, {form.xs, &fx}}) {
      primal.add(take(count));
      tangent.add(place(take(which->size()), *which, count));
    }
    const Tensors out = replay(*form.body, primal.all);
    Tensors pushed = or_zeros(push_forward(primal.all, tangent.all, out), out);
    fy = floating(std::span(out).subspan(n));
    Parts result;
    result.add(std::span(out).first(n));
    result.add(pick(std::span(pushed).first(n), fc));
    result.add(std::span(out).subspan(n));
    result.add(pick(std::span(pushed).subspan(n), fy));
    return result.all;
  });
  const Tensors out = scan_with(body, inputs.all, n + fc.size(), form.constants + fk.size(),
                                form.length, form.reverse, false);
  const std::span<const Tensor> results = out;
  Parts all;
  all.add(place(results.subspan(n, fc.size()), fc, n));
  all.add(place(results.subspan(n + fc.size() + form.ys), fy, form.ys));
  return all.all;
}

// The loop backwards: each step recomputes the body from the carries that entered it.
Tensors vjp_scan(const Application& node, std::span<const Tensor> given) {
  const ScanForm form(node.attrs);
  const std::span<const Tensor> in = node.inputs;
  const size_t n = form.carries;
  const auto k = in.subspan(n, form.constants);
  const auto x = in.subspan(n + form.constants);
  const Tensors kept = scan_with(node.attrs.graph("body"), Tensors(in.begin(), in.end()), n,
                                 form.constants, form.length, form.reverse, true);
  const std::span<const Tensor> entering = std::span(kept).subspan(n + form.ys, n);
  const std::span<const Tensor> outputs = node.outputs;
  const Tensors ct = or_zeros(Tensors(given.begin(), given.end()), outputs);
  const auto fc = floating(in.first(n));
  const auto fk = floating(k);
  const auto fx = floating(x);
  const auto fy = floating(outputs.subspan(n, form.ys));

  // Carries: cotangents of carries and sums for the constants. Constants: as they are. xs: entering carries, xs,
  // cotangents of ys and, where the forward loop kept its carries, cotangents of those.
  Parts inputs;
  inputs.add(pick(std::span(ct).first(n), fc));
  for (size_t i : fk) {
    inputs.all.push_back(zeros_like(k[i]));
  }
  const size_t carried = inputs.all.size();
  inputs.add(k);
  inputs.add(entering);
  inputs.add(x);
  inputs.add(pick(std::span(ct).subspan(n, form.ys), fy));
  if (form.keep) {
    inputs.add(pick(std::span(ct).subspan(n + form.ys, n), fc));
  }
  Types types = types_of(inputs.all);
  for (size_t i = carried + form.constants; i < types.size(); ++i) {
    types[i].shape = types[i].shape.without(0);
  }
  const GraphPtr body = closed_program(types, [&](std::span<const Tensor> args) {
    size_t at = 0;
    const auto take = [&](size_t count) {
      at += count;
      return args.subspan(at - count, count);
    };
    const auto ct_carry = take(fc.size());
    const auto sums = take(fk.size());
    const auto constants = take(form.constants);
    Parts primal;
    primal.add(take(n));
    primal.add(constants);
    primal.add(take(form.xs));
    const auto ct_ys = take(fy.size());
    const Tensors out = replay(*form.body, primal.all);
    Parts seeds;
    seeds.add(place(ct_carry, fc, n));
    seeds.add(place(ct_ys, fy, form.ys));
    const Tensors pulled = or_zeros(pull_back(out, seeds.all, primal.all), primal.all);
    Tensors to_carry = pick(std::span(pulled).first(n), fc);
    if (form.keep) {
      const auto extra = take(fc.size());
      for (size_t i = 0; i < to_carry.size(); ++i) {
        to_carry[i] = to_carry[i] + extra[i];
      }
    }
    Parts result;
    result.add(to_carry);
    const Tensors to_constants = pick(std::span(pulled).subspan(n, form.constants), fk);
    for (size_t i = 0; i < fk.size(); ++i) {
      result.all.push_back(sums[i] + to_constants[i]);
    }
    result.add(pick(std::span(pulled).subspan(n + form.constants), fx));
    return result.all;
  });
  const Tensors out =
      scan_with(body, inputs.all, carried, form.constants, form.length, !form.reverse, false);
  const std::span<const Tensor> results = out;
  Parts all;
  all.add(place(results.first(fc.size()), fc, n));
  all.add(place(results.subspan(fc.size(), fk.size()), fk, form.constants));
  all.add(place(results.subspan(carried), fx, form.xs));
  return all.all;
}

Tensors batch_scan(const OpDef&, const Attrs& attrs, std::span<const Tensor> in,
                   std::span<const bool> batched, int64_t size) {
  const ScanForm form(attrs);
  const size_t fixed = form.carries + form.constants;
  Tensors inputs = batch_all(in, batched, size);
  for (size_t i = fixed; i < inputs.size(); ++i) {
    inputs[i] = move_axis(inputs[i], 0, 1);  // the loop runs over the leading dim
  }
  Types types = types_of(inputs);
  for (size_t i = fixed; i < types.size(); ++i) {
    types[i].shape = types[i].shape.without(0);
  }
  const std::unique_ptr<bool[]> all(new bool[inputs.size() + 1]);
  std::fill(all.get(), all.get() + inputs.size(), true);
  const GraphPtr body = closed_program(types, [&](std::span<const Tensor> args) {
    return replay_batched(*form.body, args, std::span<const bool>(all.get(), args.size()), size);
  });
  Tensors out =
      scan_with(body, inputs, form.carries, form.constants, form.length, form.reverse, form.keep);
  for (size_t i = form.carries; i < out.size(); ++i) {
    out[i] = move_axis(out[i], 1, 0);
  }
  return out;
}

// ---- while ----

Types infer_while(std::span<const TensorType> in, const Attrs& attrs) {
  const Graph& body = *attrs.graph("body");
  const Graph& condition = *attrs.graph("condition");
  expect_types("input", types_of(body, body.inputs()), in);
  expect_types("condition's input", types_of(condition, condition.inputs()), in);
  expect_types("condition", Types{{Dtype::kBool, {}}}, types_of(condition, condition.outputs()));
  const Types out = types_of(body, body.outputs());
  expect_types("carry", in.first(std::min(in.size(), out.size())), out);
  return out;
}

Tensors jvp_while(const Application& node, std::span<const Tensor> given) {
  const GraphPtr& body = node.attrs.graph("body");
  const GraphPtr& condition = node.attrs.graph("condition");
  const size_t n = body->outputs().size();
  const std::span<const Tensor> in = node.inputs;
  const Tensors tangents = or_zeros(Tensors(given.begin(), given.end()), in);
  const auto fc = floating(in.first(n));
  const auto fk = floating(in.subspan(n));
  const size_t constants = in.size() - n;
  Parts carries;
  carries.add(in.first(n));
  carries.add(pick(std::span(tangents).first(n), fc));
  Parts rest;
  rest.add(in.subspan(n));
  rest.add(pick(std::span(tangents).subspan(n), fk));
  Parts inputs = carries;
  inputs.add(rest.all);
  const Types types = types_of(inputs.all);
  const auto primal_of = [&](std::span<const Tensor> args) {
    Parts primal;
    primal.add(args.first(n));
    primal.add(args.subspan(n + fc.size(), constants));
    return primal.all;
  };
  const GraphPtr both = closed_program(types, [&](std::span<const Tensor> args) {
    const Tensors primal = primal_of(args);
    Parts tangent;
    tangent.add(place(args.subspan(n, fc.size()), fc, n));
    tangent.add(place(args.subspan(n + fc.size() + constants), fk, constants));
    const Tensors out = replay(*body, primal);
    const Tensors pushed = or_zeros(push_forward(primal, tangent.all, out), out);
    Parts result;
    result.add(out);
    result.add(pick(pushed, fc));
    return result.all;
  });
  const GraphPtr test = closed_program(
      types, [&](std::span<const Tensor> args) { return replay(*condition, primal_of(args)); });
  const Tensors out = while_program(test, both, carries.all, rest.all);
  return place(std::span(out).subspan(n), fc, n);
}

Tensors vjp_while(const Application&, std::span<const Tensor>) {
  fail(
      "while: a loop of unknown length has no reverse-mode derivative; use scan with a fixed "
      "length, or jvp");
}

// The loop runs until no element wants to go on; finished elements keep their values.
Tensors batch_while(const OpDef&, const Attrs& attrs, std::span<const Tensor> in,
                    std::span<const bool> batched, int64_t size) {
  const GraphPtr& body = attrs.graph("body");
  const GraphPtr& condition = attrs.graph("condition");
  const size_t n = body->outputs().size();
  const Tensors inputs = batch_all(in, batched, size);
  const Types types = types_of(inputs);
  const std::unique_ptr<bool[]> all(new bool[inputs.size() + 1]);
  std::fill(all.get(), all.get() + inputs.size(), true);
  const std::span<const bool> flags(all.get(), inputs.size());
  const auto goes_on = [&](std::span<const Tensor> args) {
    return replay_batched(*condition, args, flags, size)[0];
  };
  const GraphPtr test = closed_program(types, [&](std::span<const Tensor> args) {
    return Tensors{greater(max(cast(goes_on(args), Dtype::kI32)), 0)};
  });
  const GraphPtr step = closed_program(types, [&](std::span<const Tensor> args) {
    const Tensor go = goes_on(args);
    Tensors next = replay_batched(*body, args, flags, size);
    for (size_t i = 0; i < next.size(); ++i) {
      Shape shape = go.shape();
      while (shape.rank() < next[i].rank()) {
        shape.push_back(1);
      }
      next[i] = where(reshape(go, shape), next[i], args[i]);
    }
    return next;
  });
  return while_program(test, step, std::span(inputs).first(n), std::span(inputs).subspan(n));
}

// ---- programs as functions ----

Types infer_checkpoint(std::span<const TensorType> in, const Attrs& attrs) {
  const Graph& body = *attrs.graph("body");
  expect_types("input", types_of(body, body.inputs()), in);
  return types_of(body, body.outputs());
}

Tensors replay_body(const Attrs& attrs, std::span<const Tensor> in) {
  return replay(*attrs.graph("body"), in);
}

Tensors vjp_checkpoint(const Application& node, std::span<const Tensor> ct) {
  Parts held;
  held.add(node.inputs);
  std::vector<size_t> nonzero;
  for (size_t i = 0; i < ct.size(); ++i) {
    if (ct[i]) {
      nonzero.push_back(i);
      held.all.push_back(ct[i]);
    }
  }
  const Tensors late = barrier(held.all);
  const size_t n = node.inputs.size();
  Tensors late_ct(ct.size());
  for (size_t i = 0; i < nonzero.size(); ++i) {
    late_ct[nonzero[i]] = late[n + i];
  }
  return vjp_by_decomposition({node.op, node.attrs, std::span(late).first(n), node.outputs},
                              late_ct);
}

Types infer_custom(std::span<const TensorType> in, const Attrs& attrs) {
  const Graph& forward = *attrs.graph("forward");
  const Graph& backward = *attrs.graph("backward");
  const auto n = static_cast<size_t>(attrs.integer("outputs"));
  expect_types("input", types_of(forward, forward.inputs()), in);
  const Types all = types_of(forward, forward.outputs());
  if (n > all.size()) {
    throw ShapeError(fmt::format("{} results of a function that gives {}", attrs.integer("outputs"),
                                 all.size()));
  }
  Types given(all.begin() + static_cast<int64_t>(n), all.end());
  given.insert(given.end(), all.begin(), all.begin() + static_cast<int64_t>(n));
  expect_types("input of the backward function", given, types_of(backward, backward.inputs()));
  expect_types("cotangent", in, types_of(backward, backward.outputs()));
  return all;
}

Tensors jvp_custom(const Application&, std::span<const Tensor>) {
  fail(
      "custom_vjp: a function with a reverse rule of its own has no forward-mode derivative; take "
      "second derivatives in "
      "reverse mode, as in jacobian(grad(f))");
}

// The results by the function's own rule; the residuals, which second derivatives come to, by that of what computes them.
Tensors vjp_custom(const Application& node, std::span<const Tensor> ct) {
  const auto n = static_cast<size_t>(node.attrs.integer("outputs"));
  const auto any = [](std::span<const Tensor> tensors) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [](const Tensor& t) { return static_cast<bool>(t); });
  };
  Tensors result(node.inputs.size());
  if (any(ct.first(n))) {
    Parts given;
    given.add(node.outputs.subspan(n));
    given.add(or_zeros(Tensors(ct.begin(), ct.begin() + static_cast<int64_t>(n)), node.outputs));
    result = replay(*node.attrs.graph("backward"), given.all);
  }
  if (any(ct.subspan(n))) {
    Tensors residuals(ct.begin(), ct.end());
    std::fill(residuals.begin(), residuals.begin() + static_cast<int64_t>(n), Tensor());
    const Tensors through = vjp_by_decomposition(node, residuals);
    for (size_t i = 0; i < result.size(); ++i) {
      if (is_floating(node.inputs[i].dtype())) {
        result[i] = add_or_zero(result[i], through[i]);
      }
    }
  }
  return result;
}

Tensors batch_custom(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                     std::span<const bool> batched, int64_t size) {
  const auto lift = [&](const Graph& graph) {
    Types types;
    for (const Value& value : graph.inputs()) {
      types.push_back(stacked(graph.type(value), size));
    }
    const std::unique_ptr<bool[]> all(new bool[types.size() + 1]);
    std::fill(all.get(), all.get() + types.size(), true);
    return closed_program(types, [&](std::span<const Tensor> args) {
      return replay_batched(graph, args, std::span<const bool>(all.get(), args.size()), size);
    });
  };
  return apply(op, batch_all(in, batched, size),
               attrs.with("forward", lift(*attrs.graph("forward")))
                   .with("backward", lift(*attrs.graph("backward"))),
               kHere);
}

Types infer_barrier(std::span<const TensorType> in, const Attrs&) {
  return Types(in.begin(), in.end());
}

Tensors derive_barrier(const Application&, std::span<const Tensor> given) {
  return Tensors(given.begin(), given.end());
}

constexpr auto kControl = OpKind::kControl;
constexpr auto kAny = DtypeClass::kAny;

// Sampled by tests of their own: their attributes are programs.
constexpr OpDef kDefs[] = {
    {.name = "scan",
     .kind = kControl,
     .dtypes = kAny,
     .infer = infer_scan,
     .jvp = jvp_scan,
     .vjp = vjp_scan,
     .batch = batch_scan},
    {.name = "while",
     .kind = kControl,
     .dtypes = kAny,
     .infer = infer_while,
     .jvp = jvp_while,
     .vjp = vjp_while,
     .batch = batch_while},
    {.name = "checkpoint",
     .kind = kControl,
     .dtypes = kAny,
     .infer = infer_checkpoint,
     .jvp = jvp_by_decomposition,
     .vjp = vjp_checkpoint,
     .batch = batch_by_decomposition,
     .decompose = replay_body},
    {.name = "custom_vjp",
     .kind = kControl,
     .dtypes = kAny,
     .infer = infer_custom,
     .jvp = jvp_custom,
     .vjp = vjp_custom,
     .batch = batch_custom,
     .decompose = [](const Attrs& attrs,
                     std::span<const Tensor> in) { return replay(*attrs.graph("forward"), in); }},
    {.name = "barrier",
     .kind = kControl,
     .dtypes = kAny,
     .infer = infer_barrier,
     .jvp = derive_barrier,
     .vjp = derive_barrier,
     .linear = kLinearInAll,
     .batch = batch_leading},
};

const OpDef& scan_op() { return kDefs[0]; }

}  // namespace

std::span<const OpDef> control_ops() { return kDefs; }

Tensors scan_program(const GraphPtr& body, std::span<const Tensor> carries,
                     std::span<const Tensor> constants, std::span<const Tensor> xs, int64_t length,
                     bool reverse) {
  Parts inputs;
  inputs.add(carries);
  inputs.add(constants);
  inputs.add(xs);
  return scan_with(body, inputs.all, carries.size(), constants.size(), length, reverse, false);
}

Tensors while_program(const GraphPtr& condition, const GraphPtr& body,
                      std::span<const Tensor> carries, std::span<const Tensor> constants) {
  Parts inputs;
  inputs.add(carries);
  inputs.add(constants);
  return apply(kDefs[1], inputs.all, {{"condition", condition}, {"body", body}}, kHere);
}

Tensors checkpoint_program(const GraphPtr& body, std::span<const Tensor> inputs) {
  return apply(kDefs[2], inputs, {{"body", body}}, kHere);
}

Tensors custom_vjp_program(const GraphPtr& forward, const GraphPtr& backward, int64_t outputs,
                           std::span<const Tensor> inputs) {
  Tensors all = apply(kDefs[3], inputs,
                      {{"forward", forward}, {"backward", backward}, {"outputs", outputs}}, kHere);
  all.resize(static_cast<size_t>(outputs));
  return all;
}

Tensors barrier(std::span<const Tensor> values) { return apply(kDefs[4], values, {}, kHere); }

}  // namespace mstrain
