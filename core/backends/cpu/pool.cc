// max_pool and avg_pool of images [n, c, h, w] and their gradients, for f32 and f64; one plane is one piece of work.
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/parallel.h"
#include "core/ops/conv.h"

namespace mstrain::cpu {
namespace {

// The part of a window that lies inside of the image.
struct Window {
  int64_t y0, y1, x0, x1;
  Window(const PoolSizes& n, int64_t oy, int64_t ox)
      : y0(oy * n.stride_y - n.top),
        y1(std::min(y0 + n.kh, n.h)),
        x0(ox * n.stride_x - n.left),
        x1(std::min(x0 + n.kw, n.w)) {
    y0 = std::max<int64_t>(y0, 0);
    x0 = std::max<int64_t>(x0, 0);
  }
};

// The first maximum of the window; NaN is the maximum.
template <class T>
int64_t place_of_maximum(const PoolSizes& n, const Window& w, const T* x) {
  int64_t best = w.y0 * n.w + w.x0;
  for (int64_t y = w.y0; y < w.y1; ++y) {
    for (int64_t column = w.x0; column < w.x1; ++column) {
      const T value = x[y * n.w + column];
      const T leader = x[best];
      if (leader == leader && (value != value || value > leader)) {
        best = y * n.w + column;
      }
    }
  }
  return best;
}

template <class T>
void max_plane(const PoolSizes& n, const T* x, T* y) {
  for (int64_t at = 0; at < n.oh * n.ow; ++at) {
    y[at] = x[place_of_maximum(n, Window(n, at / n.ow, at % n.ow), x)];
  }
}

template <class T>
void max_grad_plane(const PoolSizes& n, const T* x, const T* g, T* dx) {
  std::fill_n(dx, n.h * n.w, T(0));
  for (int64_t at = 0; at < n.oh * n.ow; ++at) {
    dx[place_of_maximum(n, Window(n, at / n.ow, at % n.ow), x)] += g[at];
  }
}

template <class T>
void avg_plane(const PoolSizes& n, const T* x, T* y) {
  const T share = T(1) / static_cast<T>(n.kh * n.kw);
  for (int64_t at = 0; at < n.oh * n.ow; ++at) {
    const Window w(n, at / n.ow, at % n.ow);
    T sum = 0;
    for (int64_t row = w.y0; row < w.y1; ++row) {
      for (int64_t column = w.x0; column < w.x1; ++column) {
        sum += x[row * n.w + column];
      }
    }
    y[at] = sum * share;
  }
}

template <class T>
void avg_grad_plane(const PoolSizes& n, const T* g, T* dx) {
  const T share = T(1) / static_cast<T>(n.kh * n.kw);
  std::fill_n(dx, n.h * n.w, T(0));
  for (int64_t at = 0; at < n.oh * n.ow; ++at) {
    const Window w(n, at / n.ow, at % n.ow);
    for (int64_t row = w.y0; row < w.y1; ++row) {
      for (int64_t column = w.x0; column < w.x1; ++column) {
        dx[row * n.w + column] += g[at] * share;
      }
    }
  }
}

bool supports(const KernelRequest& request) {
  const Dtype dtype = request.inputs[0].type.dtype;
  return dtype == Dtype::kF32 || dtype == Dtype::kF64;
}

// Calls f<T>(plane) for every plane. `image`: the shape of x.
template <class F>
Kernel over_planes(const KernelRequest& request, const Shape& image, F f) {
  const PoolSizes n = pool_sizes(image, request.attrs);
  const int64_t planes = n.n * n.c;
  const int threads = useful_threads(request.threads, planes, planes * n.oh * n.ow * n.kh * n.kw);
  const auto make = [&]<class T>(T) -> Kernel {
    return {[n, planes, threads, f](const KernelMemory& memory) {
      parallel_chunks(threads, planes, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t plane = begin; plane < end; ++plane) {
          f(T{}, n, plane, memory);
        }
      });
    }};
  };
  return request.inputs[0].type.dtype == Dtype::kF64 ? make(double{}) : make(float{});
}

template <class T>
const T* input(const KernelMemory& memory, size_t i, int64_t offset) {
  return static_cast<const T*>(memory.inputs[i]) + offset;
}
template <class T>
T* output(const KernelMemory& memory, int64_t offset) {
  return static_cast<T*>(memory.outputs[0]) + offset;
}

Kernel prepare_max(const KernelRequest& request) {
  return over_planes(request, request.inputs[0].type.shape,
                     []<class T>(T, const PoolSizes& n, int64_t plane, const KernelMemory& memory) {
                       max_plane(n, input<T>(memory, 0, plane * n.h * n.w),
                                 output<T>(memory, plane * n.oh * n.ow));
                     });
}
Kernel prepare_max_grad(const KernelRequest& request) {
  return over_planes(request, request.inputs[0].type.shape,
                     []<class T>(T, const PoolSizes& n, int64_t plane, const KernelMemory& memory) {
                       max_grad_plane(n, input<T>(memory, 0, plane * n.h * n.w),
                                      input<T>(memory, 1, plane * n.oh * n.ow),
                                      output<T>(memory, plane * n.h * n.w));
                     });
}
Kernel prepare_avg(const KernelRequest& request) {
  return over_planes(request, request.inputs[0].type.shape,
                     []<class T>(T, const PoolSizes& n, int64_t plane, const KernelMemory& memory) {
                       avg_plane(n, input<T>(memory, 0, plane * n.h * n.w),
                                 output<T>(memory, plane * n.oh * n.ow));
                     });
}
Kernel prepare_avg_grad(const KernelRequest& request) {
  return over_planes(request, request.outputs[0].type.shape,
                     []<class T>(T, const PoolSizes& n, int64_t plane, const KernelMemory& memory) {
                       avg_grad_plane(n, input<T>(memory, 0, plane * n.oh * n.ow),
                                      output<T>(memory, plane * n.h * n.w));
                     });
}

}  // namespace

void register_pool() {
  register_kernel(table(), "max_pool", {.prepare = prepare_max, .supports = supports});
  register_kernel(table(), "max_pool_grad", {.prepare = prepare_max_grad, .supports = supports});
  register_kernel(table(), "avg_pool", {.prepare = prepare_avg, .supports = supports});
  register_kernel(table(), "avg_pool_grad", {.prepare = prepare_avg_grad, .supports = supports});
}

}  // namespace mstrain::cpu
