#include "core/ops/collective_kernels.h"

#include <algorithm>
#include <cstring>

#include "core/comm/sums.h"
#include "core/ir/halves.h"
#include "core/ops/collective.h"
#include "core/runtime/context.h"

namespace mstrain {
namespace {

Elements elements(void* data, const TensorType& type) {
  return {data, type.elements(), type.dtype};
}

void copy(void* to, const void* from, const TensorType& type) {
  if (to != from) {
    std::memcpy(to, from, static_cast<size_t>(type.bytes()));
  }
}

Kernel in_halves(
    decltype(Halves::start) start, decltype(Halves::finish) finish = [](const KernelMemory&) {}) {
  return {Halves{std::move(start), std::move(finish)}};
}

// Among one rank.
Kernel prepare_copy(const KernelRequest& request) {
  return {[type = request.inputs[0].type](const KernelMemory& m) {
    copy(m.outputs[0], m.inputs[0], type);
  }};
}

Kernel prepare_all_reduce(const KernelRequest& request) {
  const CollectiveCall call(request);
  if (call.alone()) {
    return prepare_copy(request);
  }
  return in_halves([call, reduction = reduction_of(request.attrs)](const KernelMemory& m) {
    return call.group().all_reduce(elements(m.inputs[0], call.in), elements(m.outputs[0], call.out),
                                   reduction, call.what);
  });
}

Kernel prepare_all_gather(const KernelRequest& request) {
  const CollectiveCall call(request);
  if (call.alone()) {
    return prepare_copy(request);
  }
  return in_halves([call](const KernelMemory& m) {
    return call.group().all_gather(elements(m.inputs[0], call.in), elements(m.outputs[0], call.out),
                                   call.equal_counts(call.in.elements()), call.what);
  });
}

// The parts of all ranks come here, and are added up in their order; where the order is free, on their way.
Kernel prepare_reduce_scatter(const KernelRequest& request) {
  const CollectiveCall call(request);
  const bool begun = request.inputs.size() == 2;
  const bool in_order = reduction_of(request.attrs) == Reduction::kSum;
  const TensorType part{call.in.dtype, call.out.shape};
  const auto add_up = [call, begun, part](const KernelMemory& m, const void* pieces,
                                          int64_t count) {
    std::vector<const void*> each;
    for (int64_t r = 0; r < count; ++r) {
      each.push_back(static_cast<const std::byte*>(pieces) + r * part.bytes());
    }
    reduce_in_order(Reduction::kSum, part.dtype, each,
                    begun ? elements(m.inputs[1], call.out) : Elements{},
                    elements(m.outputs[0], call.out));
  };
  std::vector<std::pair<int, int>> in_place;
  if (begun) {
    in_place = {{0, 1}};
  }
  if (call.alone()) {
    return {[add_up](const KernelMemory& m) { add_up(m, m.inputs[0], 1); }, 0, std::move(in_place)};
  }
  const std::vector<int64_t> counts = call.equal_counts(part.elements());
  Kernel kernel;
  if (in_order) {
    kernel = in_halves(
        [call, counts](const KernelMemory& m) {
          return call.group().all_to_all(elements(m.inputs[0], call.in),
                                         elements(m.workspace, call.in), counts, counts, call.what);
        },
        [add_up, size = call.axis.size](const KernelMemory& m) { add_up(m, m.workspace, size); });
  } else {
    kernel = in_halves(
        [call, counts, begun, part](const KernelMemory& m) {
          return call.group().reduce_scatter(elements(m.inputs[0], call.in),
                                             elements(begun ? m.workspace : m.outputs[0], part),
                                             counts, Reduction::kFastSum, call.what);
        },
        [add_up, begun](const KernelMemory& m) {
          if (begun) {
            add_up(m, m.workspace, 1);
          }
        });
  }
  kernel.in_place = std::move(in_place);
  kernel.workspace_bytes = in_order ? call.in.bytes() : begun ? part.bytes() : 0;
  return kernel;
}

Kernel prepare_all_to_all(const KernelRequest& request) {
  const CollectiveCall call(request);
  if (call.alone()) {
    return prepare_copy(request);
  }
  return in_halves([call, counts = call.equal_counts(call.in.elements() / call.axis.size)](
                       const KernelMemory& m) {
    return call.group().all_to_all(elements(m.inputs[0], call.in), elements(m.outputs[0], call.out),
                                   counts, counts, call.what);
  });
}

// Two events as one.
struct Both : Event::State {
  Both(Event first, Event second) : first(std::move(first)), second(std::move(second)) {}
  bool done() const override { return first.done() && second.done(); }
  void wait() override {
    first.settle();
    second.wait();
    first.wait();
  }
  Event first, second;
};

Kernel prepare_permute(const KernelRequest& request) {
  const CollectiveCall call(request);
  if (call.alone()) {
    return prepare_copy(request);
  }
  return in_halves([call, to = destinations_of(request.attrs)](const KernelMemory& m) {
    Communicator& group = call.group();
    const auto from = std::find(to.begin(), to.end(), group.rank()) - to.begin();
    const auto peer = static_cast<int>(to[static_cast<size_t>(group.rank())]);
    if (peer == group.rank()) {
      copy(m.outputs[0], m.inputs[0], call.in);
      return Event();
    }
    Event sent = group.send(elements(m.inputs[0], call.in), peer, call.what);
    Event received =
        group.receive(elements(m.outputs[0], call.out), static_cast<int>(from), call.what);
    return Event(std::make_shared<Both>(std::move(received), std::move(sent)));
  });
}

Kernel prepare_axis_index(const KernelRequest& request) {
  return {[call = CollectiveCall(request)](const KernelMemory& m) {
    *static_cast<int32_t*>(m.outputs[0]) = call.alone() ? 0 : call.group().rank();
  }};
}

}  // namespace

CollectiveCall::CollectiveCall(const KernelRequest& request)
    : axis(mstrain::axis_of(request.attrs)),
      ranks(axis.size == 1 ? nullptr : current_context().ranks),
      out(request.outputs[0].type),
      what(request.scope.empty() ? std::string(request.op.name)
                                 : fmt::format("{} {}", request.op.name, request.scope)) {
  if (!request.inputs.empty()) {
    in = request.inputs[0].type;
  }
}

Communicator& CollectiveCall::group() const {
  check(ranks != nullptr, "{}: the plan was made without ranks", what);
  Communicator& group = ranks->along(axis.name);
  check(group.size() == axis.size, "{}: the program is for {} ranks along {}, there are {}", what,
        axis.size, axis.name, group.size());
  return group;
}

std::vector<int64_t> CollectiveCall::equal_counts(int64_t each) const {
  return std::vector<int64_t>(static_cast<size_t>(axis.size), each);
}

void register_collectives(Backend& backend) {
  register_kernel(backend, "all_reduce", {.prepare = prepare_all_reduce, .in_place = {{0, 0}}});
  register_kernel(backend, "all_gather", {.prepare = prepare_all_gather});
  register_kernel(backend, "reduce_scatter", {.prepare = prepare_reduce_scatter});
  register_kernel(backend, "all_to_all", {.prepare = prepare_all_to_all});
  register_kernel(backend, "permute", {.prepare = prepare_permute});
  register_kernel(backend, "axis_index", {.prepare = prepare_axis_index});
}

}  // namespace mstrain
