// A loop over slices: its types, derivatives and batching.
#include <algorithm>

#include "core/ops/control_parts.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"

namespace mstrain::control {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

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

// The attributes of the loop that gives the carries which enter each step as further ys.
Attrs kept_as_ys(const Attrs& attrs) {
  const GraphPtr& body = attrs.graph("body");
  const auto carries = static_cast<size_t>(attrs.integer("carries"));
  const GraphPtr with_carries =
      closed_program(body->types(body->inputs()), [&](std::span<const Tensor> args) {
        Parts result;
        result.add(replay(*body, args));
        result.add(args.first(carries));
        return result.all;
      });
  return attrs.with("body", with_carries).with("keep_carries", false);
}

}  // namespace

Types infer_scan(std::span<const TensorType> in, const Attrs& attrs) {
  const ScanForm form(attrs);
  const size_t given = form.body->inputs().size();
  if (form.carries > form.body->outputs().size() || form.carries > given ||
      form.constants > given - form.carries || form.length < 0) {
    throw ShapeError(fmt::format(
        "{} carries and {} constants do not fit a body of {} inputs and {} outputs",
        attrs.integer("carries"), attrs.integer("constants"), given, form.body->outputs().size()));
  }
  const Types body_in = form.body->types(form.body->inputs());
  const Types body_out = form.body->types(form.body->outputs());
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

Tensors scan_with(const GraphPtr& body, const Tensors& inputs, size_t carries, size_t constants,
                  int64_t length, bool reverse, bool keep) {
  return apply(kScan, inputs,
               {{"body", body},
                {"carries", static_cast<int64_t>(carries)},
                {"constants", static_cast<int64_t>(constants)},
                {"length", length},
                {"reverse", reverse},
                {"keep_carries", keep}},
               kHere);
}

// One loop over pairs (value, tangent) of everything floating.
Tensors jvp_scan(const Application& node, std::span<const Tensor> given) {
  const Attrs attrs = node.attrs.flag("keep_carries") ? kept_as_ys(node.attrs) : node.attrs;
  const ScanForm form(attrs);
  const std::span<const Tensor> in = node.inputs;
  const Tensors tangents = or_zeros(given, in);
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
  const Tensors ct = or_zeros(given, outputs);
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

}  // namespace mstrain::control
