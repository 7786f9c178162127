#include <fmt/ranges.h>

#include <algorithm>

#include "core/backends/cuda/group_sums.h"

namespace mstrain::cuda {
namespace {

// The kernel of a group: rows by teams of warps, pass by pass, or elements.
class Printer : GroupSums {
 public:
  using GroupSums::GroupSums;

  KernelText run() {
    find_in_place();
    line("#include \"core/backends/cuda/device/kernel.cuh\"");
    line("namespace mstrain::cuda {{");
    print_main();
    if (leaves_sums()) {
      print_finish();
    }
    line("}}  // namespace mstrain::cuda");
    result_.joins = !leaves_sums();
    return std::move(result_);
  }

 private:
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

  // Everything is printed for memory in which packs are accesses (`aligned`), and for other memory.
  void print_main() {
    const auto [rows, n] = terms_.extent;
    line("// {}{}", terms_.title, it_.by_rows ? fmt::format(": {} × {}", rows, n) : "");
    open("extern \"C\" __global__ void __launch_bounds__({}{}) @(const Pointers p) {{", it_.threads,
         it_.resident > 1 ? fmt::format(", {}", it_.resident) : "");
    line("using Index = {};", is_short(terms_.inputs, terms_.outputs) ? "int" : "int64_t");
    line("{}", leaves_sums() ? std::string(kFirstAlone)
                             : first_text(terms_.inputs.size() + terms_.outputs.size() + 3));
    for (size_t i = 0; i < terms_.inputs.size(); ++i) {
      line("const auto in{} = global<const {}::Stored>({});", i,
           format_of(terms_.inputs[i].type.dtype), pointer_text(i));
    }
    for (const Sink& sink : terms_.sinks) {
      if (sink.kind == Sink::Kind::kStore) {
        line("const auto out{} = {};", sink.output, output(sink));
      }
    }
    line("const int thread = static_cast<int>(threadIdx.x);");
    declare_shared();
    open("const auto run = [&]<bool aligned>() {{");
    print_accumulators();
    if (it_.by_rows) {
      print_rows();
    } else {
      print_elements();
    }
    print_sums();
    close();
    line(";");
    const std::string aligned = alignment();
    if (aligned.empty()) {
      line("run.template operator()<true>();");
    } else {
      line("if ({}) {{ run.template operator()<true>(); }}", aligned);
      line("else {{ run.template operator()<false>(); }}");
    }
    close();
  }

  // The condition that all packs are accesses; empty: they are.
  std::string alignment() const {
    std::vector<std::string> conditions;
    const auto add = [&](const ViewType& view, size_t place) {
      const int64_t bytes = std::min<int64_t>(it_.pack * size_of(view.type.dtype), 16);
      const std::string condition = fmt::format("is_aligned<{}>({})", bytes, pointer_text(place));
      if (bytes > size_of(view.type.dtype) &&
          std::ranges::find(conditions, condition) == conditions.end()) {
        conditions.push_back(condition);
      }
    };
    for (int i : packed_) {
      const auto input = static_cast<size_t>(term(i).input);
      add(terms_.inputs[input], input);
    }
    for_stores(-1, [&](const Sink& sink) {
      const auto place = static_cast<size_t>(sink.output);
      add(terms_.outputs[place], terms_.inputs.size() + place);
    });
    return fmt::format("{}", fmt::join(conditions, " && "));
  }

  // Of teams of several warps: what warps have folded.
  void declare_shared() {
    if (!it_.by_rows) {
      return;
    }
    if (it_.warps > 1) {
      for_terms(Kind::kFold, -1, [&](int i) {
        line("MSTRAIN_SHARED({}, of_warp{}, {});", term(i).type, i, 2 * it_.teams * it_.warps);
      });
    }
    declare_shared_sums();
  }

  // Every pack that is read at a place; `parameters` or all others.
  void print_loads(bool parameters, const std::string& slot, const char* to = "") {
    for (int i : packed_) {
      const Term& it = term(i);
      if ((it.is_parameter && it_.by_rows) == parameters) {
        line("{}{}[{}] = load_pack<{}, aligned>(in{}, {});", to, packs_of(it), slot, it_.pack,
             it.input, it.offset);
      }
    }
  }
  void declare_packs(bool parameters, int64_t count, const char* to = "") {
    for (int i : packed_) {
      const Term& it = term(i);
      if ((it.is_parameter && it_.by_rows) == parameters) {
        line("Pack<{}::Stored, {}> {}{}[{}];", format_of_input(it), it_.pack, to, packs_of(it),
             count);
      }
    }
  }

  // What is read of rows: packs, and numbers of each. To names that begin with `to`.
  template <class F>
  void for_row_reads(F f) const {
    for_terms(Kind::kRow, 0, [&](int i) {
      if (term(i).input >= 0) {
        f(i);
      }
    });
  }
  void declare_reads(const char* to) {
    declare_packs(false, it_.ahead * it_.packs, to);
    for_row_reads([&](int i) { line("{} {}row{}[{}];", term(i).type, to, i, it_.ahead); });
  }
  void print_reads(const std::string& mine, const char* to) {
    line("#pragma unroll");
    open("for (int u = 0; u < {}; ++u) {{", it_.ahead);
    open_row("u");
    for_row_reads([&](int i) { line("{}row{}[u] = {};", to, i, text_of(i)); });
    open_packs(mine);
    line("[[maybe_unused]] const Index i = r * {} + c0, c = c0;", terms_.extent.n);
    print_loads(false, fmt::format("u * {} + q", it_.packs), to);
    close();
    close();
    close();
  }

  // One pass over the pack that begins at i0 (and c0), whose first element is number `k0` of the thread's row.
  void print_pack(int level, const std::string& k0) {
    for_stores(level, [&](const Sink& sink) {
      line("Pack<{}::Stored, {}> to{};", sink.format, it_.pack, sink.output);
    });
    line("#pragma unroll");
    open("for (int j = 0; j < {}; ++j) {{", it_.pack);
    line("[[maybe_unused]] const int k = {} + j;", k0);
    line("[[maybe_unused]] const Index i = i0 + j, c = c0 + j;");
    print_element(level);
    close();
    for_stores(level, [&](const Sink& sink) {
      line("store_pack<aligned>(out{0}, i0, to{0});", sink.output);
    });
  }

  // What becomes of the terms of one pass, for one element.
  void print_element(int level) {
    for_terms(Kind::kFull, -1, [&](int i) {
      if (term(i).level == level || (term(i).level < level && is_made_again_for(i, level))) {
        line("{}{} = {};", keeps(i) ? "" : "const " + term(i).type + " ", name_of(i), text_of(i));
      }
    });
    for_stores(level, [&](const Sink& sink) {
      line("to{}.at[j] = {}::store({});", sink.output, sink.format, name_of(sink.term));
    });
    for (const Sink& sink : terms_.sinks) {
      if (sink.kind != Sink::Kind::kStore && term(sink.term).level == level) {
        line("sum{}{} += {};", sink.output, sink.kind == Sink::Kind::kSumColumns ? "[k]" : "",
             name_of(sink.term));
      }
    }
    for_terms(Kind::kFold, level + 1, [&](int i) {
      line("f{0} = {1}()(f{0}, {2}({3}));", i, term(i).expression, term(i).type,
           name_of(term(i).operands[0]));
    });
  }

  bool is_made_again_for(int i, int level) const {
    const auto reads = [&](const Term& it) {
      const int pass = it.level - (it.kind == Kind::kFold ? 1 : 0);
      return it.needed && it.kind != Kind::kRow && pass == level &&
             std::ranges::find(it.operands, i) != it.operands.end();
    };
    return terms_.made_again(i, it_.pack) && std::ranges::any_of(terms_.terms, reads);
  }

  bool has_pass(int level) const {
    bool any = false;
    const auto found = [&](auto) { any = true; };
    for_terms(Kind::kFull, level, found);
    for_terms(Kind::kFold, level + 1, found);
    for_stores(level, found);
    for (const Sink& sink : terms_.sinks) {
      any = any || (sink.kind != Sink::Kind::kStore && term(sink.term).level == level);
    }
    return any;
  }

  void print_row_terms(int level, const std::string& where) {
    for_terms(Kind::kRow, level, [&](int i) {
      const bool is_read = it_.by_rows && term(i).input >= 0;
      line("const {} {} = {};", term(i).type, name_of(i),
           is_read ? fmt::format("row{}[u]", i) : text_of(i));
    });
    for (const Sink& sink : terms_.sinks) {
      const Term& from = term(sink.term);
      if (sink.kind == Sink::Kind::kStore && from.kind != Kind::kFull && from.level == level) {
        line("if ({}) {{ out{}[r] = {}::store({}); }}", where, sink.output, sink.format,
             name_of(sink.term));
      }
    }
  }

  // Rows from `first` on are those of a block's teams, then again as many.
  void open_row(const char* at) {
    const int64_t rows = terms_.extent.rows;
    std::string row = it_.ahead > 1 ? fmt::format("first + {} * {}", at, it_.teams) : "first";
    row += it_.teams > 1 ? " + team" : "";
    if (rows % it_.rows() == 0) {
      line("const Index r = {};", row);
    } else {  // a team without a row of its own goes over the last one, and leaves nothing
      line("const Index own = {};", row);
      line("const Index r = own < {0} ? own : {0} - 1;", rows);
    }
  }
  void print_rows() {
    const auto [rows, n] = terms_.extent;
    line("[[maybe_unused]] const int team = thread / {0}, lane = thread % {0};", it_.team());
    declare_packs(true, it_.packs);
    open_packs();
    line("[[maybe_unused]] const Index c = c0;");
    print_loads(true, "q");
    close();
    close();
    if (it_.warps > 1) {
      line("[[maybe_unused]] int phase = 0;");
    }
    const std::string mine = rows % it_.rows() == 0 ? "" : fmt::format("own < {}", rows);
    // Where a team has several rows, one after another, the next are on their way meanwhile.
    const bool repeats = ceil_div(rows, it_.rows()) > it_.blocks;
    if (repeats) {
      declare_reads("next_");
      open("const auto read = [&](Index first) {{");
      print_reads(mine, "next_");
      close();
      line(";");
      line("read(Index(blockIdx.x) * {});", it_.rows());
    }
    line("const Index step = Index(gridDim.x) * {};", it_.rows());
    open("for (Index first = Index(blockIdx.x) * {}; first < {}; first += step) {{", it_.rows(),
         rows);
    declare_reads("");
    if (repeats) {
      line("#pragma unroll");
      open("for (int slot = 0; slot < {}; ++slot) {{", it_.ahead * it_.packs);
      for (int i : packed_) {
        if (!term(i).is_parameter) {
          line("{0}[slot] = next_{0}[slot];", packs_of(term(i)));
        }
      }
      close();
      for_row_reads([&](int i) {
        line("for (int u = 0; u < {0}; ++u) {{ row{1}[u] = next_row{1}[u]; }}", it_.ahead, i);
      });
      line("if (first + step < {}) {{ read(first + step); }}", rows);
    } else {
      print_reads(mine, "");
    }
    line("#pragma unroll");
    open("for (int u = 0; u < {}; ++u) {{", it_.ahead);
    open_row("u");
    print_row(mine);
    close();
    close();
  }

  // What a team does with a row. `mine`: whether it is its own; empty: it always is.
  void print_row(const std::string& mine) {
    for_terms(Kind::kFull, -1, [&](int i) {
      if (keeps(i)) {
        line("{} v{}[{}];", term(i).type, i, it_.packs * it_.pack);
      }
    });
    for (int level = 0; level < terms_.levels; ++level) {
      print_row_terms(level, "lane == 0" + (mine.empty() ? "" : " && " + mine));
      if (!has_pass(level)) {
        continue;
      }
      for_terms(Kind::kFold, level + 1, [&](int i) {
        line("{0} f{1} = {2}::none<{0}>();", term(i).type, i, term(i).expression);
      });
      open_packs(mine);
      line("[[maybe_unused]] const int slot = u * {} + q;", it_.packs);
      line("[[maybe_unused]] const Index i0 = r * {} + c0;", terms_.extent.n);
      print_pack(level, fmt::format("q * {}", it_.pack));
      close();
      close();
      print_folds(level + 1);
    }
    if (it_.warps > 1) {
      line("phase ^= 1;");
    }
  }

  // What was folded by threads becomes the row's. Of shared memory rows take turns with two places, so that one barrier is enough.
  void print_folds(int level) {
    bool any = false;
    for_terms(Kind::kFold, level, [&](int i) {
      any = true;
      const char* const kept = it_.warps == 1 ? "const " : "";
      line("{}{} r{} = fold_warp<{}>(f{});", kept, term(i).type, i, term(i).expression, i);
      if (it_.warps > 1) {
        line("if (lane % 32 == 0) {{ of_warp{0}[(phase * {1} + team) * {2} + lane / 32] = r{0}; }}",
             i, it_.teams, it_.warps);
      }
    });
    if (!any || it_.warps == 1) {
      return;
    }
    line("__syncthreads();");
    for_terms(Kind::kFold, level, [&](int i) {
      line("r{0} = of_warp{0}[(phase * {1} + team) * {2}];", i, it_.teams, it_.warps);
      line("#pragma unroll");
      open("for (int w = 1; w < {}; ++w) {{", it_.warps);
      line("r{0} = {1}()(r{0}, {2}(of_warp{0}[(phase * {3} + team) * {4} + w]));", i,
           term(i).expression, term(i).type, it_.teams, it_.warps);
      close();
    });
  }

  void print_elements() {
    // Groups of any number of elements share their code.
    result_.number = static_cast<uint64_t>(terms_.extent.elements() / it_.pack);
    line("const Index packs = static_cast<Index>(number_at({}));",
         pointer_text(terms_.inputs.size() + terms_.outputs.size() + 2));
    line("[[maybe_unused]] constexpr Index r = 0;");
    print_row_terms(0, "thread == 0 && blockIdx.x == 0");
    open(
        "for (Index first = Index(blockIdx.x) * {0} + thread; first < packs; first += "
        "Index(gridDim.x) * {0}) {{",
        it_.threads * it_.ahead);
    declare_packs(false, it_.ahead);
    const auto each = [&](const auto& print) {
      line("#pragma unroll");
      open("for (int slot = 0; slot < {}; ++slot) {{", it_.ahead);
      line("const Index q = first + slot * {};", it_.threads);
      open("if (q < packs) {{");
      print();
      close();
      close();
    };
    each([&] {
      line("[[maybe_unused]] const Index i = q * {}, c = i;", it_.pack);
      print_loads(false, "slot");
    });
    each([&] {
      line("[[maybe_unused]] const Index i0 = q * {}, c0 = i0;", it_.pack);
      print_pack(0, "0");
    });
    close();
  }
};

}  // namespace

bool has_group_text(const KernelRequest& request) { return group_body(request).has_value(); }

KernelText print_group(const KernelRequest& request) { return Printer(request).run(); }

}  // namespace mstrain::cuda
