// Convolution and pooling by their definitions: a thread for each element of the result, sums in one order.
#include "core/backends/cuda/printer.h"
#include "core/ops/conv.h"

namespace mstrain::cuda {
namespace {

std::string sum_type(const KernelRequest& request) {
  return held_by(request.outputs[0].type.dtype);
}

// Splits `i` by dims into names, the last dim first.
void split_index(KernelPrinter& text, std::initializer_list<std::pair<const char*, int64_t>> dims) {
  text.line("Index rest = i;");
  for (const auto& [name, size] : dims) {
    text.line("const Index {} = rest % {};", name, size);
    text.line("rest /= {};", size);
  }
}

KernelText print_conv(const KernelRequest& request) {
  const ConvSizes n =
      conv_sizes(request.inputs[0].type.shape, request.inputs[1].type.shape, request.attrs);
  const int64_t channels = n.c / n.groups;
  KernelPrinter text(request);
  text.begin_elements("", request.outputs[0].type.elements());
  split_index(text, {{"ox", n.ow}, {"oy", n.oh}, {"o", n.o}});
  text.line("{} sum = 0;", sum_type(request));
  text.open("for (int t = 0; t < {}; ++t) {{", channels * n.kh * n.kw);
  text.line("const int kx = t % {0}, ky = t / {0} % {1}, c = t / {2};", n.kw, n.kh, n.kh * n.kw);
  text.line("const Index y = oy * {} - {} + ky * {}, x = ox * {} - {} + kx * {};", n.stride_y,
            n.top, n.dilation_y, n.stride_x, n.left, n.dilation_x);
  text.open("if (y >= 0 && y < {} && x >= 0 && x < {}) {{", n.h, n.w);
  text.line("const Index from = ((rest * {} + o / {} * {} + c) * {} + y) * {} + x;", n.c,
            n.o / n.groups, channels, n.h, n.w);
  text.line("sum += {}::load(in0[from]) * {}::load(in1[o * {} + t]);", text.in_format(0),
            text.in_format(1), channels * n.kh * n.kw);
  text.close();
  text.close();
  text.line("out0[i] = {}::store(sum);", text.out_format(0));
  text.end_elements();
  return text.finish();
}

KernelText print_input_grad(const KernelRequest& request) {
  const ConvSizes n =
      conv_sizes(request.outputs[0].type.shape, request.inputs[1].type.shape, request.attrs);
  const int64_t channels = n.c / n.groups, filters = n.o / n.groups;
  KernelPrinter text(request);
  text.begin_elements("", request.outputs[0].type.elements());
  split_index(text, {{"x", n.w}, {"y", n.h}, {"c", n.c}});
  text.line("{} sum = 0;", sum_type(request));
  text.open("for (int t = 0; t < {}; ++t) {{", filters * n.kh * n.kw);
  text.line("const int kx = t % {0}, ky = t / {0} % {1}, o = c / {2} * {3} + t / {4};", n.kw, n.kh,
            channels, filters, n.kh * n.kw);
  text.line("const Index ry = y + {} - ky * {}, rx = x + {} - kx * {};", n.top, n.dilation_y,
            n.left, n.dilation_x);
  text.line("const Index oy = ry / {0}, ox = rx / {1};", n.stride_y, n.stride_x);
  text.open("if (ry >= 0 && rx >= 0 && ry % {} == 0 && rx % {} == 0 && oy < {} && ox < {}) {{",
            n.stride_y, n.stride_x, n.oh, n.ow);
  text.line("const Index at = ((rest * {} + o) * {} + oy) * {} + ox;", n.o, n.oh, n.ow);
  text.line("const Index tap = ((Index(o) * {0} + c % {0}) * {1} + ky) * {2} + kx;", channels, n.kh,
            n.kw);
  text.line("sum += {}::load(in0[at]) * {}::load(in1[tap]);", text.in_format(0), text.in_format(1));
  text.close();
  text.close();
  text.line("out0[i] = {}::store(sum);", text.out_format(0));
  text.end_elements();
  return text.finish();
}

// A block for each element of the weight: sums run over all images.
KernelText print_weight_grad(const KernelRequest& request) {
  const ConvSizes n =
      conv_sizes(request.inputs[0].type.shape, request.outputs[0].type.shape, request.attrs);
  const int64_t channels = n.c / n.groups, filters = n.o / n.groups;
  KernelPrinter text(request);
  text.begin_blocks("", request.outputs[0].type.elements(), kThreadsOfKernel);
  text.line("const Index i = b;");
  split_index(text, {{"kx", n.kw}, {"ky", n.kh}, {"c", channels}});
  text.line("const Index o = rest;");
  text.line("{} sum = 0;", sum_type(request));
  text.open("for (Index t = thread; t < {}; t += {}) {{", n.n * n.oh * n.ow, kThreadsOfKernel);
  text.line("const Index ox = t % {0}, oy = t / {0} % {1}, image = t / {2};", n.ow, n.oh,
            n.oh * n.ow);
  text.line("const Index y = oy * {} - {} + ky * {}, x = ox * {} - {} + kx * {};", n.stride_y,
            n.top, n.dilation_y, n.stride_x, n.left, n.dilation_x);
  text.open("if (y >= 0 && y < {} && x >= 0 && x < {}) {{", n.h, n.w);
  text.line("const Index from = ((image * {} + o / {} * {} + c) * {} + y) * {} + x;", n.c, filters,
            channels, n.h, n.w);
  text.line("sum += {}::load(in0[from]) * {}::load(in1[((image * {} + o) * {} + oy) * {} + ox]);",
            text.in_format(0), text.in_format(1), n.o, n.oh, n.ow);
  text.close();
  text.close();
  text.line("sum = fold_block<Sum>(sum);");
  text.line("if (thread == 0) {{ out0[i] = {}::store(sum); }}", text.out_format(0));
  text.end_blocks();
  return text.finish();
}

// `from`, the place in x of tap `t` of the window of result (oy, ox) of `plane`, by its row `y` and column `x`.
void print_tap(KernelPrinter& text, const PoolSizes& n) {
  text.line("const Index y = oy * {} - {} + t / {}, x = ox * {} - {} + t % {};", n.stride_y, n.top,
            n.kw, n.stride_x, n.left, n.kw);
  text.line("const Index from = (plane * {} + y) * {} + x;", n.h, n.w);
}

// Opens the loop over the taps of that window which lie in x.
void open_window(KernelPrinter& text, const PoolSizes& n) {
  text.open("for (int t = 0; t < {}; ++t) {{", n.kh * n.kw);
  print_tap(text, n);
  text.line("if (y < 0 || y >= {} || x < 0 || x >= {}) {{ continue; }}", n.h, n.w);
}

// `best`, by the tap: places in x may be too many for its numbers.
void print_best(KernelPrinter& text, const PoolSizes& n) {
  text.line("Best<{}::Held, true> best;", text.in_format(0));
  open_window(text, n);
  text.line("best.take({}::load(in0[from]), t);", text.in_format(0));
  text.close();
}

KernelText print_pool(const KernelRequest& request) {
  const PoolSizes n = pool_sizes(request.inputs[0].type.shape, request.attrs);
  const bool greatest = request.op.name == "max_pool";
  KernelPrinter text(request, "fold.cuh");
  text.begin_elements("", request.outputs[0].type.elements());
  split_index(text, {{"ox", n.ow}, {"oy", n.oh}});
  text.line("const Index plane = rest;");
  if (greatest) {
    print_best(text, n);
    text.line("const int t = best.at;");
    print_tap(text, n);
    text.line("out0[i] = in0[from];");
  } else {
    text.line("{} sum = 0;", sum_type(request));
    open_window(text, n);
    text.line("sum += {}::load(in0[from]);", text.in_format(0));
    text.close();
    text.line("out0[i] = {}::store(sum / {}({}));", text.out_format(0), sum_type(request),
              n.kh * n.kw);
  }
  text.end_elements();
  return text.finish();
}

// A thread for each element of x: the windows that hold it, in their order.
KernelText print_pool_grad(const KernelRequest& request) {
  const bool greatest = request.op.name == "max_pool_grad";
  const PoolSizes n = pool_sizes(request.outputs[0].type.shape, request.attrs);
  const size_t g = greatest ? 1 : 0;
  KernelPrinter text(request, "fold.cuh");
  text.begin_elements("", request.outputs[0].type.elements());
  text.line("const Index own_x = i % {0}, own_y = i / {0} % {1}, plane = i / {2};", n.w, n.h,
            n.h * n.w);
  text.line("{} sum = 0;", sum_type(request));
  text.open("for (int w = 0; w < {}; ++w) {{", n.kh * n.kw);
  // Windows in ascending order: the last tap of the first window that holds the element comes first.
  text.line("const Index ry = own_y + {} - ({} - w / {}), rx = own_x + {} - ({} - w % {});", n.top,
            n.kh - 1, n.kw, n.left, n.kw - 1, n.kw);
  text.line("const Index oy = ry / {}, ox = rx / {};", n.stride_y, n.stride_x);
  text.line(
      "if (ry < 0 || rx < 0 || ry % {} != 0 || rx % {} != 0 || oy >= {} || ox >= {}) {{ "
      "continue; }}",
      n.stride_y, n.stride_x, n.oh, n.ow);
  text.line("const auto share = {}::load(in{}[(plane * {} + oy) * {} + ox]);", text.in_format(g), g,
            n.oh, n.ow);
  if (greatest) {
    print_best(text, n);
    text.line("sum += best.at == {} - w ? share : 0;", n.kh * n.kw - 1);
  } else {
    text.line("sum += share / {}({});", sum_type(request), n.kh * n.kw);
  }
  text.close();
  text.line("out0[i] = {}::store(sum);", text.out_format(0));
  text.end_elements();
  return text.finish();
}

}  // namespace

void add_image_texts(std::vector<TextEntry>& entries) {
  entries.push_back({"conv2d", print_conv});
  entries.push_back({"conv2d_input_grad", print_input_grad});
  entries.push_back({"conv2d_weight_grad", print_weight_grad});
  entries.push_back({"max_pool", print_pool});
  entries.push_back({"avg_pool", print_pool});
  entries.push_back({"max_pool_grad", print_pool_grad});
  entries.push_back({"avg_pool_grad", print_pool_grad});
}

}  // namespace mstrain::cuda
