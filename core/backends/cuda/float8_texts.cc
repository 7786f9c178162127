// Floats of 8 bits. Their products are the library's (float8_matmul.cc).
#include "core/ops/float8.h"

#include <numeric>

#include "core/backends/cuda/printer.h"

namespace mstrain::cuda {
namespace {

constexpr int64_t kPack = 16;

std::string code_text(const KernelRequest& request) {
  return float8_of(request.attrs, "format") == Float8::kE4M3 ? "Float8Code<E4M3>"
                                                             : "Float8Code<E5M2>";
}

KernelText print_encode(const KernelRequest& request) {
  const int64_t count = request.inputs[0].type.elements();
  const int64_t batch = request.inputs[1].type.elements();
  const int64_t own = std::max<int64_t>(count / std::max<int64_t>(batch, 1), 1);
  const int64_t pack = std::gcd(kPack, own);
  KernelPrinter text(request, "float8.cuh");
  text.begin_kernel("", ceil_div(std::max(count / pack, batch), kThreadsOfKernel),
                    kThreadsOfKernel);
  text.line("using Code = {};", code_text(request));
  text.line("const auto unit_of = [&](Index k) {{ return Code::unit(in1[k], in2[k], {}); }};",
            request.attrs.integer("margin"));
  text.begin_aligned(pack, {0}, {0});
  text.begin_loop("q", count / pack);
  text.line("const Index i = q * {};", pack);
  text.line("const float inverse = per_unit(unit_of(i / {}));", own);
  text.line(
      "store_pack<aligned>(out0, i, encode_pack<Code, {0}, {1}>(load_pack<{1}, aligned>(in0, i), "
      "inverse));",
      text.in_format(0), pack);
  text.close();
  text.end_aligned();
  text.begin_loop("k", batch);
  text.line("out1[k] = unit_of(k);");
  text.close();
  text.end_kernel();
  return text.finish();
}

KernelText print_decode(const KernelRequest& request) {
  const int64_t count = request.inputs[0].type.elements();
  const int64_t pack = std::gcd(kPack, std::max<int64_t>(count, 1));
  KernelPrinter text(request, "float8.cuh");
  text.begin_kernel("", ceil_div(count / pack, kThreadsOfKernel), kThreadsOfKernel);
  text.begin_aligned(pack, {0}, {0});
  text.begin_loop("q", count / pack);
  text.line(
      "store_pack<aligned>(out0, q * {0}, decode_pack<{1}>(load_pack<{0}, aligned>(in0, q * "
      "{0})));",
      pack, code_text(request));
  text.close();
  text.end_aligned();
  text.end_kernel();
  return text.finish();
}

}  // namespace

void add_float8_texts(std::vector<TextEntry>& entries) {
  entries.push_back({"encode_float8", print_encode});
  entries.push_back({"decode_float8", print_decode});
}

}  // namespace mstrain::cuda
