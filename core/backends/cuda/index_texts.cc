// Elements chosen by ids. What is added to one place is added in ascending order of position, by the one block or thread that
// owns the place: results depend neither on the card nor on the run.
#include "core/backends/cuda/printer.h"

namespace mstrain::cuda {
namespace {

// The reporter of an operation, counted from 1.
int reporter(const KernelRequest& request) {
  const auto found = std::ranges::find(kReporters, request.op.name);
  return static_cast<int>(found - kReporters.begin()) + 1;
}

KernelText print_gather(const KernelRequest& request) {
  const Lines lines(request.inputs[0].type.shape, axis_of(request));
  const int64_t ids = request.inputs[1].type.elements();
  KernelPrinter text(request, "ids.cuh");
  text.begin_elements("", request.outputs[0].type.elements());
  if (ids * lines.inner > 0) {
    text.line("const Index k = i / {} % {};", lines.inner, ids);
    text.line("const Index id = Index(checked_id<{}>(int64_t(in1[k]), k, {}, report));",
              reporter(request), lines.n);
    text.line("out0[i] = in0[(i / {} * {} + id) * {} + i % {}];", ids * lines.inner, lines.n,
              lines.inner, lines.inner);
  }
  text.end_elements();
  return text.finish();
}

KernelText print_take_along(const KernelRequest& request) {
  const Lines lines(request.inputs[0].type.shape, axis_of(request));
  const Lines of_ids(request.inputs[1].type.shape, axis_of(request));
  KernelPrinter text(request, "ids.cuh");
  text.begin_elements("", request.outputs[0].type.elements());
  if (of_ids.n * of_ids.inner > 0) {
    text.line("const Index id = Index(checked_id<{}>(int64_t(in1[i]), i, {}, report));",
              reporter(request), lines.n);
    text.line("out0[i] = in0[(i / {} * {} + id) * {} + i % {}];", of_ids.n * of_ids.inner, lines.n,
              lines.inner, lines.inner);
  }
  text.end_elements();
  return text.finish();
}

// How a place takes an update.
std::string taken(const KernelRequest& request, const std::string& update) {
  const std::string format = format_of(request.inputs[0].type.dtype);
  const std::string value = fmt::format("{}::load({})", format, update);
  if (request.op.name == "scatter_set") {
    return "sum = " + value + ";";
  }
  return is_floating(request.inputs[0].type.dtype)
             ? fmt::format("sum += {};", value)
             : fmt::format("sum = scalar::add({}::Held(sum), {});", format, value);
}

// Ids outside change nothing; each is reported once.
void print_check(KernelPrinter& text, const KernelRequest& request, int64_t n) {
  text.begin_elements("_check", request.inputs[1].type.elements());
  text.line("checked_id<{}>(int64_t(in1[i]), i, {}, report);", reporter(request), n);
  text.end_elements();
}

KernelText print_scatter(const KernelRequest& request) {
  const Lines lines(request.inputs[0].type.shape, axis_of(request));
  const int64_t ids = request.inputs[1].type.elements();
  KernelPrinter text(request, "ids.cuh");
  print_check(text, request, lines.n);
  const int threads =
      static_cast<int>(std::clamp<int64_t>(ceil_div(lines.inner, 32) * 32, 64, 1024));
  const int64_t parts = ceil_div(lines.inner, threads);
  text.begin_blocks("", lines.inner == 0 ? 0 : lines.outer * lines.n * parts, threads);
  text.line("const Index row = b / {}, j = b % {} * {} + thread;", parts,
            std::max<int64_t>(parts, 1), threads);
  text.line("const Index o = row / {0}, r = row % {0};", std::max<int64_t>(lines.n, 1));
  text.line("const bool mine = j < {};", lines.inner);
  text.line("{0}::Held sum = mine ? {0}::load(in0[row * {1} + j]) : {0}::Held(0);",
            text.in_format(0), lines.inner);
  text.open("for_positions_of(in1, {}, r, [&](int64_t k) {{", ids);
  text.open("if (mine) {{");
  text.line("{}", taken(request, fmt::format("in2[(o * {} + k) * {} + j]", ids, lines.inner)));
  text.close();
  text.close();
  text.line(");");
  text.line("if (mine) {{ out0[row * {} + j] = {}::store(sum); }}", lines.inner,
            text.out_format(0));
  text.end_blocks();
  return text.finish();
}

KernelText print_scatter_along(const KernelRequest& request) {
  const Lines lines(request.inputs[0].type.shape, axis_of(request));
  const Lines of_ids(request.inputs[1].type.shape, axis_of(request));
  KernelPrinter text(request, "ids.cuh");
  print_check(text, request, lines.n);
  text.begin_elements("", request.outputs[0].type.elements());
  if (request.outputs[0].type.elements() > 0) {
    text.line("const Index o = i / {}, r = i / {} % {}, j = i % {};", lines.n * lines.inner,
              lines.inner, lines.n, lines.inner);
    text.line("{0}::Held sum = {0}::load(in0[i]);", text.in_format(0));
    text.open("for (Index k = 0; k < {}; ++k) {{", of_ids.n);
    text.line("const Index at = (o * {} + k) * {} + j;", of_ids.n, lines.inner);
    text.open("if (int64_t(in1[at]) == r) {{");
    text.line("{}", taken(request, "in2[at]"));
    text.close();
    text.close();
    text.line("out0[i] = {}::store(sum);", text.out_format(0));
  }
  text.end_elements();
  return text.finish();
}

KernelText print_one_hot(const KernelRequest& request) {
  const int64_t depth = request.attrs.integer("depth");
  KernelPrinter text(request, "ids.cuh");
  text.begin_elements("", request.outputs[0].type.elements());
  if (depth > 0) {
    text.line("const int64_t id = checked_id<{}>(int64_t(in0[i / {}]), i / {}, {}, report);",
              reporter(request), depth, depth, depth);
    text.line("out0[i] = {}::store(id == i % {} ? 1.0F : 0.0F);", text.out_format(0), depth);
  }
  text.end_elements();
  return text.finish();
}

}  // namespace

void add_index_texts(std::vector<TextEntry>& entries) {
  entries.push_back({"gather", print_gather});
  entries.push_back({"take_along", print_take_along});
  entries.push_back({"scatter_add", print_scatter});
  entries.push_back({"scatter_set", print_scatter});
  entries.push_back({"scatter_add_along", print_scatter_along});
  entries.push_back({"one_hot", print_one_hot});
}

}  // namespace mstrain::cuda
