// Attention of 16-bit numbers by products of warps or of warp groups; other forms of it are decomposed.
#include "core/backends/cuda/printer.h"
#include "core/ops/attention_form.h"

namespace mstrain::cuda {
namespace {

constexpr int kThreads = 128;  // as in device/attention.cuh
constexpr int64_t kRowsOfBlock = 64;

// Those of the forward pass. `q`: its place among the inputs; a gradient's follow the result and its logsumexp.
Types types_of(const KernelRequest& request, size_t q) {
  Types types;
  for (size_t i = q; i < request.inputs.size() - 2 * q; ++i) {
    types.push_back(request.inputs[i].type);
  }
  return types;
}

bool is_served(const KernelRequest& request, size_t q) {
  const Types types = types_of(request, q);
  const AttentionForm form(request.attrs, types);
  const TensorType &of_q = types[0], &of_v = types[2];
  const int64_t d = of_q.shape[3];
  const bool narrow = of_q.dtype == Dtype::kBF16 || of_q.dtype == Dtype::kF16;
  return narrow && form.inputs == 3 && d == of_v.shape[3] && d % 16 == 0 && d <= 128 &&
         of_q.elements() > 0 && types[1].elements() > 0 && of_q.shape[1] < (1 << 24) &&
         types[1].shape[1] < (1 << 24);
}

// By warp groups: vectors of one or two rows of a tile.
bool suits_warp_groups(const KernelRequest& request, size_t q) {
  const int64_t d = request.inputs[q].type.shape[3];
  return is_served(request, q) && (d == 64 || d == 128) &&
         AttentionForm(request.attrs, types_of(request, q)).scale > 0;
}
bool has_warp_group_attention(const KernelRequest& request) {
  return suits_warp_groups(request, 0);
}
bool has_warp_group_attention_gradient(const KernelRequest& request) {
  return suits_warp_groups(request, 1);
}

bool has_attention(const KernelRequest& request) { return is_served(request, 0); }
bool has_attention_gradient(const KernelRequest& request) { return is_served(request, 1); }

// The struct that says what is computed.
AttentionDims print_problem(KernelPrinter& text, const KernelRequest& request, size_t q,
                            size_t out) {
  const Types types = types_of(request, q);
  const AttentionForm form(request.attrs, types);
  const AttentionDims n = check_attention(types, form, request.attrs);
  text.open("struct @_Problem {{");
  text.line("using Format = {};", format_of(types[0].dtype));
  text.line("static constexpr int kDim = {};", n.d);
  text.line("static constexpr int64_t kQueries = {}, kKeys = {}, kHeads = {}, kGroup = {};", n.t,
            n.s, n.h, n.group());
  text.line("static constexpr bool kCausal = {};", form.causal);
  text.line("static constexpr int64_t kWindow = {};", form.causal ? form.window : 0);
  text.line("static constexpr float kScale = float({});", form.scale);
  const auto strides = [&](char letter, const ViewType& view) {
    text.line("static constexpr int64_t k{0}B = {1}, k{0}T = {2}, k{0}H = {3}, k{0}D = {4};",
              letter, view.strides[0], view.strides[1], view.strides[2], view.strides[3]);
  };
  strides('Q', request.inputs[q]);
  strides('K', request.inputs[q + 1]);
  strides('V', request.inputs[q + 2]);
  strides('G', request.inputs[0]);
  strides('O', out == 0 ? request.outputs[0] : request.inputs[out]);
  text.close();
  text.line(";");
  return n;
}

KernelText print_attention(const KernelRequest& request) {
  KernelPrinter text(request, "attention.cuh");
  const AttentionDims n = print_problem(text, request, 0, 0);
  text.begin_blocks("", n.b * n.h * ceil_div(n.t, kRowsOfBlock), kThreads);
  text.line("Attention<@_Problem>::forward(b, in0, in1, in2, out0, out1);");
  text.end_blocks();
  return text.finish();
}

// A kernel of device/*_warp_groups.cuh over `rows` of these heads. As there: two groups that compute, of 64 rows each, and the one
// that fills shared memory: with rows that stay, and with tiles that come, of so many rows altogether, then `numbers` of f32.
void begin_warp_groups(KernelPrinter& text, std::string_view suffix, int64_t batch_heads,
                       int64_t rows, int64_t d, int64_t rows_in_shared, int64_t slots,
                       int64_t numbers = 0) {
  const int64_t bytes = rows_in_shared * d * 2 + numbers * 4 + (slots + 1) * 16;
  text.begin_kernel({.name = fmt::format("@{}", suffix),
                     .blocks = batch_heads * ceil_div(ceil_div(rows, 128), 2),
                     .threads = 384,
                     .shared_bytes = static_cast<int>(bytes),
                     .shares = true});
}

KernelText print_warp_group_attention(const KernelRequest& request) {
  KernelPrinter text(request, "attention_warp_groups.cuh");
  const AttentionDims n = print_problem(text, request, 0, 0);
  const int64_t slots = n.d == 64 ? 6 : 4;
  begin_warp_groups(text, "", n.b * n.h, n.t, n.d, 128 + slots * 128, slots);
  text.line("WarpGroupAttention<@_Problem>::forward({}, in0, in1, in2, out0, out1);", n.b);
  text.end_kernel();
  return text.finish();
}

// delta into the workspace.
int64_t print_products(KernelPrinter& text, const AttentionDims& n, size_t last) {
  const int64_t rows = n.b * n.h * n.t;
  constexpr int64_t kWarps = kThreads / 32;
  text.begin_blocks("_products", ceil_div(rows, kWarps), kThreads);
  text.line("const int64_t row = int64_t(b) * {} + thread / 32;", kWarps);
  text.open("if (row < {}) {{", rows);
  text.line("Attention<@_Problem>::products(row, in0, in{}, global<float>(workspace));", last - 1);
  text.close();
  text.end_blocks();
  return rows * 4;
}

KernelText print_warp_group_attention_gradient(const KernelRequest& request) {
  KernelPrinter text(request, "attention_gradient_warp_groups.cuh");
  const size_t last = request.inputs.size() - 1;  // g, q, k, v, out, lse
  const AttentionDims n = print_problem(text, request, 1, last - 1);
  const int64_t workspace = print_products(text, n, last);
  constexpr int64_t kSlots = 8, kRows = 2 * 128 + kSlots * 64;
  const auto print = [&](bool of_keys, int first, int second) {
    text.line(
        "WarpGroupGradient<@_Problem, {}>::run({}, in0, in1, in2, in3, in{}, "
        "global<const float>(workspace), out{}, out{});",
        of_keys, n.b, last, first, second);
    text.end_kernel();
  };
  begin_warp_groups(text, "_keys", n.b * n.key_heads, n.s, n.d, kRows, kSlots, kSlots * 64);
  print(true, 1, 2);
  begin_warp_groups(text, "_queries", n.b * n.h, n.t, n.d, kRows, kSlots);
  print(false, 0, 0);
  return text.finish(workspace);
}

KernelText print_attention_gradient(const KernelRequest& request) {
  KernelPrinter text(request, "attention.cuh");
  const size_t last = request.inputs.size() - 1;  // g, q, k, v, out, lse
  const AttentionDims n = print_problem(text, request, 1, last - 1);
  const int64_t workspace = print_products(text, n, last);
  text.begin_blocks("_keys", n.b * n.key_heads * ceil_div(n.s, kRowsOfBlock), kThreads);
  text.line(
      "Attention<@_Problem>::key_gradient(b, in0, in1, in2, in3, in{}, global<float>(workspace), "
      "out1, out2);",
      last);
  text.end_blocks();
  text.begin_blocks("_queries", n.b * n.h * ceil_div(n.t, kRowsOfBlock), kThreads);
  text.line(
      "Attention<@_Problem>::query_gradient(b, in0, in1, in2, in3, in{}, "
      "global<float>(workspace), out0);",
      last);
  text.end_blocks();
  return text.finish(workspace);
}

}  // namespace

void add_warp_group_attention_texts(std::vector<TextEntry>& entries) {
  entries.push_back(
      {"attention", print_warp_group_attention, has_warp_group_attention, true, "sm_90a"});
  entries.push_back({"attention_grad", print_warp_group_attention_gradient,
                     has_warp_group_attention_gradient, true, "sm_90a"});
}

void add_attention_texts(std::vector<TextEntry>& entries) {
  entries.push_back({"attention", print_attention, has_attention, true});
  entries.push_back({"attention_grad", print_attention_gradient, has_attention_gradient, true});
}

}  // namespace mstrain::cuda
