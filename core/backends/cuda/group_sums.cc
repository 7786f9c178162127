#include "core/backends/cuda/group_sums.h"

#include <algorithm>
#include <bit>

namespace mstrain::cuda {

void GroupSums::declare_shared_sums() {
  for (const char* type : {"float", "double"}) {
    const bool is_summed = std::ranges::any_of(terms_.sinks, [&](const Sink& sink) {
      return sink.kind == Sink::Kind::kSumColumns && sum_type(sink) == type;
    });
    if (it_.teams > 1 && is_summed) {
      line("MSTRAIN_SHARED({0}, {0}_of_team, {1});", type, it_.teams * terms_.extent.n);
    }
  }
}

void GroupSums::print_accumulators() {
  for (const Sink& sink : terms_.sinks) {
    if (sink.kind == Sink::Kind::kSumAll) {
      line("double sum{} = 0;", sink.output);
    } else if (sink.kind == Sink::Kind::kSumColumns) {
      line("{} sum{}[{}] = {{}};", sum_type(sink), sink.output, it_.packs * it_.pack);
    }
  }
}

void GroupSums::print_sums() {
  const int64_t n = terms_.extent.n;
  const bool last = !leaves_sums();
  for_sums([&](const Sink& sink, int64_t offset) {
    const std::string to = last ? output(sink) : workspace(sink, offset);
    if (sink.kind == Sink::Kind::kSumAll) {
      line("sum{0} = fold_block<Sum>(sum{0});", sink.output);
      const std::string sum = fmt::format("sum{}", sink.output);
      line("if (thread == 0) {{ {}[{}] = {}; }}", to, last ? "0" : "blockIdx.x",
           last ? stored(sink, sum) : sum);
      return;
    }
    const auto each = [&](const std::string& where, const std::string& value) {
      open_packs();
      open("for (int j = 0; j < {}; ++j) {{", it_.pack);
      line("{} = {};", where, value);
      close();
      close();
      close();
    };
    const std::string sum = fmt::format("sum{}[q * {} + j]", sink.output, it_.pack);
    const std::string block = last ? "" : fmt::format("int64_t(blockIdx.x) * {} + ", n);
    if (it_.teams == 1) {
      each(fmt::format("{}[{}c0 + j]", to, block), last ? stored(sink, sum) : sum);
      return;
    }
    // All teams' sums are added in their order.
    const std::string& type = sum_type(sink);
    each(fmt::format("{}_of_team[team * {} + c0 + j]", type, n), sum);
    line("__syncthreads();");
    open("for (int c = thread; c < {}; c += {}) {{", n, it_.threads);
    line("{0} total = {0}_of_team[c];", type);
    line("for (int t = 1; t < {}; ++t) {{ total += {}_of_team[t * {} + c]; }}", it_.teams, type, n);
    line("{}[{}c] = {};", to, block, last ? stored(sink, "total") : "total");
    close();
    line("__syncthreads();");
  });
}

void GroupSums::print_finish() {
  const int64_t n = terms_.extent.n;
  const int64_t warps =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(it_.blocks, 32))));
  const int64_t threads = warps * 32;
  int64_t block = 0;
  open("extern \"C\" __global__ void __launch_bounds__({}) @_finish(const Pointers p) {{", threads);
  line("{}", kFirstAlone);
  line("const int thread = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x);");
  for_sums([&](const Sink& sink, int64_t offset) {
    const std::string type = sum_type(sink);
    const bool all = sink.kind == Sink::Kind::kSumAll;
    const int64_t own = all ? 1 : ceil_div(n, 32);
    open("if (block >= {} && block < {}) {{", block, block + own);
    line("{} total = 0;", type);
    if (all) {
      open("for (int b = thread; b < {}; b += {}) {{", it_.blocks, threads);
      line("total += {}[b];", workspace(sink, offset));
      close();
      line("total = fold_block<Sum>(total);");
      line("if (thread == 0) {{ {}[0] = {}; }}", output(sink), stored(sink, "total"));
    } else {  // a warp adds every so many blocks' sums, then all warps' are added in their order
      line("const int c = (block - {}) * 32 + thread % 32, warp = thread / 32;", block);
      line("MSTRAIN_SHARED({}, of_warp, {});", type, threads);
      open("if (c < {}) {{", n);
      line("#pragma unroll 8");
      open("for (int b = 0; b < {}; b += {}) {{", it_.blocks, warps);
      const std::string own_sum =
          fmt::format("{}[int64_t(b + warp) * {} + c]", workspace(sink, offset), n);
      if (it_.blocks % warps == 0) {
        line("total += {};", own_sum);
      } else {
        line("if (b + warp < {}) {{ total += {}; }}", it_.blocks, own_sum);
      }
      close();
      close();
      line("of_warp[thread] = total;");
      line("__syncthreads();");
      open("if (warp == 0 && c < {}) {{", n);
      line("for (int w = 1; w < {}; ++w) {{ total += of_warp[w * 32 + thread]; }}", warps);
      line("{}[c] = {};", output(sink), stored(sink, "total"));
      close();
    }
    close();
    block += own;
  });
  close();
  result_.launches.push_back({"@_finish", block, static_cast<int>(threads)});
  for_sums([&](const Sink& sink, int64_t offset) {
    result_.workspace_bytes =
        std::max(result_.workspace_bytes, offset + it_.blocks * bytes_of_sum(sink));
  });
}

}  // namespace mstrain::cuda
