// The update of AdamW in one pass over parameters, gradients and moments: of all parameters, as if they were one.
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/parallel.h"

namespace mstrain::cpu {
namespace {

constexpr size_t kIn = 4, kOut = 3,
                 kScalars = 4;  // tensors of a parameter; scalars after all of them

bool supports(const KernelRequest& request) {
  return std::all_of(request.inputs.begin(), request.inputs.end(),
                     [](const ViewType& view) { return view.type.dtype == Dtype::kF32; });
}

// Elements [begin, end) of a parameter.
struct Piece {
  size_t parameter;
  int64_t begin, end;
};

// The pieces of each thread: consecutive elements of all parameters, about as many for each.
std::vector<std::vector<Piece>> pieces_of(std::span<const ViewType> parameters, int64_t elements,
                                          int threads) {
  std::vector<std::vector<Piece>> pieces(static_cast<size_t>(threads));
  int64_t before = 0;
  for (size_t i = 0; i < parameters.size() / kOut; ++i) {
    const int64_t n = parameters[kOut * i].type.elements();
    for (int thread = 0; thread < threads; ++thread) {
      const Range range = chunk_of(elements, 16, thread, threads);
      // Within a parameter pieces meet at multiples of 16 as well.
      const auto cut = [&](int64_t at) {
        const int64_t inside = std::clamp<int64_t>(at - before, 0, n);
        return inside == n ? n : inside / 16 * 16;
      };
      if (cut(range.begin) < cut(range.end)) {
        pieces[static_cast<size_t>(thread)].push_back({i, cut(range.begin), cut(range.end)});
      }
    }
    before += n;
  }
  return pieces;
}

Kernel prepare(const KernelRequest& request) {
  int64_t elements = 0;
  for (size_t i = 0; i < request.outputs.size(); i += kOut) {
    elements += request.outputs[i].type.elements();
  }
  const int threads = useful_threads(request.threads, elements / kTile + 1, 4 * elements);
  AdamwFactors factors{};
  factors.beta1 = request.attrs.number("beta1");
  factors.beta2 = request.attrs.number("beta2");
  factors.eps = request.attrs.number("eps");
  factors.weight_decay = request.attrs.number("weight_decay");
  const auto decayed = static_cast<size_t>(request.attrs.integer("decayed"));
  Kernel kernel;
  kernel.run = [pieces = pieces_of(request.outputs, elements, threads), threads, factors,
                decayed](const KernelMemory& memory) {
    AdamwFactors f = factors;
    const auto scalars = memory.inputs.last(kScalars);
    f.lr = *static_cast<const float*>(scalars[0]);
    f.grad_scale = *static_cast<const float*>(scalars[1]);
    f.correction1 = *static_cast<const float*>(scalars[2]);
    f.correction2 = *static_cast<const float*>(scalars[3]);
    parallel_chunks(threads, threads, 1, [&](int64_t, int64_t, int thread) {
      for (const Piece& piece : pieces[static_cast<size_t>(thread)]) {
        const auto in = [&](size_t i) {
          return static_cast<const float*>(memory.inputs[kIn * piece.parameter + i]) + piece.begin;
        };
        const auto out = [&](size_t i) {
          return static_cast<float*>(memory.outputs[kOut * piece.parameter + i]) + piece.begin;
        };
        AdamwFactors own = f;
        own.weight_decay = piece.parameter < decayed ? f.weight_decay : 0;
        loops().other->adamw(piece.end - piece.begin, own, in(0), in(1), in(2), in(3), out(0),
                             out(1), out(2));
      }
    });
  };
  for (int i = 0; i < static_cast<int>(request.outputs.size() / kOut); ++i) {
    const int in = i * static_cast<int>(kIn), out = i * static_cast<int>(kOut);
    kernel.in_place.insert(kernel.in_place.end(),
                           {{out, in}, {out + 1, in + 2}, {out + 2, in + 3}});
  }
  return kernel;
}

}  // namespace

void register_adamw() {
  register_kernel(table(), "adamw", {.prepare = prepare, .supports = supports});
}

}  // namespace mstrain::cpu
