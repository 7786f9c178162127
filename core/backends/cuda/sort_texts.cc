// Sorting by Batcher's bitonic network: a block for each line, whose places are ordered in the workspace.
#include "core/backends/cuda/printer.h"

namespace mstrain::cuda {
namespace {

// Prints kernels in whose end `of(k)` is the place of the k-th element of line `b`.
template <class F>
KernelText print_order(const KernelRequest& request, int axis, bool descending, int64_t wanted,
                       F&& store) {
  const Lines lines(request.inputs[0].type.shape, axis);
  int64_t padded = 1;
  while (padded < lines.n) {
    padded *= 2;
  }
  const int threads = static_cast<int>(std::clamp<int64_t>(padded / 2, 32, 512));
  const int64_t count = lines.n == 0 ? 0 : lines.count();
  const int64_t slots = std::min(count, kMostBlocksOfKernel);  // a block's order is its own
  KernelPrinter text(request, "fold.cuh");
  text.begin_blocks("", count, threads);
  text.line("const Index base = b / {0} * {1} + b % {0};", std::max<int64_t>(lines.inner, 1),
            lines.n * lines.inner);
  text.line(
      "const auto order = global<int>(static_cast<char*>(workspace) + int64_t(blockIdx.x) * {});",
      padded * 4);
  text.line("for (int k = thread; k < {}; k += {}) {{ order[k] = k; }}", padded, threads);
  text.line("__syncthreads();");
  text.line("const auto load = [&](int k) {{ return {}::load(in0[base + k * Index({})]); }};",
            text.in_format(0), lines.inner);
  text.open("for (int width = 2; width <= {}; width *= 2) {{", padded);
  text.open("for (int step = width / 2; step > 0; step /= 2) {{");
  text.open("for (int pair = thread; pair < {}; pair += {}) {{", padded / 2, threads);
  text.line("const int first = pair / step * step * 2 + pair % step, second = first + step;");
  text.line("const int x = order[first], y = order[second];");
  // Places beyond the line come after all of it.
  text.line("const bool ordered = x >= {0} || y >= {0} ? x < y", lines.n);
  text.line("    : comes_before<{}>(load(x), x, load(y), y);", descending);
  text.open("if (ordered != ((first & width) == 0)) {{");
  text.line("order[first] = y;");
  text.line("order[second] = x;");
  text.close();
  text.close();
  text.line("__syncthreads();");
  text.close();
  text.close();
  text.open("for (int k = thread; k < {}; k += {}) {{", wanted, threads);
  text.line("const int from = order[k];");
  store(text, lines);
  text.close();
  text.line("__syncthreads();");
  text.end_blocks();
  return text.finish(slots * padded * 4);
}

KernelText print_sort(const KernelRequest& request) {
  const int axis = axis_of(request);
  const bool places = request.op.name == "argsort";
  return print_order(
      request, axis, request.attrs.flag("descending"), request.inputs[0].type.shape[axis],
      [&](KernelPrinter& text, const Lines& lines) {
        if (places) {
          text.line("out0[base + k * Index({})] = from;", lines.inner);
        } else {
          text.line("out0[base + k * Index({0})] = in0[base + from * Index({0})];", lines.inner);
        }
      });
}

KernelText print_topk(const KernelRequest& request) {
  const int64_t k = request.attrs.integer("k");
  return print_order(request, request.inputs[0].type.shape.rank() - 1, true, k,
                     [&](KernelPrinter& text, const Lines&) {
                       text.line("out0[b * {} + k] = in0[base + from];", k);
                       text.line("out1[b * {} + k] = from;", k);
                     });
}

KernelText print_searchsorted(const KernelRequest& request) {
  const int64_t n = request.inputs[0].type.shape.back();
  const int64_t values = request.inputs[1].type.shape.back();
  KernelPrinter text(request, "fold.cuh");
  text.begin_elements("", request.outputs[0].type.elements());
  if (values > 0) {
    text.line("const auto value = {}::load(in1[i]);", text.in_format(1));
    text.line("const Index row = i / {} * {};", values, n);
    text.line("Index low = 0, high = {};", n);
    text.open("while (low < high) {{");
    text.line("const Index middle = (low + high) / 2;");
    text.line("const auto element = {}::load(in0[row + middle]);", text.in_format(0));
    text.line("const bool counts = comes_before<false>(element, {}, value, 0);",
              request.attrs.flag("after_equals") ? -1 : 1);
    text.line("if (counts) {{ low = middle + 1; }} else {{ high = middle; }}");
    text.close();
    text.line("out0[i] = {0}::store({0}::Held(low));", text.out_format(0));
  }
  text.end_elements();
  return text.finish();
}

}  // namespace

void add_sort_texts(std::vector<TextEntry>& entries) {
  entries.push_back({"sort", print_sort});
  entries.push_back({"argsort", print_sort});
  entries.push_back({"topk", print_topk});
  entries.push_back({"searchsorted", print_searchsorted});
}

}  // namespace mstrain::cuda
