// The handle that users, models and rules hold: a value in memory, a node of the program being recorded, or both.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>

#include "core/ir/graph.h"
#include "core/runtime/buffer.h"

namespace mstrain {

class Index;
class Trace;

// A cheap immutable value. Copies share memory; no operation changes a tensor that the user can see.
class Tensor {
 public:
  Tensor() = default;  // no value; in derivative rules: zero
  // A tensor in memory: element (i, j, …) lies `offset + i * strides[0] + …` elements from the buffer's start.
  Tensor(TensorType type, Buffer buffer, int64_t offset, const Shape& strides);

  // Whether it is a tensor at all: false for Tensor().
  bool defined() const { return impl_ != nullptr; }
  // The value of a bool with one element: `if (loss < best)`. Throws for any other tensor, and where there is no value
  // yet, naming the line that computes it: inside jit, vmap and loops only the program is recorded.
  explicit operator bool() const;

  const TensorType& type() const { return impl_->type; }
  Dtype dtype() const { return impl_->type.dtype; }
  const Shape& shape() const { return impl_->type.shape; }
  int rank() const { return impl_->type.shape.rank(); }
  // Counts from the end where it is negative; throws where there is no such dim.
  int64_t dim(int axis, const SourceLocation& where = SourceLocation::current()) const {
    const int at = axis < 0 ? axis + rank() : axis;
    if (at < 0 || at >= rank()) [[unlikely]] {
      no_such_dim(axis, where);
    }
    return shape()[at];
  }
  int64_t elements() const { return impl_->type.elements(); }

  // Parts of the tensor, as NumPy writes them (core/ops/slicing.h): x[-1], x[Slice{1, 3}], x[{kAll, 0}].
  Tensor operator[](const Index& index) const;
  Tensor operator[](std::initializer_list<Index> indices) const;

  // Whether the elements are in memory (always in eager mode, never inside jit).
  bool concrete() const { return impl_ != nullptr && static_cast<bool>(impl_->buffer); }
  const Buffer& buffer() const { return impl_->buffer; }
  const Shape& strides() const { return impl_->strides; }
  int64_t offset() const { return impl_->offset; }
  ViewType view() const { return {type(), strides()}; }

  // The node that computes it in `trace`, if it was recorded there.
  std::optional<Value> value_in(const Trace& trace) const;
  // Whether it belongs to a trace that is still open.
  bool traced() const;
  // Whether this handle alone holds the memory, all of it, so that it may be written, and after what other threads that
  // held it did.
  bool sole_owner() const {
    const bool sole = impl_.use_count() == 1 && impl_->buffer.unique() && impl_->offset == 0 &&
                      view().contiguous();
    std::atomic_thread_fence(std::memory_order_acquire);
    return sole;
  }
  // Equal for copies of one handle.
  const void* identity() const { return impl_.get(); }

 private:
  friend class Trace;
  [[noreturn]] void no_such_dim(int axis, const SourceLocation& where) const;
  struct Impl {
    TensorType type;
    Buffer buffer;
    int64_t offset = 0;
    Shape strides;
    uint64_t trace = 0;  // id of the trace that `value` belongs to; 0: none
    Value value;
  };
  std::shared_ptr<const Impl> impl_;
};

// A program being recorded on this thread. Traces nest; the innermost one records.
//
// A recording trace runs each operation as well, so that its tensors are concrete (grad in eager mode). An abstract
// trace only records (jit, bodies of loops). Tensors from outside become captures: extra inputs of the program.
class Trace {
 public:
  enum class Mode { kRecording, kAbstract };

  explicit Trace(Mode mode);  // opens it as the innermost one
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  static Trace* innermost();  // null outside
  const Trace* outer() const { return outer_; }

  Mode mode() const { return mode_; }
  uint64_t id() const { return id_; }
  const Graph& graph() const { return graph_; }

  // A new input of the program: abstract, or with the value of `tensor`.
  Tensor input(const TensorType& type);

  // The node that stands for `tensor` here; captures it where it comes from outside.
  Value value_of(const Tensor& tensor);
  // The tensor of a recorded value.
  const Tensor& tensor_of(Value value) const { return tensors_[value.node][value.output]; }

  // Outside tensors that the program uses, in the order of the inputs that stand for them (after those of input()).
  const std::vector<Tensor>& captures() const { return captures_; }

  // Closes the program: its inputs, then its captures, are the graph's inputs. The trace ends with its scope.
  GraphPtr finish(std::span<const Tensor> outputs);

  // Records `op`; runs it too where the trace is recording and every input is concrete.
  Tensors record(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                 const Types& outputs, const SourceLocation& where);

 private:
  Tensor make(const TensorType& type, Value value, const Tensor& concrete) const;

  Mode mode_;
  uint64_t id_;
  Trace* outer_;
  Graph graph_;
  std::deque<Tensors> tensors_;  // by node, output
  std::vector<Tensor> captures_;
  std::unordered_map<const void*, Value> captured_;
};

// Applies an operation: checks the types, then records it in the innermost trace, or runs it at once.
// Errors name the operation, the line of `where` and the types.
Tensors apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
              const SourceLocation& where);
Tensor apply1(const OpDef& op, std::initializer_list<Tensor> inputs, const Attrs& attrs,
              const SourceLocation& where);

// Runs one operation on concrete tensors in the current context. Installed once by the executor's room.
using Evaluator = Tensors (*)(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                              const Types& outputs);
void install_evaluator(Evaluator evaluator);

// Applies the nodes of `graph` to `inputs` (one per graph input) in the current trace; returns its outputs.
Tensors replay(const Graph& graph, std::span<const Tensor> inputs);

// Records `f` of abstract tensors of `types` as a program of its own. `captures` gets the outside tensors that it uses:
// further inputs, after those of `types`.
GraphPtr trace_program(std::span<const TensorType> types,
                       const std::function<Tensors(std::span<const Tensor>)>& f, Tensors* captures);

// The part of the step that nodes are recorded in during the scope. Derivatives are recorded in the backward part by
// themselves; whoever writes an update of parameters says so.
class PartScope {
 public:
  explicit PartScope(StepPart part);
  ~PartScope();
  PartScope(const PartScope&) = delete;
  PartScope& operator=(const PartScope&) = delete;
  static StepPart current();

 private:
  StepPart previous_;
};

// Names the nodes that are recorded during the scope: "h.3" inside "decoder" makes "decoder.h.3".
class NameScope {
 public:
  explicit NameScope(std::string_view name);
  // The whole path instead of a part of it: for nodes that are recorded again.
  static NameScope absolute(std::string path);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
  static const std::string& path();

 private:
  struct Whole {
    std::string path;
  };
  explicit NameScope(Whole whole);
  std::string previous_;
};

// Records at the place of another node, as passes do with what stands in for it.
class PlaceScope {
 public:
  explicit PlaceScope(const Place& place)
      : part_(place.part), scope_(NameScope::absolute(place.scope)) {}
  // The same, but what a later part of the step computes again belongs to that part.
  static PlaceScope again(const Place& place) {
    return PlaceScope({std::max(PartScope::current(), place.part), place.scope});
  }

 private:
  PartScope part_;
  NameScope scope_;
};

}  // namespace mstrain
