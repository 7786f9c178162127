// The declaration of an operation: everything that the system may ask of it, in one place.
//
// From a declaration come the type check, derivatives of every order in both modes, batching, cost, printing, and the
// rows of the conformance matrix. A rule that an operation does not have is said with kNone…, never left out: a test
// walks the table and fails on silence.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "core/ir/attr.h"
#include "core/runtime/view.h"

namespace mstrain {

class Tensor;
struct OpDef;
using Tensors = std::vector<Tensor>;
using Types = std::vector<TensorType>;

// What is wrong with the inputs of an operation, and what the user may have meant. apply() adds the operation's name,
// the line of the call and then the hint.
class ShapeError : public Error {
 public:
  explicit ShapeError(const std::string& message, std::string hint = {})
      : Error(message), hint_(std::move(hint)) {}
  const std::string& hint() const { return hint_; }

 private:
  std::string hint_;
};

// One application of an operation, as derivative rules see it.
struct Application {
  const OpDef& op;
  const Attrs& attrs;
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
};

// Types of the outputs. Throws ShapeError.
using InferRule = Types (*)(std::span<const TensorType> inputs, const Attrs& attrs);

// Tangents of the outputs from tangents of the inputs. An empty Tensor is a zero. Written with ops.
using JvpRule = Tensors (*)(const Application& node, std::span<const Tensor> tangents);

// Cotangents of the inputs from cotangents of the outputs (at least one is not empty). An empty Tensor is a zero.
// For a linear operation this is its transpose: it may use only inputs in which the operation is not linear.
using VjpRule = Tensors (*)(const Application& node, std::span<const Tensor> cotangents);

// The same operation over inputs of which some have an additional leading dim `size`; every output gets one too.
using BatchRule = Tensors (*)(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs,
                              std::span<const bool> batched, int64_t size);

// A composite written with other operations: oracle, fallback and, without rules of its own, its derivatives.
using Decomposition = Tensors (*)(const Attrs& attrs, std::span<const Tensor> inputs);

struct Cost {
  double flops = 0;
  double bytes = 0;  // read and written
};
using CostRule = Cost (*)(std::span<const TensorType> inputs, std::span<const TensorType> outputs,
                          const Attrs& attrs);

// How the conformance matrix fills one input.
struct SampleInput {
  TensorType type;
  double low = -1;  // values are uniform in [low, high); integers likewise, floored
  double high = 1;
  bool distinct =
      false;  // a shuffled range instead, scaled into [low, high): no ties for sort and max
};
struct Sample {
  std::vector<SampleInput> inputs;
  Attrs attrs;
};
using SampleRule = std::vector<Sample> (*)(Dtype dtype);  // `dtype`: of the inputs that may vary

enum class OpKind : uint8_t {
  kElementwise,  // output i depends on elements i of the inputs, which all have the output's shape
  kMovement,     // output elements are input elements in other places
  kReduce,
  kContract,
  kIndex,
  kRandom,
  kComposite,
  kControl,
  kSource
};

// Which element types an operation accepts for the inputs that may vary.
enum class DtypeClass : uint8_t { kFloating, kNumeric, kAny, kInteger, kBool };
bool accepts(DtypeClass dtypes, Dtype dtype);

struct OpDef {
  std::string_view name;
  OpKind kind = OpKind::kComposite;
  DtypeClass dtypes = DtypeClass::kFloating;
  InferRule infer = nullptr;
  // One of: jvp (reverse mode follows by transposing it), vjp with `linear`, or both.
  JvpRule jvp = nullptr;
  VjpRule vjp = nullptr;
  // Bit i: linear in input i (with the others fixed), so that its tangent is the operation itself and vjp its transpose.
  uint32_t linear = 0;
  BatchRule batch = nullptr;
  Decomposition decompose = nullptr;
  CostRule cost = nullptr;
  SampleRule samples = nullptr;
  bool smooth = true;  // second derivatives may be compared with finite differences on its samples

  bool linear_in(size_t input) const { return ((linear >> input) & 1U) != 0; }
};

inline constexpr uint32_t kLinearInAll = ~uint32_t{0};

// Said where an operation has no derivative: integer results, comparisons. Tangents and cotangents are zero.
Tensors zero_derivative(const Application& node, std::span<const Tensor>);

// Every operation by name, for the parser and for tests. Filled once at start-up, then read-only.
void register_ops(std::span<const OpDef> ops);
const OpDef* find_op(std::string_view name);  // null where unknown
std::vector<const OpDef*> all_ops();          // by name

// FLOPs and bytes by the usual rule: `flops_per_element` for each output element, each byte touched once.
Cost elementwise_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs,
                      double flops_per_element);

}  // namespace mstrain
