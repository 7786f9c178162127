#include <fmt/format.h>

#include <algorithm>

#include "core/backends/cuda/group.h"
#include "core/backends/cuda/group_terms.h"

namespace mstrain::cuda {
namespace {

using Kind = Term::Kind;

constexpr int64_t kMostThreads = 1024;
constexpr int64_t kElementsOfThread = 4;
constexpr int64_t kThreadsOfElements = 256;  // where there are no rows
// Neighbours that are read and written together, where they lie so.
constexpr int64_t kPack = 4;
// Blocks that make sums: as many as a second kernel adds up, on every card.
constexpr int64_t kSumBlocks = 512;
constexpr int64_t kMostBlocks = 65535;

class Printer {
 public:
  explicit Printer(const KernelRequest& request)
      : terms_(group_terms(request, *group_body(request))) {
    const auto [rows, n] = terms_.extent;
    for (const Sink& sink : terms_.sinks) {
      columns_ += sink.kind == Sink::Kind::kSumColumns ? 1 : 0;
      totals_ += sink.kind == Sink::Kind::kSumAll ? 1 : 0;
    }
    const int64_t most = columns_ + totals_ > 0 ? kSumBlocks : kMostBlocks;
    const int64_t walked = terms_.by_rows ? n : rows * n;
    pack_ = walked % kPack == 0 ? kPack : 1;
    flat_ = terms_.by_rows && rows == 1 && terms_.levels == 1 && columns_ == 0;
    if (terms_.by_rows && !flat_) {
      const int64_t warps = ceil_div(ceil_div(n, kElementsOfThread), 32);
      threads_ = std::clamp<int64_t>(warps * 32, 32, kMostThreads);
      blocks_ = std::min(rows, most);
    } else {
      threads_ = kThreadsOfElements;
      blocks_ = std::min(ceil_div(rows * n, threads_ * kElementsOfThread), most);
    }
    result_.launches.push_back({"@", blocks_, static_cast<int>(threads_)});
  }

  // A result may lie over an operand of its type that is read once, element by element, before the result is stored.
  void find_in_place() {
    for (const Sink& sink : terms_.sinks) {
      const ViewType& output = terms_.outputs[static_cast<size_t>(sink.output)];
      if (sink.kind != Sink::Kind::kStore || term(sink.term).kind != Kind::kFull) {
        continue;
      }
      for (size_t i = 0; i < terms_.inputs.size(); ++i) {
        const ViewType& input = terms_.inputs[i];
        if (input.type.dtype == output.type.dtype && input.contiguous() &&
            input.type.elements() == terms_.extent.elements()) {
          result_.in_place.emplace_back(sink.output, static_cast<int>(i));
        }
      }
    }
  }

  KernelText run() {
    find_in_place();
    print_main();
    if (columns_ + totals_ > 0) {
      print_finish();
    }
    line("}}  // namespace mstrain::cuda");
    return std::move(result_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    result_.text += std::string(static_cast<size_t>(2 * depth_), ' ');
    result_.text += fmt::format(text, std::forward<Args>(args)...);
    result_.text += '\n';
  }
  template <class... Args>
  void open(fmt::format_string<Args...> text, Args&&... args) {
    line(text, std::forward<Args>(args)...);
    ++depth_;
  }
  void close() {
    --depth_;
    line("}}");
  }

  const Term& term(int i) const { return terms_.terms[static_cast<size_t>(i)]; }

  std::string name_of(int i) const {
    const Term& it = term(i);
    return it.kind == Kind::kFull ? fmt::format("v{}{}", i, it.kept ? "[k]" : "")
                                  : fmt::format("r{}", i);
  }
  std::string text_of(int i) const {
    std::string result;
    const Term& it = term(i);
    if (is_packed(it)) {
      return fmt::format("{}::load({}.at[j])",
                         format_of(terms_.inputs[static_cast<size_t>(it.input)].type.dtype),
                         pack_of(it));
    }
    for (size_t at = 0; at < it.expression.size(); ++at) {
      if (it.expression[at] == '$') {
        result += name_of(it.operands[static_cast<size_t>(it.expression[++at] - '0')]);
      } else {
        result += it.expression[at];
      }
    }
    return result;
  }

  bool is_packed(const Term& it) const { return pack_ > 1 && it.input >= 0; }
  static std::string pack_of(const Term& it) {
    return fmt::format("pack{}{}", it.input, it.counted_by);
  }

  template <class F>
  void for_terms(Kind kind, int level, F f) const {
    for (size_t i = 0; i < terms_.terms.size(); ++i) {
      const Term& it = terms_.terms[i];
      if (it.needed && it.kind == kind && (level < 0 || it.level == level)) {
        f(static_cast<int>(i));
      }
    }
  }

  void print_main() {
    const auto [rows, n] = terms_.extent;
    line("#include \"core/backends/cuda/device/kernel.cuh\"");
    line("namespace mstrain::cuda {{");
    line("// {}: {} × {}", terms_.title, rows, n);
    open("extern \"C\" __global__ void __launch_bounds__({}) @(const Pointers p) {{", threads_);
    // Offsets within views may be longer than their elements are many.
    line("using Index = {};", is_short() ? "int" : "int64_t");
    line("{}", first_text(terms_.inputs.size() + terms_.outputs.size() + 3));
    for (size_t i = 0; i < terms_.inputs.size(); ++i) {
      line("const auto in{} = global<const {}::Stored>({});", i,
           format_of(terms_.inputs[i].type.dtype), pointer_text(i));
    }
    for (const Sink& sink : terms_.sinks) {
      if (sink.kind == Sink::Kind::kStore) {
        line("const auto out{} = global<{}::Stored>({});", sink.output, sink.format,
             pointer_text(terms_.inputs.size() + static_cast<size_t>(sink.output)));
      }
    }
    line("const int thread = static_cast<int>(threadIdx.x);");
    print_accumulators();
    if (terms_.by_rows && !flat_) {
      print_rows();
    } else {
      print_elements();
    }
    print_partials();
    close();
  }

  bool is_short() const {
    constexpr int64_t kMost = int64_t{1} << 30;
    return terms_.extent.elements() < kMost &&
           std::ranges::all_of(terms_.inputs, [](const ViewType& view) {
             int64_t reach = 0;
             for (int d = 0; d < view.type.shape.rank(); ++d) {
               reach += std::abs(view.strides[d]) * view.type.shape[d];
             }
             return reach < kMost;
           });
  }

  // Columns of a row that a thread has.
  int64_t passes_of_row() const { return ceil_div(terms_.extent.n, threads_ * pack_) * pack_; }
  const std::string& sum_type(const Sink& sink) const {
    static const std::string kDouble = "double";
    return sink.kind == Sink::Kind::kSumAll ? kDouble : term(sink.term).type;
  }

  void print_accumulators() {
    for (const Sink& sink : terms_.sinks) {
      if (sink.kind == Sink::Kind::kSumAll) {
        line("double sum{} = 0;", sink.output);
      } else if (sink.kind == Sink::Kind::kSumColumns) {
        line("{} sum{}[{}] = {{}};", sum_type(sink), sink.output, passes_of_row());
      }
    }
  }

  // One pass over kPack neighbours from i0 (and c0) on, whose first is number `k0` of the thread.
  void print_packed_pass(int level, const std::string& k0) {
    std::vector<std::string> loaded;
    for_terms(Kind::kFull, level, [&](int i) {
      const Term& it = term(i);
      if (is_packed(it) && std::ranges::find(loaded, pack_of(it)) == loaded.end()) {
        loaded.push_back(pack_of(it));
        line("const auto {} = load_pack<{}>(in{}, {}0);", pack_of(it), pack_, it.input,
             it.counted_by);
      }
    });
    const auto for_stores = [&](const auto& f) {
      for (const Sink& sink : terms_.sinks) {
        const Term& from = term(sink.term);
        if (sink.kind == Sink::Kind::kStore && from.kind == Kind::kFull && from.level == level) {
          f(sink);
        }
      }
    };
    for_stores([&](const Sink& sink) {
      line("Pack<{}::Stored, {}> to{};", sink.format, pack_, sink.output);
    });
    line("#pragma unroll");
    open("for (int j = 0; j < {}; ++j) {{", pack_);
    line("[[maybe_unused]] const int k = {} + j;", k0);
    line("[[maybe_unused]] const Index i = i0 + j, c = c0 + j;");
    print_pass(level);
    close();
    for_stores([&](const Sink& sink) { line("store_pack(out{0}, i0, to{0});", sink.output); });
  }

  // What becomes of the terms of one pass, for one element.
  void print_pass(int level) {
    for_terms(Kind::kFull, level, [&](int i) {
      line("{}{} = {};", term(i).kept ? "" : "const " + term(i).type + " ", name_of(i), text_of(i));
    });
    for (const Sink& sink : terms_.sinks) {
      const Term& from = term(sink.term);
      if (from.level != level) {
        continue;
      }
      const std::string value = name_of(sink.term);
      switch (sink.kind) {
        case Sink::Kind::kStore:
          if (from.kind == Kind::kFull) {
            line("{} = {}::store({});",
                 pack_ > 1 ? fmt::format("to{}.at[j]", sink.output)
                           : fmt::format("out{}[i]", sink.output),
                 sink.format, value);
          }
          break;
        case Sink::Kind::kSumColumns: line("sum{}[k] += {};", sink.output, value); break;
        case Sink::Kind::kSumAll: line("sum{} += {};", sink.output, value); break;
      }
    }
    for_terms(Kind::kFold, level + 1, [&](int i) {
      line("f{0} = {1}()(f{0}, {2}({3}));", i, term(i).expression, term(i).type,
           name_of(term(i).operands[0]));
    });
  }

  bool has_pass(int level) const {
    bool any = false;
    for_terms(Kind::kFull, level, [&](int) { any = true; });
    for_terms(Kind::kFold, level + 1, [&](int) { any = true; });
    for (const Sink& sink : terms_.sinks) {
      any = any || (sink.kind != Sink::Kind::kStore && term(sink.term).level == level);
    }
    return any;
  }

  void print_row_terms(int level) {
    for_terms(Kind::kRow, level,
              [&](int i) { line("const {} {} = {};", term(i).type, name_of(i), text_of(i)); });
    for (const Sink& sink : terms_.sinks) {
      const Term& from = term(sink.term);
      if (sink.kind == Sink::Kind::kStore && from.kind != Kind::kFull && from.level == level) {
        open("if (thread == 0{}) {{", flat_ ? " && blockIdx.x == 0" : "");
        line("out{}[r] = {}::store({});", sink.output, sink.format, name_of(sink.term));
        close();
      }
    }
  }

  void print_rows() {
    const auto [rows, n] = terms_.extent;
    const int64_t passes = passes_of_row();
    open("for (Index r = blockIdx.x; r < {}; r += gridDim.x) {{", rows);
    for_terms(Kind::kFull, -1, [&](int i) {
      if (term(i).kept) {
        line("{} v{}[{}];", term(i).type, i, passes);
      }
    });
    for (int level = 0; level < terms_.levels; ++level) {
      print_row_terms(level);
      if (!has_pass(level)) {
        continue;
      }
      for_terms(Kind::kFold, level + 1, [&](int i) {
        line("{0} f{1} = {2}::none<{0}>();", term(i).type, i, term(i).expression);
      });
      if (passes <= 16) {
        line("#pragma unroll");
      }
      if (pack_ > 1) {
        open("for (int q = 0; q < {}; ++q) {{", passes / pack_);
        line("const int c0 = (thread + q * {}) * {};", threads_, pack_);
        open("if (c0 < {}) {{", n);
        line("const Index i0 = r * {} + c0;", n);
        print_packed_pass(level, fmt::format("q * {}", pack_));
      } else {
        open("for (int k = 0; k < {}; ++k) {{", passes);
        line("const int c = thread + k * {};", threads_);
        open("if (c < {}) {{", n);
        line("[[maybe_unused]] const Index i = r * {} + c;", n);
        print_pass(level);
      }
      close();
      close();
      for_terms(Kind::kFold, level + 1, [&](int i) {
        line("const {} r{} = fold_block<{}>(f{});", term(i).type, i, term(i).expression, i);
      });
    }
    close();
  }

  void print_elements() {
    if (flat_) {  // every thread knows what the one row has once
      line("constexpr Index r = 0;");
      print_row_terms(0);
    }
    const char* const counter = pack_ > 1 ? "q" : "i";
    open(
        "for (Index {0} = Index(blockIdx.x) * {1} + thread; {0} < {2}; {0} += Index(gridDim.x) * "
        "{1}) {{",
        counter, threads_, terms_.extent.elements() / pack_);
    if (pack_ > 1) {
      line("const Index i0 = q * {};", pack_);
      line("[[maybe_unused]] const Index c0 = i0;");
      print_packed_pass(0, "0");
    } else {
      line("[[maybe_unused]] const Index c = i;");
      print_pass(0);
    }
    close();
  }

  std::string workspace(const std::string& type, int64_t offset) const {
    return fmt::format("global<{}>(static_cast<char*>({}) + {})", type,
                       pointer_text(terms_.inputs.size() + terms_.outputs.size()), offset);
  }

  // Gives each sum its place in the workspace, block after block.
  template <class F>
  void for_sums(Sink::Kind kind, F f) const {
    int64_t offset = 0;
    for (const Sink& sink : terms_.sinks) {
      if (sink.kind == Sink::Kind::kStore) {
        continue;
      }
      if (sink.kind == kind) {
        f(sink, offset);
      }
      const int64_t elements = sink.kind == Sink::Kind::kSumAll ? 1 : terms_.extent.n;
      offset += ceil_div(blocks_ * elements * (sum_type(sink) == "float" ? 4 : 8), 64) * 64;
    }
  }

  void print_partials() {
    for_sums(Sink::Kind::kSumAll, [&](const Sink& sink, int64_t offset) {
      line("sum{0} = fold_block<Sum>(sum{0});", sink.output);
      open("if (thread == 0) {{");
      line("{}[blockIdx.x] = sum{};", workspace("double", offset), sink.output);
      close();
    });
    for_sums(Sink::Kind::kSumColumns, [&](const Sink& sink, int64_t offset) {
      if (passes_of_row() <= 16) {
        line("#pragma unroll");
      }
      open("for (int k = 0; k < {}; ++k) {{", passes_of_row());
      line("const int c = (thread + k / {0} * {1}) * {0} + k % {0};", pack_, threads_);
      open("if (c < {}) {{", terms_.extent.n);
      line("{}[int64_t(blockIdx.x) * {} + c] = sum{}[k];", workspace(sum_type(sink), offset),
           terms_.extent.n, sink.output);
      close();
      close();
    });
  }

  // A block for each total, then one for every so many columns.
  void print_finish() {
    constexpr int64_t threads = kThreadsOfElements;
    const int64_t n = terms_.extent.n;
    result_.launches.push_back(
        {"@_finish", totals_ + (columns_ > 0 ? ceil_div(n, 32) : 0), static_cast<int>(threads)});
    open("extern \"C\" __global__ void __launch_bounds__({}) @_finish(const Pointers p) {{",
         threads);
    line("{}", first_text(terms_.inputs.size() + terms_.outputs.size() + 3));
    line("const int thread = static_cast<int>(threadIdx.x);");
    const auto output = [&](const Sink& sink) {
      return fmt::format("global<{}::Stored>({})", sink.format,
                         pointer_text(terms_.inputs.size() + static_cast<size_t>(sink.output)));
    };
    int block = 0;
    for_sums(Sink::Kind::kSumAll, [&](const Sink& sink, int64_t offset) {
      open("if (blockIdx.x == {}) {{", block++);
      line("double total = 0;");
      open("for (int b = thread; b < {}; b += {}) {{", blocks_, threads);
      line("total += {}[b];", workspace("double", offset));
      close();
      line("total = fold_block<Sum>(total);");
      open("if (thread == 0) {{");
      line("{}[0] = {}::store({}total);", output(sink), sink.format,
           sink.format == "F64" ? "" : "(float)");
      close();
      line("return;");
      close();
    });
    if (columns_ >
        0) {  // a warp adds every eighth block's sums, then all warps' are added in their order
      constexpr int64_t kWarps = threads / 32;
      line("const int c = (static_cast<int>(blockIdx.x) - {}) * 32 + thread % 32;", totals_);
      line("const int warp = thread / 32;");
      for_sums(Sink::Kind::kSumColumns, [&](const Sink& sink, int64_t offset) {
        open("{{");
        line("MSTRAIN_SHARED({}, of_warp, {});", sum_type(sink), threads);
        line("{} total = 0;", sum_type(sink));
        open("for (int64_t b = warp; c < {} && b < {}; b += {}) {{", n, blocks_, kWarps);
        line("total += {}[b * {} + c];", workspace(sum_type(sink), offset), n);
        close();
        line("of_warp[thread] = total;");
        line("__syncthreads();");
        open("if (warp == 0 && c < {}) {{", n);
        line("for (int w = 1; w < {}; ++w) {{ total += of_warp[w * 32 + thread]; }}", kWarps);
        line("{}[c] = {}::store(total);", output(sink), sink.format);
        close();
        line("__syncthreads();");
        close();
      });
    }
    close();
  }

 public:
  int64_t workspace_bytes() const {
    int64_t bytes = 0;
    const auto reach = [&](const Sink& sink, int64_t offset) {
      const int64_t elements = sink.kind == Sink::Kind::kSumAll ? 1 : terms_.extent.n;
      bytes = std::max(bytes, offset + blocks_ * elements * 8);
    };
    for_sums(Sink::Kind::kSumAll, reach);
    for_sums(Sink::Kind::kSumColumns, reach);
    return bytes;
  }

 private:
  GroupTerms terms_;
  KernelText result_;
  int64_t threads_ = 32, blocks_ = 1;
  int columns_ = 0, totals_ = 0;
  int64_t pack_ = 1;
  bool flat_ =
      false;  // one row, of which nothing is known before its elements: as if there were none
  int depth_ = 0;
};

}  // namespace

bool has_group_text(const KernelRequest& request) { return group_body(request).has_value(); }

KernelText print_group(const KernelRequest& request) {
  Printer printer(request);
  const int64_t bytes = printer.workspace_bytes();
  KernelText result = printer.run();
  result.workspace_bytes = bytes;
  result.joins = true;
  return result;
}

}  // namespace mstrain::cuda
