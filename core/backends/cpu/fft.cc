// Fourier transforms of rows, through Eigen's copy of KISS FFT, in double: the sums of a long prime factor would lose
// too much in f32. Plans are made once for each thread.
#include <complex>
#include <memory>
#include <unsupported/Eigen/FFT>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/matrices.h"

namespace mstrain::cpu {
namespace {

// What one thread works with.
struct Worker {
  Eigen::FFT<double> plans;
  std::vector<std::complex<double>> from, to;
  std::vector<double> row;

  // Of real or complex rows. A single number is its own transform, which the library does not know.
  template <class To, class From>
  void forward(To* out, const From* in, int64_t n) {
    if (n == 1) {
      out[0] = in[0];
    } else {
      plans.fwd(out, in, n);
    }
  }
  void inverse(std::complex<double>* out, const std::complex<double>* in, int64_t n) {
    if (n == 1) {
      out[0] = in[0];
    } else {
      plans.inv(out, in, n);
    }
  }
  void inverse(double* out, const std::complex<double>* in, int64_t n) {
    if (n == 1) {
      out[0] = in[0].real();
    } else {
      plans.inv(out, in, n);
    }
  }
};

// Rows of n real or complex numbers, whose spectra have `frequencies` of them.
struct Rows {
  int64_t count = 0, n = 0, frequencies = 0;
  int threads = 1;
  std::shared_ptr<std::vector<Worker>> workers;

  Rows(const KernelRequest& request, const Shape& signal, const Shape& spectrum)
      : n(signal.back()), frequencies(spectrum.back()) {
    count = n == 0 ? 0 : signal.elements() / n;
    threads = useful_threads(request.threads, count, 20 * signal.elements());
    workers = std::make_shared<std::vector<Worker>>(static_cast<size_t>(threads));
    for (Worker& worker : *workers) {
      worker.plans.SetFlag(Eigen::FFT<double>::Unscaled);
      worker.plans.SetFlag(Eigen::FFT<double>::HalfSpectrum);
      worker.from.resize(static_cast<size_t>(n));
      worker.to.resize(static_cast<size_t>(n));
      worker.row.resize(static_cast<size_t>(n));
    }
  }

  // f(row, worker) for every row.
  template <class F>
  void for_each(const F& f) const {
    parallel_items(threads, count,
                   [&](int64_t i, int thread) { f(i, (*workers)[static_cast<size_t>(thread)]); });
  }
};

template <class T>
void gather(const void* re, const void* im, int64_t row, int64_t n, std::complex<double>* to) {
  const T* a = static_cast<const T*>(re) + row * n;
  const T* b = static_cast<const T*>(im) + row * n;
  for (int64_t j = 0; j < n; ++j) {
    to[j] = {a[j], b[j]};
  }
}

template <class T>
void scatter(const std::complex<double>* from, int64_t row, int64_t n, void* re, void* im) {
  T* a = static_cast<T*>(re) + row * n;
  T* b = static_cast<T*>(im) + row * n;
  for (int64_t j = 0; j < n; ++j) {
    a[j] = static_cast<T>(from[j].real());
    b[j] = static_cast<T>(from[j].imag());
  }
}

Kernel prepare_fft(const KernelRequest& request) {
  const Shape& shape = request.inputs[0].type.shape;
  const bool inverse = request.attrs.flag("inverse");
  return for_f64_or_f32(request, [&]<class T>(T) -> Kernel {
    return {[rows = Rows(request, shape, shape), inverse](const KernelMemory& memory) {
      rows.for_each([&](int64_t i, Worker& worker) {
        gather<T>(memory.inputs[0], memory.inputs[1], i, rows.n, worker.from.data());
        if (inverse) {
          worker.inverse(worker.to.data(), worker.from.data(), rows.n);
        } else {
          worker.forward(worker.to.data(), worker.from.data(), rows.n);
        }
        scatter<T>(worker.to.data(), i, rows.n, memory.outputs[0], memory.outputs[1]);
      });
    }};
  });
}

Kernel prepare_rfft(const KernelRequest& request) {
  const Shape& signal = request.inputs[0].type.shape;
  const Shape& spectrum = request.outputs[0].type.shape;
  return for_f64_or_f32(request, [&]<class T>(T) -> Kernel {
    return {[rows = Rows(request, signal, spectrum)](const KernelMemory& memory) {
      rows.for_each([&](int64_t i, Worker& worker) {
        const T* x = static_cast<const T*>(memory.inputs[0]) + i * rows.n;
        std::copy(x, x + rows.n, worker.row.begin());
        worker.forward(worker.to.data(), worker.row.data(), rows.n);
        scatter<T>(worker.to.data(), i, rows.frequencies, memory.outputs[0], memory.outputs[1]);
      });
    }};
  });
}

Kernel prepare_irfft(const KernelRequest& request) {
  const Shape& signal = request.outputs[0].type.shape;
  const Shape& spectrum = request.inputs[0].type.shape;
  return for_f64_or_f32(request, [&]<class T>(T) -> Kernel {
    return {[rows = Rows(request, signal, spectrum)](const KernelMemory& memory) {
      const double scale = 1 / static_cast<double>(rows.n);
      rows.for_each([&](int64_t i, Worker& worker) {
        std::complex<double>* x = worker.from.data();
        gather<T>(memory.inputs[0], memory.inputs[1], i, rows.frequencies, x);
        x[0].imag(0);
        if (rows.n % 2 == 0) {
          x[rows.frequencies - 1].imag(0);
        }
        worker.inverse(worker.row.data(), x, rows.n);
        T* y = static_cast<T*>(memory.outputs[0]) + i * rows.n;
        for (int64_t j = 0; j < rows.n; ++j) {
          y[j] = static_cast<T>(worker.row[static_cast<size_t>(j)] * scale);
        }
      });
    }};
  });
}

}  // namespace

void register_fft() {
  const auto add = [](std::string_view op, Kernel (*prepare)(const KernelRequest&)) {
    register_kernel(table(), op, {.prepare = prepare, .supports = is_f64_or_f32});
  };
  add("fft", prepare_fft);
  add("rfft", prepare_rfft);
  add("irfft", prepare_irfft);
}

}  // namespace mstrain::cpu
