#include "core/ops/collective_kernels.h"

#include <cstring>

#include "core/comm/sums.h"
#include "core/ops/collective.h"
#include "core/runtime/context.h"

namespace mstrain {
namespace {

// What one application needs whenever it runs.
struct Call {
  MeshAxis axis;
  std::shared_ptr<Ranks>
      ranks;  // null where the axis has one rank, and where a plan is made without ranks
  TensorType in, out;
  std::string what;

  explicit Call(const KernelRequest& request)
      : axis(mstrain::axis_of(request.attrs)),
        ranks(axis.size == 1 ? nullptr : current_context().ranks),
        out(request.outputs[0].type),
        what(request.scope.empty() ? std::string(request.op.name)
                                   : fmt::format("{} {}", request.op.name, request.scope)) {
    if (!request.inputs.empty()) {
      in = request.inputs[0].type;
    }
  }

  bool alone() const { return axis.size == 1; }
  Communicator& group() const {
    check(ranks != nullptr, "{}: the plan was made without ranks", what);
    Communicator& group = ranks->along(axis.name);
    check(group.size() == axis.size, "{}: the program is for {} ranks along {}, there are {}", what,
          axis.size, axis.name, group.size());
    return group;
  }
  std::vector<int64_t> equal_counts(int64_t each) const {
    return std::vector<int64_t>(static_cast<size_t>(axis.size), each);
  }
};

Elements elements(void* data, const TensorType& type) {
  return {data, type.elements(), type.dtype};
}

void copy(void* to, const void* from, const TensorType& type) {
  if (to != from) {
    std::memcpy(to, from, static_cast<size_t>(type.bytes()));
  }
}

Kernel prepare_all_reduce(const KernelRequest& request) {
  return {[call = Call(request), reduction = reduction_of(request.attrs)](const KernelMemory& m) {
    if (call.alone()) {
      copy(m.outputs[0], m.inputs[0], call.in);
      return;
    }
    call.group()
        .all_reduce(elements(m.inputs[0], call.in), elements(m.outputs[0], call.out), reduction,
                    call.what)
        .wait();
  }};
}

Kernel prepare_all_gather(const KernelRequest& request) {
  return {[call = Call(request)](const KernelMemory& m) {
    if (call.alone()) {
      copy(m.outputs[0], m.inputs[0], call.in);
      return;
    }
    call.group()
        .all_gather(elements(m.inputs[0], call.in), elements(m.outputs[0], call.out),
                    call.equal_counts(call.in.elements()), call.what)
        .wait();
  }};
}

// The parts of all ranks come here, and are added up in their order; where the order is free, on their way.
Kernel prepare_reduce_scatter(const KernelRequest& request) {
  Call call(request);
  const bool begun = request.inputs.size() == 2;
  const bool in_order = reduction_of(request.attrs) == Reduction::kSum;
  const TensorType part{call.in.dtype, call.out.shape};
  Kernel kernel;
  kernel.workspace_bytes = call.alone() ? 0 : in_order ? call.in.bytes() : part.bytes();
  kernel.run = [call = std::move(call), begun, in_order, part](const KernelMemory& m) {
    const Elements out = elements(m.outputs[0], call.out);
    const Elements initial = begun ? elements(m.inputs[1], call.out) : Elements{};
    const auto add_up = [&](const void* pieces, int64_t count) {
      std::vector<const void*> each;
      for (int64_t r = 0; r < count; ++r) {
        each.push_back(static_cast<const std::byte*>(pieces) + r * part.bytes());
      }
      reduce_in_order(Reduction::kSum, part.dtype, each, initial, out);
    };
    if (call.alone()) {
      add_up(m.inputs[0], 1);
      return;
    }
    const std::vector<int64_t> counts = call.equal_counts(part.elements());
    if (in_order) {
      call.group()
          .all_to_all(elements(m.inputs[0], call.in), elements(m.workspace, call.in), counts,
                      counts, call.what)
          .wait();
      add_up(m.workspace, call.axis.size);
      return;
    }
    call.group()
        .reduce_scatter(elements(m.inputs[0], call.in),
                        elements(begun ? m.workspace : m.outputs[0], part), counts,
                        Reduction::kFastSum, call.what)
        .wait();
    if (begun) {
      add_up(m.workspace, 1);
    }
  };
  return kernel;
}

Kernel prepare_all_to_all(const KernelRequest& request) {
  return {[call = Call(request)](const KernelMemory& m) {
    if (call.alone()) {
      copy(m.outputs[0], m.inputs[0], call.in);
      return;
    }
    const std::vector<int64_t> counts = call.equal_counts(call.in.elements() / call.axis.size);
    call.group()
        .all_to_all(elements(m.inputs[0], call.in), elements(m.outputs[0], call.out), counts,
                    counts, call.what)
        .wait();
  }};
}

Kernel prepare_shift(const KernelRequest& request) {
  return {[call = Call(request), by = request.attrs.integer("by")](const KernelMemory& m) {
    const int64_t size = call.axis.size;
    const int64_t distance = (by % size + size) % size;
    if (distance == 0) {
      copy(m.outputs[0], m.inputs[0], call.in);
      return;
    }
    Communicator& group = call.group();
    const auto peer = [&](int64_t away) {
      return static_cast<int>((group.rank() + away + size) % size);
    };
    const Event sent = group.send(elements(m.inputs[0], call.in), peer(distance), call.what);
    const Event received =
        group.receive(elements(m.outputs[0], call.out), peer(-distance), call.what);
    received.wait();
    sent.wait();
  }};
}

Kernel prepare_axis_index(const KernelRequest& request) {
  return {[call = Call(request)](const KernelMemory& m) {
    *static_cast<int32_t*>(m.outputs[0]) = call.alone() ? 0 : call.group().rank();
  }};
}

}  // namespace

void register_collectives(Backend& backend) {
  register_kernel(backend, "all_reduce", {.prepare = prepare_all_reduce, .in_place = {{0, 0}}});
  register_kernel(backend, "all_gather", {.prepare = prepare_all_gather});
  register_kernel(backend, "reduce_scatter",
                  {.prepare = prepare_reduce_scatter, .in_place = {{0, 1}}});
  register_kernel(backend, "all_to_all", {.prepare = prepare_all_to_all});
  register_kernel(backend, "shift", {.prepare = prepare_shift});
  register_kernel(backend, "axis_index", {.prepare = prepare_axis_index});
}

}  // namespace mstrain
