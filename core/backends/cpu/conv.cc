// conv2d and its gradients in f32 by oneDNN, in the memory layouts that it likes best; tensors are reordered on the way
// in and out where these are not ours.
#include <cstring>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/onednn.h"
#include "core/ops/conv.h"

namespace mstrain::cpu {
namespace {

using dnnl::memory;

memory::desc plain(const memory::dims& dims) {
  memory::dims strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i > 0; --i) {
    strides[i - 1] = strides[i] * dims[i];
  }
  return {dims, memory::data_type::f32, strides};
}
memory::desc any(const memory::dims& dims) {
  return {dims, memory::data_type::f32, memory::format_tag::any};
}

struct Geometry {
  memory::dims x, weight, y, stride, dilation, before, after;

  Geometry(const Shape& x_shape, const Shape& weight_shape, const Attrs& attrs) {
    const ConvSizes n = conv_sizes(x_shape, weight_shape, attrs);
    const Shape& padding = attrs.ints("padding");
    x = {n.n, n.c, n.h, n.w};
    y = {n.n, n.o, n.oh, n.ow};
    weight = {n.o, n.c / n.groups, n.kh, n.kw};
    if (n.groups > 1) {
      weight[0] /= n.groups;
      weight.insert(weight.begin(), n.groups);
    }
    stride = {n.stride_y, n.stride_x};
    dilation = {n.dilation_y - 1, n.dilation_x - 1};  // 0: neighbouring taps
    before = {padding[0], padding[2]};
    after = {padding[1], padding[3]};
  }
  dnnl::convolution_forward::primitive_desc forward() const {
    return {{dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, any(x),
             any(weight), any(y), stride, dilation, before, after},
            onednn_attributes(),
            onednn_engine()};
  }
};

// A tensor of the primitive: in our layout, or in its own in the workspace.
struct Side {
  std::shared_ptr<OneDnnCall> reorder;  // null where the layouts are one
  int64_t offset = -1;
};

class Convolution {
 public:
  Convolution(const dnnl::primitive& primitive, const memory::desc& scratch, int threads)
      : primitive_(primitive), threads_(threads), scratch_(scratch) {}

  void add(int argument, const memory::dims& dims, const memory::desc& wanted, bool is_output) {
    const memory::desc ours = plain(dims);
    Side side;
    if (!(ours == wanted)) {
      const memory::desc& from = is_output ? wanted : ours;
      const memory::desc& to = is_output ? ours : wanted;
      const dnnl::reorder::primitive_desc desc(onednn_engine(), from, onednn_engine(), to,
                                               onednn_attributes());
      std::vector<OneDnnArgument> arguments = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
      if (desc.scratchpad_desc().get_size() > 0) {
        arguments.push_back({DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()});
      }
      reorder_scratch_ =
          std::max(reorder_scratch_, static_cast<int64_t>(desc.scratchpad_desc().get_size()));
      side.reorder = std::make_shared<OneDnnCall>(dnnl::reorder(desc), arguments, threads_);
      side.offset = workspace_;
      workspace_ += (static_cast<int64_t>(wanted.get_size()) + 63) / 64 * 64;
    }
    sides_.push_back(side);
    arguments_.push_back({argument, wanted});
  }

  // Inputs were added first, in order; then the output.
  Kernel kernel() {
    const auto scratch_bytes = static_cast<int64_t>(scratch_.get_size());
    if (scratch_bytes > 0) {
      arguments_.push_back({DNNL_ARG_SCRATCHPAD, scratch_});
    }
    auto call = std::make_shared<OneDnnCall>(primitive_, arguments_, threads_);
    return {[call, sides = sides_, end = workspace_](const KernelMemory& memory) {
              std::byte* const base = static_cast<std::byte*>(memory.workspace);
              const auto place = [&](size_t i, void* given) {
                return sides[i].reorder == nullptr ? given : base + sides[i].offset;
              };
              for (size_t i = 0; i < 2; ++i) {
                if (sides[i].reorder != nullptr) {
                  sides[i].reorder->run({memory.inputs[i], place(i, nullptr), base + end});
                }
              }
              call->run({place(0, memory.inputs[0]), place(1, memory.inputs[1]),
                         place(2, memory.outputs[0]), base + end});
              if (sides[2].reorder != nullptr) {
                sides[2].reorder->run({place(2, nullptr), memory.outputs[0], base + end});
              }
            },
            workspace_ + std::max(scratch_bytes, reorder_scratch_)};
  }

 private:
  dnnl::primitive primitive_;
  int threads_;
  memory::desc scratch_;
  std::vector<Side> sides_;
  std::vector<OneDnnArgument> arguments_;
  int64_t workspace_ = 0;
  int64_t reorder_scratch_ = 0;
};

bool supports(const KernelRequest& request) { return request.inputs[0].type.dtype == Dtype::kF32; }

// Runs `make`, unless there is nothing to sum.
template <class Make>
Kernel prepare_with(const KernelRequest& request, Make&& make) {
  if (request.inputs[0].type.elements() == 0 || request.inputs[1].type.elements() == 0) {
    return {[bytes = static_cast<size_t>(request.outputs[0].type.bytes())](
                const KernelMemory& memory) { std::memset(memory.outputs[0], 0, bytes); }};
  }
  const TeamSize team(request.threads);
  try {
    return make();
  } catch (const dnnl::error& error) {
    fail("{}: oneDNN: {}", request.op.name, error.what());
  }
}

Kernel prepare_forward(const KernelRequest& request) {
  return prepare_with(request, [&] {
    const Geometry n(request.inputs[0].type.shape, request.inputs[1].type.shape, request.attrs);
    const auto desc = n.forward();
    Convolution conv(dnnl::convolution_forward(desc), desc.scratchpad_desc(), request.threads);
    conv.add(DNNL_ARG_SRC, n.x, desc.src_desc(), false);
    conv.add(DNNL_ARG_WEIGHTS, n.weight, desc.weights_desc(), false);
    conv.add(DNNL_ARG_DST, n.y, desc.dst_desc(), true);
    return conv.kernel();
  });
}

Kernel prepare_input_grad(const KernelRequest& request) {
  return prepare_with(request, [&] {
    const Geometry n(request.attrs.ints("input_shape"), request.inputs[1].type.shape,
                     request.attrs);
    const dnnl::convolution_backward_data::primitive_desc desc(
        {dnnl::algorithm::convolution_direct, any(n.x), any(n.weight), any(n.y), n.stride,
         n.dilation, n.before, n.after},
        onednn_attributes(), onednn_engine(), n.forward());
    Convolution conv(dnnl::convolution_backward_data(desc), desc.scratchpad_desc(),
                     request.threads);
    conv.add(DNNL_ARG_DIFF_DST, n.y, desc.diff_dst_desc(), false);
    conv.add(DNNL_ARG_WEIGHTS, n.weight, desc.weights_desc(), false);
    conv.add(DNNL_ARG_DIFF_SRC, n.x, desc.diff_src_desc(), true);
    return conv.kernel();
  });
}

Kernel prepare_weight_grad(const KernelRequest& request) {
  return prepare_with(request, [&] {
    const Geometry n(request.inputs[0].type.shape, request.attrs.ints("weight_shape"),
                     request.attrs);
    const dnnl::convolution_backward_weights::primitive_desc desc(
        {dnnl::algorithm::convolution_direct, any(n.x), any(n.weight), any(n.y), n.stride,
         n.dilation, n.before, n.after},
        onednn_attributes(), onednn_engine(), n.forward());
    Convolution conv(dnnl::convolution_backward_weights(desc), desc.scratchpad_desc(),
                     request.threads);
    conv.add(DNNL_ARG_SRC, n.x, desc.src_desc(), false);
    conv.add(DNNL_ARG_DIFF_DST, n.y, desc.diff_dst_desc(), false);
    conv.add(DNNL_ARG_DIFF_WEIGHTS, n.weight, desc.diff_weights_desc(), true);
    return conv.kernel();
  });
}

}  // namespace

void register_conv() {
  register_kernel(table(), "conv2d", {.prepare = prepare_forward, .supports = supports});
  register_kernel(table(), "conv2d_input_grad",
                  {.prepare = prepare_input_grad, .supports = supports});
  register_kernel(table(), "conv2d_weight_grad",
                  {.prepare = prepare_weight_grad, .supports = supports});
}

}  // namespace mstrain::cpu
