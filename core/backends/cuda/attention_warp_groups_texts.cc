// Attention of 16-bit numbers by the warp groups of sm_90a, where nothing stands beside q, k and v.
#include "core/backends/cuda/attention_problem.h"

namespace mstrain::cuda {
namespace {

// Vectors of one or two rows of a tile.
bool suits_warp_groups(const KernelRequest& request, size_t q) {
  const AttentionForm form(request.attrs, attention_types(request, q));
  const int64_t d = request.inputs[q].type.shape[3];
  return has_tiles_of_attention(request, q) && form.inputs == 3 && form.scale > 0 &&
         (d == 64 || d == 128);
}
bool has_warp_group_attention(const KernelRequest& request) {
  return suits_warp_groups(request, 0);
}
bool has_warp_group_attention_gradient(const KernelRequest& request) {
  return suits_warp_groups(request, 1);
}

// A kernel of device/*_warp_groups.cuh over `rows` of these heads. As there: groups that compute, of 64 rows each, and
// the one that fills shared memory with so many rows altogether; then lie there `numbers` of f32 and the barriers of `slots`.
void begin_warp_groups(KernelPrinter& text, std::string_view suffix, std::string_view kernel,
                       int64_t batch_heads, int64_t rows, int64_t d, int64_t groups,
                       int64_t rows_in_shared, int64_t slots, int64_t numbers = 0) {
  const int64_t bytes = rows_in_shared * d * 2 + numbers * 4 + slots * 16;
  text.begin_kernel({.name = fmt::format("@{}", suffix),
                     .blocks = batch_heads * ceil_div(ceil_div(rows, groups * 64), 2),
                     .threads = static_cast<int>(groups + 1) * 128,
                     .shared_bytes = static_cast<int>(bytes),
                     .shares = true});
  text.line("using Kernel = {};", kernel);
  text.line("static_assert(Kernel::kThreads == {} && Kernel::kSharedBytes == {});",
            (groups + 1) * 128, bytes);
}

KernelText print_warp_group_attention(const KernelRequest& request) {
  KernelPrinter text(request, "attention_warp_groups.cuh");
  text.stay_alone();
  const AttentionDims n = AttentionProblem(text, request, 0, 0).dims();
  const int64_t slots = n.d == 64 ? 6 : 4, groups = n.d == 64 && n.t >= 4096 ? 3 : 2;
  begin_warp_groups(text, "", "WarpGroupAttention<@_Problem>", n.b * n.h, n.t, n.d, groups,
                    2 * groups * 64 + slots * 128, slots + 2);
  text.line("Kernel::forward(in0, in1, in2, out0, out1);");
  text.end_kernel();
  return text.finish();
}

KernelText print_warp_group_attention_gradient(const KernelRequest& request) {
  KernelPrinter text(request, "attention_gradient_warp_groups.cuh");
  text.stay_alone();
  const size_t last = request.inputs.size() - 1;  // g, q, k, v, out, lse
  AttentionProblem problem(text, request, 1, last - 1);
  const AttentionDims& n = problem.dims();
  const int64_t workspace = problem.print_products(last - 1);
  const int64_t own_slots = n.d == 64 ? 2 : 1, of_own = own_slots * 2 * 128;
  const int64_t tile = n.d == 64 ? 128 : 64, slots = n.d == 64 ? 8 : 4;  // of queries, of keys
  const auto print = [&](int first, int second) {
    text.line(
        "Kernel::run(in0, in1, in2, in3, in{}, global<const float>(workspace), out{}, out{});",
        last, first, second);
    text.end_kernel();
  };
  begin_warp_groups(text, "_keys", "WarpGroupGradient<@_Problem, true>", n.b * n.key_heads, n.s,
                    n.d, 2, of_own + 8 * tile, own_slots + 8, 8 * tile);
  print(1, 2);
  begin_warp_groups(text, "_queries", "WarpGroupGradient<@_Problem, false>", n.b * n.h, n.t, n.d, 2,
                    of_own + slots * 128, own_slots + slots);
  print(0, 0);
  return text.finish(workspace);
}

}  // namespace

void add_warp_group_attention_texts(std::vector<TextEntry>& entries) {
  entries.push_back(
      {"attention", print_warp_group_attention, has_warp_group_attention, true, "sm_90a"});
  entries.push_back({"attention_grad", print_warp_group_attention_gradient,
                     has_warp_group_attention_gradient, true, "sm_90a"});
}

}  // namespace mstrain::cuda
