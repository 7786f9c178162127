// Cross-entropy of rows: a block for each, one pass for the logsumexp and one for the gradient.
#include <bit>

#include "core/backends/cuda/printer.h"

namespace mstrain::cuda {
namespace {

constexpr int64_t kPacksAhead = 4;  // packs that a thread reads before it uses the first

struct Loss {
  int64_t rows, n;
  int64_t pack;  // neighbours that a thread reads at once
  int threads;
  std::string held, ignored, smoothing;

  Loss(const KernelRequest& request, size_t logits)
      : rows(request.inputs[logits].type.elements() / request.inputs[logits].type.shape.back()),
        n(request.inputs[logits].type.shape.back()),
        pack(pack_of(size_of(request.inputs[logits].type.dtype), n)),
        threads(static_cast<int>(
            std::clamp<int64_t>(ceil_div(n, pack * kPacksAhead * 32) * 32, 32, 512))),
        held(held_by(request.inputs[logits].type.dtype)),
        ignored(fmt::format("int64_t({})", request.attrs.integer("ignore_index"))),
        smoothing(fmt::format("{}({})", held, request.attrs.number("label_smoothing"))) {}
};

// In whose body `values` are all packs of a thread, kPacksAhead at a time, and `c` where each begins.
void begin_packs(KernelPrinter& text, const Loss& loss, size_t logits) {
  text.open("for (Index first = thread * {0}; first < {1}; first += {2}) {{", loss.pack, loss.n,
            loss.threads * loss.pack * kPacksAhead);
  text.line("Pack<{}::Stored, {}> all[{}];", text.in_format(logits), loss.pack, kPacksAhead);
  text.line("#pragma unroll");
  text.open("for (int u = 0; u < {}; ++u) {{", kPacksAhead);
  text.line("const Index c = first + u * {};", loss.threads * loss.pack);
  text.line("if (c < {0}) {{ all[u] = load_pack<{1}, aligned>(in{2}, b * Index({0}) + c); }}",
            loss.n, loss.pack, logits);
  text.close();
  text.line("#pragma unroll");
  text.open("for (int u = 0; u < {}; ++u) {{", kPacksAhead);
  text.line("const Index c = first + u * {};", loss.threads * loss.pack);
  text.line("auto& values = all[u];");
  text.open("if (c < {}) {{", loss.n);
}
void end_packs(KernelPrinter& text) {
  text.close();
  text.close();
  text.close();
}

KernelText print_loss(const KernelRequest& request) {
  const Loss loss(request, 0);
  const bool smooths = request.attrs.number("label_smoothing") != 0;
  KernelPrinter text(request, "loss.cuh");
  text.begin_kernel("", loss.rows, loss.threads);
  text.begin_aligned(loss.pack, {0}, {});
  text.open("for (Index b = blockIdx.x; b < {}; b += gridDim.x) {{", loss.rows);
  text.line("using Held = {};", loss.held);
  text.line("[[maybe_unused]] Held sum = 0;");
  text.line("LogSumExp<Held> running;");
  begin_packs(text, loss, 0);
  text.line("Held x[{}];", loss.pack);
  text.line("#pragma unroll");
  text.open("for (int j = 0; j < {}; ++j) {{", loss.pack);
  text.line("x[j] = {}::load(values.at[j]);", text.in_format(0));
  if (smooths) {
    text.line("sum += x[j];");
  }
  text.close();
  text.line("running.add(x);");
  end_packs(text);
  text.line("const Held lse = logsumexp_of_block(running);");
  if (smooths) {
    text.line("const Held mean = fold_block<Sum>(sum) / Held({});", loss.n);
  }
  text.open("if (thread == 0) {{");
  text.line("const int64_t target = int64_t(in1[b]);");
  text.line("out1[b] = lse;");
  text.open("if (target == {}) {{", loss.ignored);
  text.line("out0[b] = Held(0);");
  text.close();
  text.open("else {{");
  text.line("const Index at = Index(checked_id<7>(target, b, {}, report));", loss.n);
  text.line("const Held smoothing = {};", loss.smoothing);
  text.line("Held value = lse - (Held(1) - smoothing) * {}::load(in0[b * Index({}) + at]);",
            text.in_format(0), loss.n);
  if (smooths) {
    text.line("value -= smoothing * mean;");
  }
  text.line("out0[b] = value;");
  text.close();
  text.close();
  text.close();
  text.end_aligned();
  text.end_kernel();
  return text.finish();
}

KernelText print_gradient(const KernelRequest& request) {
  const Loss loss(request, 1);
  KernelPrinter text(request, "loss.cuh");
  text.begin_kernel("", loss.rows, loss.threads);
  text.begin_aligned(loss.pack, {1}, {0});
  text.open("for (Index b = blockIdx.x; b < {}; b += gridDim.x) {{", loss.rows);
  text.line("using Held = {};", loss.held);
  text.line("const int64_t given = int64_t(in2[b]);");
  text.line("const bool ignored = given == {};", loss.ignored);
  text.line("const Index target = ignored ? 0 : Index(checked_id<8>(given, b, {}, report));",
            loss.n);
  text.line("const Held g = ignored ? Held(0) : Held(in0[b]), lse = in3[b];");
  text.line("const Held smoothing = {};", loss.smoothing);
  text.line("const Held spread = smoothing / Held({});", loss.n);
  begin_packs(text, loss, 1);
  text.line("#pragma unroll");
  text.open("for (int j = 0; j < {}; ++j) {{", loss.pack);
  text.line("Held d = scalar::exp({}::load(values.at[j]) - lse) - spread;", text.in_format(1));
  text.line("if (c + j == target) {{ d -= Held(1) - smoothing; }}");
  text.line("values.at[j] = {}::store(ignored ? Held(0) : g * d);", text.out_format(0));
  text.close();
  text.line("store_pack<aligned>(out0, b * Index({}) + c, values);", loss.n);
  end_packs(text);
  text.close();
  text.end_aligned();
  text.end_kernel();
  KernelText result = text.finish();
  result.in_place = {{0, 1}};
  return result;
}

}  // namespace

void add_loss_texts(std::vector<TextEntry>& entries) {
  entries.push_back({"cross_entropy", print_loss});
  entries.push_back({"cross_entropy_grad", print_gradient});
}

}  // namespace mstrain::cuda
