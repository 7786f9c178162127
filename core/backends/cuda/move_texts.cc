// Operations that move elements, and constants.
#include <bit>
#include <numeric>

#include "core/backends/cuda/printer.h"

namespace mstrain::cuda {
namespace {

constexpr int kTurned = 64;      // rows and columns of bytes that a block turns at once
constexpr int kTurnedPack = 16;  // of which an access has so many

// Whether what lies there are the columns of a matrix of bytes, and such accesses divide it.
bool is_turned(const ViewType& view) {
  const Walk walk = walk_of(view);
  return size_of(view.type.dtype) == 1 && walk.dims.size() == 2 && walk.strides[0] == 1 &&
         walk.strides[1] == walk.dims[0] && walk.dims[0] % kTurnedPack == 0 &&
         walk.dims[1] % kTurnedPack == 0 && view.type.elements() > 0;
}

// By tiles in shared memory, so that both sides are accesses of many bytes.
KernelText print_turned(const KernelRequest& request) {
  const Walk walk = walk_of(request.inputs[0]);
  const int64_t columns = walk.dims[0], rows = walk.dims[1];  // as they lie
  const int64_t across = ceil_div(columns, kTurned);
  constexpr int kLine = kTurned + 4;  // columns begin in different banks
  KernelPrinter text(request);
  text.begin_blocks("", ceil_div(rows, kTurned) * across, kThreadsOfKernel);
  static_assert(kThreadsOfKernel * kTurnedPack == kTurned * kTurned, "an access for each thread");
  text.line("MSTRAIN_SHARED(uint8_t, tile, {});", kTurned * kLine);
  text.line("const int line = thread / {0}, from = thread % {0} * {1};", kTurned / kTurnedPack,
            kTurnedPack);
  text.line("const Index first_row = b / {0} * {1}, first_column = b % {0} * {1};", across,
            kTurned);
  text.open("if (first_row + line < {} && first_column + from < {}) {{", rows, columns);
  text.line("const auto bytes = load_pack<{}>(in0, (first_row + line) * {} + first_column + from);",
            kTurnedPack, columns);
  text.line("#pragma unroll");
  text.line("for (int j = 0; j < {}; ++j) {{ tile[line * {} + from + j] = bytes.at[j]; }}",
            kTurnedPack, kLine);
  text.close();
  text.line("__syncthreads();");
  text.open("if (first_column + line < {} && first_row + from < {}) {{", columns, rows);
  text.line("Pack<{}::Stored, {}> bytes;", text.out_format(0), kTurnedPack);
  text.line("#pragma unroll");
  text.line("for (int j = 0; j < {}; ++j) {{ bytes.at[j] = tile[(from + j) * {} + line]; }}",
            kTurnedPack, kLine);
  text.line("store_pack(out0, (first_column + line) * {} + first_row + from, bytes);", rows);
  text.close();
  text.line("__syncthreads();");
  text.end_blocks();
  return text.finish();
}

// The same elements in row-major order, wherever they lie.
KernelText print_copy(const KernelRequest& request) {
  if (is_turned(request.inputs[0])) {
    return print_turned(request);
  }
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
