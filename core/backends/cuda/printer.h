// What the texts of single operations are printed with: one kernel after another.
#pragma once

#include <algorithm>

#include "core/backends/cuda/group_terms.h"
#include "core/backends/cuda/text_lines.h"
#include "core/backends/cuda/walk.h"
#include "core/base/error.h"

namespace mstrain::cuda {

inline constexpr int kThreadsOfKernel = 256;
inline constexpr int64_t kMostBlocksOfKernel = 65535;

class KernelPrinter : public TextLines {
 public:
  // Operands by their names in the text: in0, in1, …, out0, …
  explicit KernelPrinter(const KernelRequest& request, std::string_view header = {})
      : request_(request) {
    line("#include \"core/backends/cuda/device/kernel.cuh\"");
    if (!header.empty()) {
      line("#include \"core/backends/cuda/device/{}\"", header);
    }
    line("namespace mstrain::cuda {{");
  }

  // Before its kernels: runs of them are never one launch, and save the registers that this takes.
  void stay_alone() { joins_ = false; }

  // A kernel for `count` things (elements, lines, blocks): its body sees all operands and `thread`. There may be fewer blocks: it
  // says by a loop over them what each does.
  void begin_kernel(std::string_view suffix, int64_t blocks, int threads) {
    begin_kernel({fmt::format("@{}", suffix), blocks, threads});
  }
  void begin_kernel(KernelLaunch launch) {
    needs_loop_ = !launch.shares && launch.blocks > kMostBlocksOfKernel;
    begin_ = result_.text.size();
    launch.blocks = std::min(launch.blocks, kMostBlocksOfKernel);
    open("extern \"C\" __global__ void __launch_bounds__({}{}) {}(const Pointers p) {{",
         launch.threads, launch.shares ? ", 1" : "", launch.name);
    if (launch.blocks > 0) {
      result_.launches.push_back(std::move(launch));
    }
    line("using Index = {};", is_short(request_.inputs, request_.outputs) ? "int" : "int64_t");
    line("{}", joins_ ? first_text(request_.inputs.size() + request_.outputs.size() + 3)
                      : std::string(kFirstAlone));
    size_t place = 0;
    for (size_t i = 0; i < request_.inputs.size(); ++i) {
      line("[[maybe_unused]] const auto in{} = global<const {}::Stored>({});", i,
           format_of(request_.inputs[i].type.dtype), pointer_text(place++));
    }
    for (size_t i = 0; i < request_.outputs.size(); ++i) {
      line("[[maybe_unused]] const auto out{} = global<{}::Stored>({});", i,
           format_of(request_.outputs[i].type.dtype), pointer_text(place++));
    }
    line("[[maybe_unused]] void* const workspace = {};", pointer_text(place++));
    line("[[maybe_unused]] void* const report = {};", pointer_text(place++));
    line("[[maybe_unused]] const uint64_t parameter = number_at({});", pointer_text(place++));
    line("[[maybe_unused]] const int thread = static_cast<int>(threadIdx.x);");
  }
  void end_kernel() {
    check(!needs_loop_ || result_.text.find("gridDim.x", begin_) != std::string::npos,
          "a kernel of {} has more than {} blocks and no loop over them: begin it by begin_blocks",
          request_.op.name, kMostBlocksOfKernel);
    close();
  }

  // What lies between is done knowing whether packs of these inputs and outputs are `aligned` (device/kernel.cuh).
  void begin_aligned(int64_t pack, const std::vector<size_t>& inputs,
                     const std::vector<size_t>& outputs) {
    aligned_ = "true";
    const auto add = [&](const ViewType& view, size_t place) {
      const int64_t bytes = std::min<int64_t>(pack * size_of(view.type.dtype), 16);
      aligned_ += fmt::format(" && is_aligned<{}>({})", bytes, pointer_text(place));
    };
    for (size_t i : inputs) {
      add(request_.inputs[i], i);
    }
    for (size_t i : outputs) {
      add(request_.outputs[i], request_.inputs.size() + i);
    }
    open("const auto run = [&]<bool aligned>() {{");
  }
  void end_aligned() {
    close();
    line(";");
    line("if ({}) {{ run.template operator()<true>(); }}", aligned_);
    line("else {{ run.template operator()<false>(); }}");
  }

  // In whose body `name` is each of `count` numbers, dealt out to all threads.
  void begin_loop(std::string_view name, int64_t count) {
    open(
        "for (Index {0} = Index(blockIdx.x) * {1} + thread; {0} < {2}; {0} += Index(gridDim.x) * "
        "{1}) {{",
        name, kThreadsOfKernel, count);
  }

  // A kernel in whose body `i` is each of `count` elements.
  void begin_elements(std::string_view suffix, int64_t count) {
    begin_kernel(suffix, ceil_div(count, kThreadsOfKernel), kThreadsOfKernel);
    begin_loop("i", count);
  }
  void end_elements() {
    close();
    end_kernel();
  }
  // A kernel in whose body `b` is each of `count` pieces of work of a whole block.
  void begin_blocks(std::string_view suffix, int64_t count, int threads) {
    begin_kernel(suffix, count, threads);
    open("for (Index b = blockIdx.x; b < {}; b += gridDim.x) {{", count);
  }
  void end_blocks() { end_elements(); }

  KernelText finish(int64_t workspace_bytes = 0, uint64_t number = 0) {
    line("}}  // namespace mstrain::cuda");
    result_.workspace_bytes = workspace_bytes;
    result_.number = number;
    result_.joins = joins_;
    return std::move(result_);
  }

  std::string in_format(size_t i) const { return format_of(request_.inputs[i].type.dtype); }
  std::string out_format(size_t i) const { return format_of(request_.outputs[i].type.dtype); }

 private:
  const KernelRequest& request_;
  bool joins_ = true;
  bool needs_loop_ = false;  // the kernel under way
  size_t begin_ = 0;         // of its text
  std::string aligned_;
};

// How many elements make an access of 16 bytes, or of less where lines of `inner` are no multiple of it.
inline int64_t pack_of(int64_t bytes, int64_t inner) {
  int64_t pack = 16 / bytes;
  while (inner % pack != 0) {
    pack /= 2;
  }
  return pack;
}

// The reporter of an operation, counted from 1.
inline int reporter(const KernelRequest& request) {
  const auto found = std::ranges::find(kReporters, request.op.name);
  return static_cast<int>(found - kReporters.begin()) + 1;
}

inline int axis_of(const KernelRequest& request) {
  return static_cast<int>(request.attrs.integer("axis"));
}

// The product of dims [begin, end).
inline int64_t elements_between(const Shape& shape, int begin, int end) {
  int64_t product = 1;
  for (int d = begin; d < end; ++d) {
    product *= shape[d];
  }
  return product;
}

// A line along an axis: element k of line (o, j) lies at (o * n + k) * inner + j.
struct Lines {
  int64_t outer, n, inner;
  Lines(const Shape& shape, int axis)
      : outer(elements_between(shape, 0, axis)),
        n(shape[axis]),
        inner(elements_between(shape, axis + 1, shape.rank())) {}
  int64_t count() const { return outer * inner; }
};

}  // namespace mstrain::cuda
