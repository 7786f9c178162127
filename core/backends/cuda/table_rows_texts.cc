// Rows of embedding tables, of f32: a thread adds up a float of a bag, a warp has a row that learns.
#include "core/ops/table_rows.h"

#include <bit>

#include "core/backends/cuda/printer.h"

namespace mstrain::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsOfBlock = kThreads / 32;

bool is_f32(const KernelRequest& request) { return request.inputs[0].type.dtype == Dtype::kF32; }

KernelText print_sum(const KernelRequest& request) {
  const Shape& x = request.inputs[0].type.shape;
  const int64_t positions = request.inputs[1].type.elements();
  KernelPrinter text(request, "table_rows.cuh");
  text.begin_elements("", request.outputs[0].type.elements());
  text.line("const Index bag = i / {0}, c = i % {0};", std::max<int64_t>(x[1], 1));
  text.line("const int64_t from = in3[bag] > 0 ? int64_t(in3[bag]) : 0;");
  text.line("const int64_t to = in3[bag + 1] < {0} ? int64_t(in3[bag + 1]) : {0};", positions);
  text.line("out0[i] = bag_sum<{}>(in0, in1, in2, from, to, {}, {}, c, report);", reporter(request),
            x[0], x[1]);
  text.end_elements();
  return text.finish();
}

std::string bits(float x) {
  return fmt::format("__builtin_bit_cast(float, 0x{:08x}U)", std::bit_cast<uint32_t>(x));
}

KernelText print_learn(const KernelRequest& request) {
  const Shape& table = request.inputs[0].type.shape;
  const int64_t states = request.inputs[1].type.shape[1];
  const int64_t count = request.inputs[2].type.elements();
  const auto [lr, beta1, beta2, eps, l1, l2] = numbers_of(request.attrs);
  KernelPrinter text(request, "table_rows.cuh");
  // The other rows, where a result lies elsewhere.
  text.begin_kernel("_copy", ceil_div(request.outputs[0].type.elements(), kThreadsOfKernel),
                    kThreadsOfKernel);
  for (size_t i = 0; i < 2; ++i) {
    text.open("if ({} != {}) {{", pointer_text(i), pointer_text(request.inputs.size() + i));
    text.begin_loop("i", request.outputs[i].type.elements());
    text.line("out{0}[i] = in{0}[i];", i);
    text.close();
    text.close();
  }
  text.end_kernel();
  if (count > 0) {
    text.begin_blocks("", ceil_div(count, kRowsOfBlock), kThreads);
    text.line("const row_rules::Numbers numbers{{{}, {}, {}, {}, {}, {}}};", bits(lr), bits(beta1),
              bits(beta2), bits(eps), bits(l1), bits(l2));
    text.line("const Index u = b * {} + thread / 32;", kRowsOfBlock);
    text.open("if (u < {} && in4[u] != 0) {{", count);
    text.line("const int64_t row = checked_id<{}>(int64_t(in2[u]), u, {}, report);",
              reporter(request), table[0]);
    text.line(
        "learn_row<row_rules::Rule({0})>(numbers, in5[0], out0, row * {1}, out1, row * {2}, in3, "
        "int64_t(u) * {1}, {1});",
        static_cast<int>(rule_of(request.attrs)), table[1], states);
    text.close();
    text.end_blocks();
  }
  KernelText result = text.finish();
  result.in_place = {{0, 0}, {1, 1}};
  return result;
}

}  // namespace

void add_table_row_texts(std::vector<TextEntry>& entries) {
  entries.push_back({"bag_sum", print_sum, is_f32});
  entries.push_back({"learn_rows", print_learn, is_f32});
}

}  // namespace mstrain::cuda
