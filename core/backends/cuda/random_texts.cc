// Random numbers, and numbers rounded by them: the CPU's words for the same keys.
#include "core/backends/cuda/printer.h"
#include "core/ops/block_code.h"

namespace mstrain::cuda {
namespace {

// The texts' `parameter`.
uint64_t site_of(const KernelRequest& request) {
  return static_cast<uint64_t>(request.attrs.integer("site"));
}

KernelText print_random(const KernelRequest& request) {
  const std::string& kind = request.attrs.text("kind");
  const Shape& shape = request.attrs.ints("shape");
  const int64_t count = shape.elements();
  KernelPrinter text(request, "random.cuh");
  text.begin_elements("", request.outputs[0].type.elements());
  if (count > 0) {
    text.line("const Index k = i / {};", count);
    text.line("const Stream stream = stream_of<2>(in0, k, parameter).stream;");
    if (request.inputs.size() == 2) {
      const Shape& whole = request.attrs.ints("whole");
      text.line("int64_t rest = i % {}, index = 0;", count);
      int64_t stride = 1;
      for (int d = shape.rank(); d-- > 0;) {
        text.line("index += (int64_t(in1[k * {} + {}]) + rest % {}) * {};", shape.rank(), d,
                  shape[d], stride);
        text.line("rest /= {};", shape[d]);
        stride *= whole[d];
      }
    } else {
      text.line("const int64_t index = i % {};", count);
    }
    if (kind == "bits") {
      text.line("out0[i] = {}::store(int64_t(stream.word(uint64_t(index))));", text.out_format(0));
    } else {
      text.line("out0[i] = {0}::store({0}::Held({1}_of<{0}>(stream, uint64_t(index))));",
                text.out_format(0), kind);
    }
  }
  text.end_elements();
  return text.finish(0, site_of(request));
}

// Of a batch: how many tensors, and the elements of each.
struct Batch {
  int64_t width, count, own;
  Batch(const KernelRequest& request, size_t leads)
      : width(request.inputs[leads].type.shape.back()),
        count(elements_between(request.inputs[leads].type.shape, 0,
                               request.inputs[leads].type.shape.rank() - 1)),
        own(request.inputs[0].type.elements() / std::max<int64_t>(count, 1)) {}
};

KernelText print_round(const KernelRequest& request) {
  const Batch batch(request, 1);
  KernelPrinter text(request, "random.cuh");
  text.begin_elements("", request.outputs[0].type.elements());
  if (batch.own > 0) {
    text.line("const auto random = stream_of<{}>(in1, i / {}, parameter);", batch.width, batch.own);
    text.line("out0[i] = stochastic_bf16(float({}::load(in0[i])), random.word(i % {}));",
              text.in_format(0), batch.own);
  }
  text.end_elements();
  return text.finish(0, site_of(request));
}

KernelText print_quantize(const KernelRequest& request) {
  static_assert(kCodeBlock == kThreadsOfKernel, "a thread has one number of a block of codes");
  const Batch batch(request, 1);
  const bool is_signed = request.attrs.flag("signed");
  const int64_t blocks = code_blocks(batch.own);
  KernelPrinter text(request, "random.cuh");
  text.begin_blocks("", batch.count * blocks, kThreadsOfKernel);
  if (blocks > 0) {
    text.line("const Index k = b / {0}, j = b % {0} * {1} + thread;", blocks, kCodeBlock);
    text.line("const bool mine = j < {};", batch.own);
    text.line("float x = mine ? float({}::load(in0[k * {} + j])) : 0.0F;", text.in_format(0),
              batch.own);
    if (!is_signed) {
      text.line("x = __builtin_fabsf(x);");
    }
    text.line("const float scale = block_scale(fold_block<Max>(__builtin_fabsf(x)));");
    text.line("if (thread == 0) {{ out1[b] = scale; }}");
    text.open("if (mine) {{");
    text.line("const auto random = stream_of<{}>(in1, k, parameter);", batch.width);
    text.line("out0[k * {} + j] = BlockCode<{}>::encode(x, scale, random.word(j));", batch.own,
              is_signed);
    text.close();
  }
  text.end_blocks();
  return text.finish(0, site_of(request));
}

KernelText print_dequantize(const KernelRequest& request) {
  const Batch batch(request, 1);
  KernelPrinter text(request, "random.cuh");
  text.begin_elements("", request.outputs[0].type.elements());
  if (batch.own > 0) {
    text.line("const float scale = in1[i / {0} * {1} + i % {0} / {2}];", batch.own, batch.width,
              kCodeBlock);
    text.line("out0[i] = BlockCode<{}>::decode(in0[i], scale);", request.attrs.flag("signed"));
  }
  text.end_elements();
  return text.finish();
}

}  // namespace

void add_random_texts(std::vector<TextEntry>& entries) {
  entries.push_back({"random", print_random});
  entries.push_back({"stochastic_round", print_round});
  entries.push_back({"quantize_blocks", print_quantize});
  entries.push_back({"dequantize_blocks", print_dequantize});
}

}  // namespace mstrain::cuda
