// Operations that move elements, and constants.
#include <bit>
#include <numeric>

#include "core/backends/cuda/printer.h"

namespace mstrain::cuda {
namespace {

// The same elements in row-major order, wherever they lie.
KernelText print_copy(const KernelRequest& request) {
  KernelPrinter text(request);
  text.begin_elements("", request.outputs[0].type.elements());
  text.line("out0[i] = in0[{}];", offset_text(walk_of(request.inputs[0]), "i"));
  text.end_elements();
  return text.finish();
}

bool has_alias(const KernelRequest& request) {
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    if (!request.op.alias(request.attrs, request.inputs, i)) {
      return false;
    }
  }
  return true;
}

// What strides could say, where somebody wants it dense.
KernelText print_view(const KernelRequest& request) {
  KernelPrinter text(request);
  for (size_t o = 0; o < request.outputs.size(); ++o) {
    const Aliased view = *request.op.alias(request.attrs, request.inputs, o);
    const Shape& shape = request.outputs[o].type.shape;
    text.begin_elements(fmt::format("_{}", o), shape.elements());
    text.line("out{}[i] = in{}[{} + {}];", o, view.input, view.offset,
              offset_text(walk_of(shape, view.strides), "i"));
    text.end_elements();
  }
  return text.finish();
}

KernelText print_pad(const KernelRequest& request) {
  const Shape& low = request.attrs.ints("low");
  const Shape& inner = request.attrs.ints("inner");
  const Shape& from = request.inputs[0].type.shape;
  const Shape& to = request.outputs[0].type.shape;
  KernelPrinter text(request);
  text.begin_elements("", to.elements());
  text.line("Index rest = i, from = 0;");
  text.line("bool inside = true;");
  for (int d = to.rank(); d-- > 0;) {
    text.open("{{");
    text.line("const Index at = rest % {} - ({});", to[d], low[d]);
    text.line("inside = inside && at >= 0 && at % {0} == 0 && at / {0} < {1};", inner[d] + 1,
              from[d]);
    text.line("from += at / {} * {};", inner[d] + 1, request.inputs[0].strides[d]);
    text.line("rest /= {};", to[d]);
    text.close();
  }
  text.line("if (inside) {{ out0[i] = in0[from]; }}");
  text.line("else {{ out0[i] = {}::store(number<{}>({:#x}UL)); }}", text.out_format(0),
            text.out_format(0), std::bit_cast<uint64_t>(request.attrs.number("value")));
  text.end_elements();
  return text.finish();
}

// One launch: all threads copy what they have of the first part, then of the second.
KernelText print_concat(const KernelRequest& request) {
  const int axis = axis_of(request);
  const Lines whole(request.outputs[0].type.shape, axis);
  const int64_t line = whole.n * whole.inner;
  int64_t pack = pack_of(size_of(request.outputs[0].type.dtype), line), largest = 0, offset = 0;
  std::vector<size_t> parts;
  for (const ViewType& view : request.inputs) {
    const int64_t own = view.type.shape[axis] * whole.inner;
    pack = view.contiguous() ? std::gcd(pack, std::gcd(own, offset)) : 1;
    largest = std::max(largest, view.type.elements());
    offset += own;
    parts.push_back(parts.size());
  }
  KernelPrinter text(request);
  text.begin_kernel("", ceil_div(largest, kThreadsOfKernel * pack), kThreadsOfKernel);
  text.begin_aligned(pack, parts, {0});
  offset = 0;
  for (size_t part = 0; part < request.inputs.size(); ++part) {
    const ViewType& view = request.inputs[part];
    const int64_t own = view.type.shape[axis] * whole.inner;
    if (own > 0 && whole.outer > 0) {
      text.begin_loop("q", view.type.elements() / pack);
      text.line("const Index i = q * {};", pack);
      const std::string from = pack > 1 ? "i" : offset_text(walk_of(view), "i");
      text.line(
          "store_pack<aligned>(out0, i / {} * {} + {} + i % {}, load_pack<{}, aligned>(in{}, {}));",
          own, line, offset, own, pack, part, from);
      text.close();
    }
    offset += own;
  }
  text.end_aligned();
  text.end_kernel();
  return text.finish();
}

KernelText print_full(const KernelRequest& request) {
  KernelPrinter text(request);
  text.begin_elements("", request.outputs[0].type.elements());
  text.line("out0[i] = {0}::store(number<{0}>({1:#x}UL));", text.out_format(0),
            std::bit_cast<uint64_t>(request.attrs.number("value")));
  text.end_elements();
  return text.finish();
}

KernelText print_iota(const KernelRequest& request) {
  const Lines lines(request.outputs[0].type.shape, axis_of(request));
  KernelPrinter text(request);
  text.begin_elements("", request.outputs[0].type.elements());
  if (request.outputs[0].type.elements() > 0) {
    text.line("out0[i] = {}::store({}::Held(i / {} % {}));", text.out_format(0), text.out_format(0),
              lines.inner, lines.n);
  }
  text.end_elements();
  return text.finish();
}

}  // namespace

void add_move_texts(std::vector<TextEntry>& entries) {
  entries.push_back({"copy", print_copy, nullptr, true});
  entries.push_back({"reshape", print_copy, nullptr, true});
  entries.push_back({"pad", print_pad, nullptr, true});
  entries.push_back({"concat", print_concat, nullptr, true});
  entries.push_back({"full", print_full});
  entries.push_back({"iota", print_iota});
  for (const OpDef* op : all_ops()) {
    if (op->alias != nullptr && op->kind != OpKind::kElementwise && op->decompose == nullptr &&
        std::ranges::find(entries, op->name, &TextEntry::op) == entries.end()) {
      entries.push_back({op->name, print_view, has_alias, true});
    }
  }
}

}  // namespace mstrain::cuda
