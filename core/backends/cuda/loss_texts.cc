// Cross-entropy of rows: a block for each, one pass for the logsumexp and one for the gradient.
#include <bit>

#include "core/backends/cuda/printer.h"

namespace mstrain::cuda {
namespace {

struct Loss {
  int64_t rows, n;
  int pack;  // neighbours that a thread reads at once
  int threads;
  std::string held, ignored, smoothing;

  Loss(const KernelRequest& request, size_t logits)
      : rows(request.inputs[logits].type.elements() / request.inputs[logits].type.shape.back()),
        n(request.inputs[logits].type.shape.back()),
        pack(n % 4 == 0 ? 4 : 1),
        threads(static_cast<int>(std::clamp<int64_t>(ceil_div(n, 8 * 32) * 32, 32, 512))),
        held(held_by(request.inputs[logits].type.dtype)),
        ignored(fmt::format("int64_t({})", request.attrs.integer("ignore_index"))),
        smoothing(fmt::format("{}({})", held, request.attrs.number("label_smoothing"))) {}
};

KernelText print_loss(const KernelRequest& request) {
  const Loss loss(request, 0);
  KernelPrinter text(request, "loss.cuh");
  text.begin_blocks("", loss.rows, loss.threads);
  text.line("using Held = {};", loss.held);
  text.line("Held sum = 0;");
  text.line("LogSumExp<Held> running;");
  text.open("for (Index c = thread * {0}; c < {1}; c += {2} * {0}) {{", loss.pack, loss.n,
            loss.threads);
  text.line("const auto stored = load_pack<{}>(in0, b * Index({}) + c);", loss.pack, loss.n);
  text.line("Held x[{}];", loss.pack);
  text.open("for (int j = 0; j < {}; ++j) {{", loss.pack);
  text.line("x[j] = {}::load(stored.at[j]);", text.in_format(0));
  text.line("sum += x[j];");
  text.close();
  text.line("running.add(x);");
  text.close();
  text.line("const Held lse = logsumexp_of_block(running);");
  text.line("const Held mean = fold_block<Sum>(sum) / Held({});", loss.n);
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
  text.line("if (smoothing != Held(0)) {{ value -= smoothing * mean; }}");
  text.line("out0[b] = value;");
  text.close();
  text.close();
  text.end_blocks();
  return text.finish();
}

KernelText print_gradient(const KernelRequest& request) {
  const Loss loss(request, 1);
  KernelPrinter text(request, "loss.cuh");
  text.begin_blocks("", loss.rows, loss.threads);
  text.line("using Held = {};", loss.held);
  text.line("const int64_t given = int64_t(in2[b]);");
  text.line("const bool ignored = given == {};", loss.ignored);
  text.line("const Index target = ignored ? 0 : Index(checked_id<8>(given, b, {}, report));",
            loss.n);
  text.line("const Held g = ignored ? Held(0) : Held(in0[b]), lse = in3[b];");
  text.line("const Held smoothing = {};", loss.smoothing);
  text.line("const Held spread = smoothing / Held({});", loss.n);
  text.open("for (Index c = thread * {0}; c < {1}; c += {2} * {0}) {{", loss.pack, loss.n,
            loss.threads);
  text.line("auto values = load_pack<{}>(in1, b * Index({}) + c);", loss.pack, loss.n);
  text.open("for (int j = 0; j < {}; ++j) {{", loss.pack);
  text.line("Held d = scalar::exp({}::load(values.at[j]) - lse) - spread;", text.in_format(1));
  text.line("if (c + j == target) {{ d -= Held(1) - smoothing; }}");
  text.line("values.at[j] = {}::store(ignored ? Held(0) : g * d);", text.out_format(0));
  text.close();
  text.line("store_pack(out0, b * Index({}) + c, values);", loss.n);
  text.close();
  text.end_blocks();
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
