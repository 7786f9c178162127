// Elements chosen by ids. What is added to one place is added in an order that its positions alone say: results depend neither on
// the card nor on the run.
#include <bit>

#include "core/backends/cuda/printer.h"

namespace mstrain::cuda {
namespace {

KernelText print_gather(const KernelRequest& request) {
  const Lines lines(request.inputs[0].type.shape, axis_of(request));
  const int64_t ids = request.inputs[1].type.elements();
  const int64_t pack = pack_of(size_of(request.inputs[0].type.dtype), lines.inner);
  KernelPrinter text(request, "ids.cuh");
  const int64_t count = request.outputs[0].type.elements() / pack;
  text.begin_kernel("", ceil_div(count, kThreadsOfKernel), kThreadsOfKernel);
  text.begin_aligned(pack, {0}, {0});
  text.begin_loop("q", count);
  if (ids * lines.inner > 0) {
    text.line("const Index i = q * {}, k = i / {} % {};", pack, lines.inner, ids);
    text.line("const Index id = Index(checked_id<{}>(int64_t(in1[k]), k, {}, report));",
              reporter(request), lines.n);
    text.line("const Index from = (i / {} * {} + id) * {} + i % {};", ids * lines.inner, lines.n,
              lines.inner, lines.inner);
    text.line("store_pack<aligned>(out0, i, load_pack<{}, aligned>(in0, from));", pack);
  }
  text.close();
  text.end_aligned();
  text.end_kernel();
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

// Where a row takes what stands at several positions: these are sorted by row, and pieces of them, of equal length, added up
// by a block each. Rows that end in the piece where they begin are done; of others the last piece's part is put together with
// those of the pieces that follow.
constexpr int64_t kPiece = 32;
constexpr int kReadAhead = 8;

class Scatter {
 public:
  explicit Scatter(const KernelRequest& request)
      : request_(request),
        lines_(request.inputs[0].type.shape, axis_of(request)),
        ids_(request.inputs[1].type.elements()),
        pieces_(ceil_div(ids_, kPiece)),
        text_(request, "ids.cuh"),
        held_(text_.in_format(0) + "::Held") {}

  KernelText print() {
    print_copy();
    if (ids_ > 0 && lines_.inner * lines_.outer > 0) {
      print_order();
      print_pieces();
      print_join();
    }
    KernelText result = text_.finish(3 * order_bytes() + 2 * part_bytes());
    result.in_place = {{0, 0}};
    return result;
  }

 private:
  int64_t order_bytes() const { return ceil_div(ids_ * 8, 64) * 64; }
  int64_t part_bytes() const { return lines_.outer * pieces_ * lines_.inner * 8; }
  // Whether one block sorts all.
  bool is_one_chunk() const { return ids_ <= 1024; }

  // The other rows, where the result lies elsewhere.
  void print_copy() {
    text_.begin_kernel("_copy", ceil_div(request_.outputs[0].type.elements(), kThreadsOfKernel),
                       kThreadsOfKernel);
    text_.line("if ({} == {}) {{ return; }}", pointer_text(0), pointer_text(3));
    text_.begin_loop("i", request_.outputs[0].type.elements());
    text_.line("out0[i] = in0[i];");
    text_.end_elements();
  }

  void print_order() {
    const int64_t width =
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(ids_, 1024))));
    const int threads = static_cast<int>(std::clamp<int64_t>(width / 2, 32, 512));
    text_.begin_blocks("_chunks", ceil_div(ids_, 1024), threads);
    text_.line("sort_chunk<{}, {}>(b, in1, {}, {}, report, global<uint64_t>(workspace));",
               reporter(request_), width, ids_, lines_.n);
    text_.end_blocks();
    if (!is_one_chunk()) {
      text_.begin_elements("_order", ids_);
      text_.line("const auto chunks = global<const uint64_t>(workspace);");
      text_.line(
          "global<uint64_t>(static_cast<char*>(workspace) + {})[place_of(chunks, {}, i)] = "
          "chunks[i];",
          order_bytes(), ids_);
      text_.end_elements();
    }
  }

  // A kernel of a block for each piece of each outer index.
  void begin_pieces(const char* suffix) {
    const int threads =
        static_cast<int>(std::clamp<int64_t>(ceil_div(lines_.inner, 32) * 32, 32, 256));
    const int64_t strips = ceil_div(lines_.inner, threads);
    text_.begin_blocks(suffix, lines_.outer * pieces_ * strips, threads);
    text_.line("const auto order = global<const uint64_t>(static_cast<char*>(workspace) + {});",
               is_one_chunk() ? 0 : order_bytes());
    text_.line("const auto first = global<{}>(static_cast<char*>(workspace) + {});", held_,
               3 * order_bytes());
    text_.line("const auto last = global<{}>(static_cast<char*>(workspace) + {});", held_,
               3 * order_bytes() + part_bytes());
    text_.line("const Index o = b / {}, piece = b / {} % {}, j = b % {} * {} + thread;",
               pieces_ * strips, strips, pieces_, strips, threads);
    text_.line("const Index begin = piece * {0}, end = begin + {0} < {1} ? begin + {0} : {1};",
               kPiece, ids_);
    text_.line(
        "const auto row_at = [&](Index k) {{ return k >= 0 && k < {} ? row_of(order[k]) : kNoRow; "
        "}};",
        ids_);
    text_.line("const Index part = (o * {} + piece) * {} + j;", pieces_, lines_.inner);
    text_.line("const auto leave = [&](uint64_t row, {} sum) {{", held_);
    text_.line("  const Index to = (o * {} + Index(row)) * {} + j;", lines_.n, lines_.inner);
    text_.line("  out0[to] = {}::store({});", text_.out_format(0),
               is_set() ? "sum" : added(text_.in_format(0) + "::load(in0[to])", "sum"));
    text_.line("}};");
  }

  void print_pieces() {
    begin_pieces("_pieces");
    text_.open("if (j < {}) {{", lines_.inner);
    text_.line("{} sum = 0;", held_);
    text_.line("uint64_t row = row_at(begin);");
    text_.line("bool began = row != row_at(begin - 1);");
    text_.open("for (Index k0 = begin; k0 < end; k0 += {}) {{", kReadAhead);
    text_.line("{}::Stored taken[{}];", text_.in_format(0), kReadAhead);
    text_.line("#pragma unroll");
    text_.open("for (int u = 0; u < {}; ++u) {{", kReadAhead);
    text_.line(
        "if (k0 + u < end) {{ taken[u] = in2[(o * {} + Index(position_of(order[k0 + u]))) * {} + "
        "j]; }}",
        ids_, lines_.inner);
    text_.close();
    text_.line("#pragma unroll");
    text_.open("for (int u = 0; u < {}; ++u) {{", kReadAhead);
    text_.line("const Index k = k0 + u;");
    text_.open("if (k < end) {{");
    const std::string value = text_.in_format(0) + "::load(taken[u])";
    text_.line("sum = {};", is_set() ? value : added("sum", value));
    text_.line("const uint64_t next = row_at(k + 1);");
    text_.open("if (next != row || k + 1 == end) {{");
    text_.line("if (row == kNoRow) {{}}");
    text_.line("else if (!began) {{ first[part] = sum; }}");
    text_.line("else if (next == row) {{ last[part] = sum; }}");
    text_.line("else {{ leave(row, sum); }}");
    text_.line("sum = 0;");
    text_.line("began = true;");
    text_.line("row = next;");
    text_.close();
    text_.close();
    text_.close();
    text_.close();
    text_.close();
    text_.end_blocks();
  }

  void print_join() {
    begin_pieces("_join");
    text_.line("const uint64_t row = row_at(end - 1);");
    text_.open("if (j < {} && row != kNoRow && row == row_at(end) && row != row_at(begin - 1)) {{",
               lines_.inner);
    text_.line("{} sum = last[part];", held_);
    text_.line("bool goes_on = true;");
    text_.open("for (Index at = piece + 1; goes_on; at += {}) {{", kReadAhead);
    text_.line("{} more[{}];", held_, kReadAhead);
    text_.line("bool same[{}];", kReadAhead);
    text_.line("#pragma unroll");
    text_.open("for (int u = 0; u < {}; ++u) {{", kReadAhead);
    text_.line("same[u] = row_at((at + u) * {}) == row;", kPiece);
    text_.line("if (same[u]) {{ more[u] = first[part + (at - piece + u) * {}]; }}", lines_.inner);
    text_.close();
    text_.line("#pragma unroll");
    text_.open("for (int u = 0; u < {}; ++u) {{", kReadAhead);
    text_.line("goes_on = same[u];");
    text_.line("if (goes_on) {{ sum = {}; }}", is_set() ? "more[u]" : added("sum", "more[u]"));
    text_.close();
    text_.close();
    text_.line("leave(row, sum);");
    text_.close();
    text_.end_blocks();
  }

  bool is_set() const { return request_.op.name == "scatter_set"; }
  std::string added(const std::string& x, const std::string& y) const {
    return is_floating(request_.inputs[0].type.dtype)
               ? fmt::format("{} + {}", x, y)
               : fmt::format("scalar::add({0}({1}), {0}({2}))", held_, x, y);
  }

  const KernelRequest& request_;
  Lines lines_;
  int64_t ids_, pieces_;
  KernelPrinter text_;
  std::string held_;
};

KernelText print_scatter(const KernelRequest& request) { return Scatter(request).print(); }

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
