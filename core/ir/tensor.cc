#include "core/ir/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/ir/arg.h"
#include "core/ir/error_place.h"

namespace mstrain {
namespace {

thread_local Trace* innermost_trace = nullptr;
Evaluator installed_evaluator = nullptr;

uint64_t next_trace_id() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

Tensors evaluate(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                 const Types& outputs, const SourceLocation& where) {
  check(installed_evaluator != nullptr, "{}: no backend is linked into this program", op.name);
  // What the operation does inside, such as the steps of a loop, is no part of the program.
  struct Pause {
    Trace* trace = std::exchange(innermost_trace, nullptr);
    ~Pause() { innermost_trace = trace; }
  } const pause;
  const WhereScope scope(where);
  return placing_errors(where, [&] { return installed_evaluator(op, inputs, attrs, outputs); });
}

// A tensor that is neither in memory nor in an open trace was kept from a program that has ended.
void check_usable(const OpDef& op, const Tensor& tensor, const SourceLocation& where) {
  if (!tensor.defined()) {
    fail("{}: an argument is an empty tensor, at {}", op.name, to_string(where));
  }
  if (!tensor.concrete() && !tensor.traced()) {
    fail(
        "{}: an argument of type {} was computed inside a traced function that has ended, at {}; "
        "return it from the function instead of keeping it in a variable outside",
        op.name, to_string(tensor.type()), to_string(where));
  }
}

// Strides and bytes are numbers of 64 bits, also those of a tensor of no elements.
void check_bytes(const TensorType& type) {
  auto bytes = static_cast<int64_t>(size_of(type.dtype));
  for (const int64_t dim : type.shape) {
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(dim, 1), &bytes)) {
      throw ShapeError(fmt::format("{} has more bytes than 64 bits can count", to_string(type)));
    }
  }
}

}  // namespace

Tensor::Tensor(TensorType type, Buffer buffer, int64_t offset, const Shape& strides) {
  auto impl = std::make_shared<Impl>();
  impl->type = type;
  impl->buffer = std::move(buffer);
  impl->offset = offset;
  impl->strides = strides;
  impl_ = std::move(impl);
}

// Out of line, since nobody expects it.
void Tensor::no_such_dim(int axis, const SourceLocation& where) const {
  fail("dim({}) of {}, which has {} dims, at {}", axis, to_string(type()), rank(),
       to_string(where));
}

Tensor::operator bool() const {
  check(defined(), "an empty tensor is asked whether it is true; defined() says whether it is one");
  check(
      dtype() == Dtype::kBool && elements() == 1,
      "{} is asked whether it is true, which only a bool of one element can be; compare it first, "
      "and join the elements with all() or any()",
      to_string(type()));
  if (!concrete()) {
    const Trace* trace = innermost_trace;
    while (trace != nullptr && !value_in(*trace)) {
      trace = trace->outer();
    }
    fail(
        "a bool is asked whether it is true, but has no value yet{}; inside jit, vmap and loops "
        "only the program is recorded: choose with where(), or read it outside",
        trace == nullptr
            ? ""
            : ": it is computed at " + to_string(trace->graph().node(impl_->value.node).where));
  }
  bool value = false;
  impl_->buffer.read(impl_->offset, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

std::optional<Value> Tensor::value_in(const Trace& trace) const {
  return impl_ != nullptr && impl_->trace == trace.id() ? std::optional(impl_->value)
                                                        : std::nullopt;
}

bool Tensor::traced() const {
  if (impl_ == nullptr || impl_->trace == 0) {
    return false;
  }
  for (const Trace* trace = innermost_trace; trace != nullptr; trace = trace->outer()) {
    if (trace->id() == impl_->trace) {
      return true;
    }
  }
  return false;
}

Trace::Trace(Mode mode) : mode_(mode), id_(next_trace_id()), outer_(innermost_trace) {
  innermost_trace = this;
}
Trace::~Trace() { innermost_trace = outer_; }

Trace* Trace::innermost() { return innermost_trace; }

Tensor Trace::make(const TensorType& type, Value value, const Tensor& concrete) const {
  auto impl = std::make_shared<Tensor::Impl>();
  impl->type = type;
  if (concrete.defined()) {
    impl->buffer = concrete.buffer();
    impl->offset = concrete.offset();
    impl->strides = concrete.strides();
  }
  impl->trace = id_;
  impl->value = value;
  Tensor tensor;
  tensor.impl_ = std::move(impl);
  return tensor;
}

Tensor Trace::input(const TensorType& type) {
  check(captures_.empty(), "inputs of a program are declared before it captures tensors");
  const Value value = graph_.add_input(type);
  tensors_.push_back({make(type, value, {})});
  return tensors_.back()[0];
}

Value Trace::value_of(const Tensor& tensor) {
  if (const auto value = tensor.value_in(*this)) {
    return *value;
  }
  if (const auto found = captured_.find(tensor.identity()); found != captured_.end()) {
    return found->second;
  }
  check(tensor.defined(), "an empty tensor is part of a traced function's arguments or results");
  check(tensor.concrete() || tensor.traced(),
        "a traced function uses or returns a tensor of type {} that was computed inside a traced "
        "function that has ended; "
        "return it from that function instead of keeping it in a variable outside",
        to_string(tensor.type()));
  const Value value = graph_.add_input(tensor.type());
  tensors_.push_back({make(tensor.type(), value, mode_ == Mode::kRecording ? tensor : Tensor())});
  captures_.push_back(tensor);
  captured_.emplace(tensor.identity(), value);
  return value;
}

Tensors Trace::record(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                      const Types& outputs, const SourceLocation& where) {
  std::vector<Value> values;
  values.reserve(inputs.size());
  bool concrete = mode_ == Mode::kRecording;
  for (const Tensor& input : inputs) {
    values.push_back(value_of(input));
    concrete = concrete && input.concrete();
  }
  const size_t before = graph_.size();
  const NodeId id = graph_.add(op, std::move(values), attrs, outputs,
                               {PartScope::current(), NameScope::path()}, where);
  if (id < before) {
    return tensors_[id];
  }
  const Tensors results = concrete ? evaluate(op, inputs, attrs, outputs, where) : Tensors();
  Tensors recorded;
  recorded.reserve(outputs.size());
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    recorded.push_back(make(outputs[i], {id, i}, concrete ? results[i] : Tensor()));
  }
  tensors_.push_back(recorded);
  return recorded;
}

GraphPtr Trace::finish(std::span<const Tensor> outputs) {
  std::vector<Value> values;
  for (const Tensor& output : outputs) {
    values.push_back(value_of(output));
  }
  graph_.set_outputs(std::move(values));
  return std::make_shared<const Graph>(std::move(graph_));
}

Tensors apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
              const SourceLocation& called_from) {
  const SourceLocation* const outer = WhereScope::current();
  const SourceLocation& where = outer == nullptr ? called_from : *outer;
  Types types;
  types.reserve(inputs.size());
  for (const Tensor& input : inputs) {
    check_usable(op, input, where);
    types.push_back(input.type());
  }
  Types outputs;
  try {
    outputs = op.infer(types, attrs);
    std::for_each(outputs.begin(), outputs.end(), check_bytes);
  } catch (const ShapeError& error) {
    fail("{}: {}, at {}{}{}", op.name, error.what(), to_string(where),
         error.hint().empty() ? "" : "; ", error.hint());
  }
  // Constants are recorded too: what is equal must become one node in eager mode as it does in graph mode, or derivatives
  // would sum in another order.
  Trace* trace = Trace::innermost();
  return trace != nullptr ? trace->record(op, inputs, attrs, outputs, where)
                          : evaluate(op, inputs, attrs, outputs, where);
}

Tensor apply1(const OpDef& op, std::initializer_list<Tensor> inputs, const Attrs& attrs,
              const SourceLocation& where) {
  return apply(op, std::span(inputs.begin(), inputs.size()), attrs, where)[0];
}

void install_evaluator(Evaluator evaluator) { installed_evaluator = evaluator; }

GraphPtr trace_program(std::span<const TensorType> types,
                       const std::function<Tensors(std::span<const Tensor>)>& f,
                       Tensors* captures) {
  Trace trace(Trace::Mode::kAbstract);
  Tensors inputs;
  for (const TensorType& type : types) {
    inputs.push_back(trace.input(type));
  }
  const Tensors outputs = f(inputs);
  GraphPtr graph = trace.finish(outputs);
  *captures = trace.captures();
  return graph;
}

const Tensor& Arg::tensor() const {
  if (tensor_ == nullptr || !tensor_->defined()) {
    fail("{}, at {}",
         tensor_ == nullptr ? "a number was given where a tensor is needed"
                            : "an empty tensor was given",
         to_string(where_));
  }
  return *tensor_;
}

namespace {
thread_local std::string scope_path;
thread_local StepPart step_part = StepPart::kForward;
}  // namespace

PartScope::PartScope(StepPart part) : previous_(std::exchange(step_part, part)) {}
PartScope::~PartScope() { step_part = previous_; }
StepPart PartScope::current() { return step_part; }

NameScope::NameScope(std::string_view name) : previous_(scope_path) {
  if (!name.empty()) {
    if (!scope_path.empty()) {
      scope_path += '.';
    }
    scope_path += name;
  }
}

NameScope::NameScope(Whole whole) : previous_(std::exchange(scope_path, std::move(whole.path))) {}

NameScope NameScope::absolute(std::string path) { return NameScope(Whole{std::move(path)}); }

NameScope::~NameScope() { scope_path = std::move(previous_); }

const std::string& NameScope::path() { return scope_path; }

}  // namespace mstrain
