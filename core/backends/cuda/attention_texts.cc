// Attention of 16-bit numbers by products of warps; of others it is decomposed.
#include "core/backends/cuda/attention_problem.h"

namespace mstrain::cuda {
namespace {

// As in device/attention_tiles.cuh.
constexpr int kThreads = 128;
constexpr int64_t kRowsOfBlock = 64;
int64_t tile_of(int64_t d) { return d <= 64 ? 64 : 32; }
void print_checks(KernelPrinter& text, int64_t d) {
  text.line(
      "static_assert(kAttentionThreads == {} && kRowsOfBlock == {} && "
      "AttentionTiles<@_Problem>::kTile == {});",
      kThreads, kRowsOfBlock, tile_of(d));
}

bool has_attention(const KernelRequest& request) { return has_tiles_of_attention(request, 0); }
bool has_attention_gradient(const KernelRequest& request) {
  return has_tiles_of_attention(request, 1);
}

KernelText print_attention(const KernelRequest& request) {
  KernelPrinter text(request, "attention.cuh");
  text.stay_alone();
  AttentionProblem problem(text, request, 0, 0);
  print_checks(text, problem.dims().d);
  const AttentionDims& n = problem.dims();
  text.begin_blocks("", n.b * n.h * ceil_div(n.t, kRowsOfBlock), kThreads);
  problem.print_beside_of_kernel();
  text.line("Attention<@_Problem>::forward(b, beside, in0, in1, in2, out0, out1);");
  text.end_blocks();
  return text.finish(0, problem.site());
}

KernelText print_attention_gradient(const KernelRequest& request) {
  KernelPrinter text(request, "attention_bias.cuh");
  text.stay_alone();
  const size_t last = request.inputs.size() - 1;  // g, q, k, v, …, out, lse
  AttentionProblem problem(text, request, 1, last - 1);
  print_checks(text, problem.dims().d);
  const AttentionDims& n = problem.dims();
  const int64_t of_delta = problem.print_products(last - 1);
  const auto print = [&](std::string_view suffix, std::string_view function, int64_t blocks,
                         std::string_view results) {
    text.begin_blocks(suffix, blocks, kThreads);
    problem.print_beside_of_kernel();
    text.line(
        "AttentionBias<@_Problem>::{}(b, beside, in0, in1, in2, in3, in{}, "
        "global<float>(workspace), "
        "{});",
        function, last, results);
    text.end_blocks();
  };
  const int64_t query_blocks = ceil_div(n.t, kRowsOfBlock);
  print("_keys", "key_gradient", n.b * n.key_heads * ceil_div(n.s, kRowsOfBlock), "out1, out2");
  print("_queries", "query_gradient", n.b * n.h * query_blocks, "out0");
  const int64_t tiles = query_blocks * ceil_div(n.s, tile_of(n.d));
  const AttentionForm& form = problem.form();
  size_t result = 3;
  if (form.bias != 0) {
    const Shape& bias = problem.shape(form.bias);
    print("_bias", "bias_gradient", bias[0] * bias[1] * tiles, fmt::format("out{}", result++));
  }
  const int64_t partial_at = ceil_div(of_delta, 256) * 256;
  if (form.table == 0) {
    return text.finish(of_delta, problem.site());
  }
  const Shape& table = problem.shape(form.table);
  const std::string partial =
      fmt::format("global<float>(static_cast<char*>(workspace) + {})", partial_at);
  print("_distances", "distance_gradient", table[0] * n.h * tiles, partial);
  constexpr int64_t kWarps = kThreads / 32;
  text.begin_blocks("_table", ceil_div(table.elements(), kWarps), kThreads);
  text.line("const int64_t i = int64_t(b) * {} + thread / 32;", kWarps);
  text.open("if (i < {}) {{", table.elements());
  text.line("AttentionBias<@_Problem>::add_distance_gradients(i, {}, out{});", partial, result);
  text.close();
  text.end_blocks();
  return text.finish(partial_at + table.elements() * tiles * 4, problem.site());
}

}  // namespace

void add_attention_texts(std::vector<TextEntry>& entries) {
  for (const char* op : {"attention", "attention_dropout"}) {
    entries.push_back({op, print_attention, has_attention, true});
  }
  for (const char* op : {"attention_grad", "attention_dropout_grad"}) {
    entries.push_back({op, print_attention_gradient, has_attention_gradient, true});
  }
}

}  // namespace mstrain::cuda
