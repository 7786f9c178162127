// Reductions over any dims, and what runs along a line.
#include "core/backends/cuda/group.h"
#include "core/backends/cuda/printer.h"

namespace mstrain::cuda {
namespace {

// The kept dims of a reduction and the reduced ones, as they are walked in the input.
struct Split {
  Walk kept, reduced;
  int64_t count = 1;  // of reduced elements

  // Whether a thread for each result is better than a block: neighbours are kept, and the results many or the elements of each few.
  bool reads_along(int64_t results) const {
    constexpr int64_t kMany = 1 << 14, kFew = 32;
    return !kept.strides.empty() && kept.strides.back() == 1 &&
           (reduced.strides.empty() || reduced.strides.back() != 1) &&
           (results >= kMany || count <= kFew);
  }
};

Split split_of(const KernelRequest& request) {
  const ViewType& x = request.inputs[0];
  std::vector<bool> is_reduced(kMaxRank, false);
  if (request.attrs.find("axes") != nullptr) {
    for (int64_t axis : request.attrs.ints("axes")) {
      is_reduced[static_cast<size_t>(axis)] = true;
    }
  } else {
    is_reduced[static_cast<size_t>(request.attrs.integer("axis"))] = true;
  }
  Split split;
  Shape dims[2], strides[2];
  for (int d = 0; d < x.type.shape.rank(); ++d) {
    const size_t to = is_reduced[static_cast<size_t>(d)] ? 1 : 0;
    dims[to].push_back(x.type.shape[d]);
    strides[to].push_back(x.strides[d]);
    split.count *= to == 1 ? x.type.shape[d] : 1;
  }
  split.kept = walk_of(dims[0], strides[0]);
  split.reduced = walk_of(dims[1], strides[1]);
  return split;
}

// A block for each result: one warp, or more for many elements.
int threads_for(int64_t count) {
  return static_cast<int>(std::clamp<int64_t>(ceil_div(count, 4 * 32) * 32, 32, 512));
}

KernelText print_fold(const KernelRequest& request) {
  if (has_group_text(request)) {
    return print_group(request);
  }
  const Split split = split_of(request);
  const std::string_view name = request.op.name;
  const char* const how = name == "reduce_sum"    ? "Sum"
                          : name == "reduce_prod" ? "Product"
                          : name == "reduce_max"  ? "Max"
                                                  : "Min";
  KernelPrinter text(request, "fold.cuh");
  const int64_t results = request.outputs[0].type.elements();
  if (split.count > 0 && split.reads_along(results)) {
    text.begin_elements("", results);
    text.line("using Held = {}::Held;", text.in_format(0));
    text.line("const Index base = {};", offset_text(split.kept, "i"));
    text.line("Held all = Fold<{}>::template none<Held>();", how);
    text.line("#pragma unroll 8");
    text.open("for (Index k = 0; k < {}; ++k) {{", split.count);
    text.line("all = Fold<{}>()(all, {}::load(in0[base + {}]));", how, text.in_format(0),
              offset_text(split.reduced, "k"));
    text.close();
    text.line("out0[i] = {}::store(all);", text.out_format(0));
    text.end_elements();
    return text.finish();
  }
  const int threads = threads_for(split.count);
  text.begin_blocks("", results, threads);
  text.line("using Held = {}::Held;", text.in_format(0));
  text.line("const Index base = {};", offset_text(split.kept, "b"));
  text.line("Held all = Fold<{}>::template none<Held>();", how);
  text.open("for (Index k = thread; k < {}; k += {}) {{", split.count, threads);
  if (split.count > 0) {
    text.line("all = Fold<{}>()(all, {}::load(in0[base + {}]));", how, text.in_format(0),
              offset_text(split.reduced, "k"));
  }
  text.close();
  text.line("all = fold_block<Fold<{}>>(all);", how);
  text.line("if (thread == 0) {{ out0[b] = {}::store(all); }}", text.out_format(0));
  text.end_blocks();
  return text.finish();
}

KernelText print_arg(const KernelRequest& request) {
  const Split split = split_of(request);
  KernelPrinter text(request, "fold.cuh");
  const int threads = threads_for(split.count);
  text.begin_blocks("", request.outputs[0].type.elements(), threads);
  text.line("using Held = {}::Held;", text.in_format(0));
  text.line("const Index base = {};", offset_text(split.kept, "b"));
  text.line("Best<Held, {}> best;", request.op.name == "argmax");
  text.open("for (Index k = thread; k < {}; k += {}) {{", split.count, threads);
  if (split.count > 0) {
    text.line("best.take({}::load(in0[base + {}]), int(k));", text.in_format(0),
              offset_text(split.reduced, "k"));
  }
  text.close();
  text.line("const int at = best_of_block(best);");
  text.line("if (thread == 0) {{ out0[b] = {}::store({}::Held(at)); }}", text.out_format(0),
            text.out_format(0));
  text.end_blocks();
  return text.finish();
}

// A thread for each line: element `at(k)` for k from 0 in the direction of the operation.
struct LineKernel {
  KernelPrinter text;
  Lines lines;

  explicit LineKernel(const KernelRequest& request)
      : text(request, "fold.cuh"), lines(request.inputs[0].type.shape, axis_of(request)) {
    text.begin_elements("", lines.n == 0 ? 0 : lines.count());
    text.line("const Index base = i / {0} * {1} + i % {0};", std::max<int64_t>(lines.inner, 1),
              lines.n * lines.inner);
  }
  void begin_line(bool reverse) {
    text.open("for (Index k = 0; k < {}; ++k) {{", lines.n);
    text.line("const Index place = {};",
              reverse ? fmt::format("{} - k", lines.n - 1) : std::string("k"));
    text.line("const Index at = base + place * {};", lines.inner);
  }
  KernelText finish() {
    text.close();
    text.end_elements();
    return text.finish();
  }
};

KernelText print_cumulative(const KernelRequest& request) {
  LineKernel kernel(request);
  KernelPrinter& text = kernel.text;
  const char* const how = request.op.name == "cumsum" ? "Sum" : "Product";
  // Long sums of f32 are made in f64, as their first elements would else be lost among the last.
  const Dtype dtype = request.inputs[0].type.dtype;
  const std::string held = is_floating(dtype) ? "double" : text.in_format(0) + "::Held";
  text.line("{0} all = Fold<{1}>::template none<{0}>();", held, how);
  kernel.begin_line(request.attrs.flag("reverse"));
  text.line("all = Fold<{}>()(all, {}({}::load(in0[at])));", how, held, text.in_format(0));
  text.line("out0[at] = {}::store({}(all));", text.out_format(0),
            dtype == Dtype::kF64 || !is_floating(dtype) ? held : "float");
  return kernel.finish();
}

KernelText print_cumulative_extremum(const KernelRequest& request) {
  LineKernel kernel(request);
  KernelPrinter& text = kernel.text;
  text.line("Best<{}::Held, {}> best;", text.in_format(0), request.op.name == "cummax");
  text.line("{}::Stored kept = 0;", text.in_format(0));
  kernel.begin_line(request.attrs.flag("reverse"));
  text.line("const {}::Stored stored = in0[at];", text.in_format(0));
  text.open("if (best.replaced_by({}::load(stored))) {{", text.in_format(0));
  text.line("best.value = {}::load(stored);", text.in_format(0));
  text.line("best.at = int(place);");
  text.line("kept = stored;");
  text.close();
  text.line("out0[at] = kept;");
  text.line("out1[at] = {}::store({}::Held(best.at));", text.out_format(1), text.out_format(1));
  return kernel.finish();
}

}  // namespace

void add_reduce_texts(std::vector<TextEntry>& entries) {
  for (const char* op : {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min"}) {
    entries.push_back({op, print_fold, nullptr, true});
  }
  for (const char* op : {"argmax", "argmin"}) {
    entries.push_back({op, print_arg, nullptr, true});
  }
  for (const char* op : {"cumsum", "cumprod"}) {
    entries.push_back({op, print_cumulative});
  }
  for (const char* op : {"cummax", "cummin"}) {
    entries.push_back({op, print_cumulative_extremum});
  }
}

}  // namespace mstrain::cuda
