#include <algorithm>

#include "core/comm/mesh.h"
#include "core/compile/passes.h"
#include "core/compile/widen.h"
#include "core/exec/execute.h"
#include "core/ir/error_place.h"
#include "core/ir/fallback.h"
#include "core/ops/build.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"

namespace mstrain {
namespace {

// The value without its place in a trace, so that what runs on it is not recorded.
Tensor untraced(const Tensor& x) { return {x.type(), x.buffer(), x.offset(), x.strides()}; }

// A kernel prepared for what is asked; the last ones are kept.
struct CachedKernel {
  const OpDef* op;
  Attrs attrs;
  std::vector<ViewType> inputs;
  std::vector<ViewType> outputs;
  int threads;
  bool batch_invariant;
  const Backend* backend;
  const Device* device;
  std::shared_ptr<const Kernel> kernel;
};

class KernelCache {
 public:
  // Kernels are called by one thread at a time, which is another one for each device.
  const std::shared_ptr<const Kernel>& find(const KernelEntry& entry, const KernelRequest& request,
                                            const Backend* backend, const Device& device) {
    uint64_t hash = hash_combine(reinterpret_cast<uintptr_t>(&request.op), request.attrs.hash());
    for (const auto& views : {request.inputs, request.outputs}) {
      for (const ViewType& view : views) {
        hash = hash_combine(hash, static_cast<uint64_t>(view.type.dtype));
        for (int i = 0; i < view.type.shape.rank(); ++i) {
          hash = hash_combine(hash, static_cast<uint64_t>(view.type.shape[i]));
          hash = hash_combine(hash, static_cast<uint64_t>(view.strides[i]));
        }
      }
    }
    hash = hash_combine(hash, static_cast<uint64_t>(2 * request.threads + request.batch_invariant));
    hash = hash_combine(hash, reinterpret_cast<uintptr_t>(backend));
    const auto [begin, end] = kernels_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      const CachedKernel& cached = it->second;
      if (cached.op == &request.op && cached.threads == request.threads &&
          cached.batch_invariant == request.batch_invariant && cached.backend == backend &&
          cached.device == &device && cached.attrs == request.attrs &&
          std::ranges::equal(cached.inputs, request.inputs) &&
          std::ranges::equal(cached.outputs, request.outputs)) {
        return cached.kernel;
      }
    }
    if (kernels_.size() >= kLimit) {
      kernels_.clear();
    }
    const auto added =
        kernels_.emplace(hash, CachedKernel{&request.op,
                                            request.attrs,
                                            {request.inputs.begin(), request.inputs.end()},
                                            {request.outputs.begin(), request.outputs.end()},
                                            request.threads,
                                            request.batch_invariant,
                                            backend,
                                            &device,
                                            std::make_shared<Kernel>(entry.prepare(request))});
    return added->second.kernel;
  }

 private:
  static constexpr size_t kLimit = 4096;
  std::unordered_multimap<uint64_t, CachedKernel> kernels_;
};

// Element `index` of a dense tensor.
std::byte* at(const Tensor& x, int64_t index) {
  return x.buffer().data() + (x.offset() + index) * size_of(x.dtype());
}

Tensors run_scan(const LoopForm& loop, std::span<const Tensor> inputs, const Types& outputs) {
  const Graph& body = *loop.body;
  const auto carries = static_cast<size_t>(loop.carries);
  const size_t fixed = carries + static_cast<size_t>(loop.constants);
  const int64_t length = loop.length;
  const size_t ys = body.outputs().size() - carries;
  Tensors arguments(inputs.begin(), inputs.end());
  Tensors results;
  for (const TensorType& type : outputs) {
    results.push_back(uninitialised(type));
  }
  const auto store = [&](size_t output, int64_t index, const Tensor& value) {
    const Tensor whole = dense(value);
    const Tensor& result = results[output];
    Submission work(result.buffer().device());
    work.reads(whole.buffer());
    work.reads(result.buffer());  // what the other steps gave: without it there is no result
    work.writes(result.buffer());
    work.queue().copy(at(result, index * whole.elements()), at(whole, 0), whole.type().bytes());
    work.finish();
  };
  for (int64_t t = 0; t < length; ++t) {
    const int64_t index = loop.reverse ? length - 1 - t : t;
    for (size_t i = fixed; i < arguments.size(); ++i) {
      arguments[i] = select(inputs[i], 0, index);
    }
    if (loop.keep_carries) {
      for (size_t i = 0; i < carries; ++i) {
        store(carries + ys + i, index, arguments[i]);
      }
    }
    const Tensors next = replay(body, arguments);
    for (size_t i = 0; i < ys; ++i) {
      store(carries + i, index, next[carries + i]);
    }
    std::copy_n(next.begin(), carries, arguments.begin());
  }
  std::copy_n(arguments.begin(), carries, results.begin());
  return results;
}

Tensors run_while(const LoopForm& loop, std::span<const Tensor> inputs) {
  const Graph& body = *loop.body;
  const Graph& condition = *loop.condition;
  Tensors arguments(inputs.begin(), inputs.end());
  while (item(replay(condition, arguments)[0]) != 0) {
    const Tensors next = replay(body, arguments);
    std::copy(next.begin(), next.end(), arguments.begin());
  }
  arguments.resize(body.outputs().size());
  return arguments;
}

}  // namespace

Tensors evaluate_eagerly(const OpDef& op, std::span<const Tensor> given, const Attrs& attrs,
                         const Types& types) {
  Tensors inputs;
  for (const Tensor& x : given) {
    inputs.push_back(untraced(x));
  }
  if (op.loop != nullptr) {
    const LoopForm loop = op.loop(attrs);
    return loop.condition == nullptr ? run_scan(loop, inputs, types) : run_while(loop, inputs);
  }
  std::vector<ViewType> in;
  for (const Tensor& x : inputs) {
    in.push_back(x.view());
  }
  if (op.alias != nullptr) {
    Tensors views;
    for (size_t i = 0; i < types.size(); ++i) {
      const auto alias = op.alias(attrs, in, i);
      if (!alias) {
        break;
      }
      const Tensor& from = inputs[alias->input];
      views.push_back({types[i], from.buffer(), from.offset() + alias->offset, alias->strides});
    }
    if (views.size() == types.size()) {
      return views;
    }
  }

  const Context& context = current_context();
  const int threads = context.num_threads();
  const Backend* const backend = context.backend;
  backend->prepare_threads(threads);
  std::vector<ViewType> out;
  for (const TensorType& type : types) {
    out.push_back(ViewType::dense(type));
  }
  const KernelRequest wanted{
      op, attrs, in, out, threads, 0, NameScope::path(), context.batch_invariant};
  const KernelEntry* entry = usable_kernel(backend, wanted);
  if (entry == nullptr) {
    if (auto wide = apply_widened(op, inputs, attrs, types, backend, SourceLocation::current())) {
      return std::move(*wide);
    }
    if (op.decompose != nullptr) {
      if (Tensors results = op.decompose(attrs, inputs); !results.empty()) {
        return results;
      }
    }
    entry = &fallback_kernel(backend, wanted);
  }
  if (!entry->strided_inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = dense(inputs[i]);
      in[i] = inputs[i].view();
    }
  }
  thread_local KernelCache cache;
  const std::shared_ptr<const Kernel> kernel =
      op.among_ranks ? std::make_shared<const Kernel>(entry->prepare(wanted))
                     : cache.find(*entry, wanted, backend, context.device());

  Tensors results;
  std::vector<void*> in_addresses;
  std::vector<void*> out_addresses;
  for (const TensorType& type : types) {
    results.push_back(uninitialised(type));
  }
  const Buffer workspace = kernel->workspace_bytes > 0
                               ? Buffer::allocate(context.allocator, kernel->workspace_bytes)
                               : Buffer();
  Submission work(context.device());
  for (const Tensor& x : inputs) {
    check_device(x, context.device());
    work.reads(x.buffer());
    in_addresses.push_back(kernel_address(x));
  }
  for (const Tensor& result : results) {
    work.writes(result.buffer());
    out_addresses.push_back(kernel_address(result));
  }
  if (workspace) {
    work.writes(workspace);
  }
  Ranks* const ranks = op.among_ranks ? context.ranks.get() : nullptr;
  if (ranks != nullptr) {
    work.queue().wait(ranks->last_work, false);
  }
  if (backend->computes) {
    const SourceLocation* const where = WhereScope::current();
    in_turn(work.queue(), [kernel, backend, threads, queue = &work.queue(),
                           where = where == nullptr ? SourceLocation() : *where,
                           from = std::move(in_addresses), to = std::move(out_addresses),
                           scratch = context.device().kernel_address(workspace.data())] {
      backend->prepare_threads(threads);
      placing_errors(where, [&] { kernel->run({from, to, scratch, nullptr, queue}); });
    });
  }
  const Event end = work.finish();
  if (ranks != nullptr) {
    ranks->last_work = end;
  }
  return results;
}

}  // namespace mstrain
