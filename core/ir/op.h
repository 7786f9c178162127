// The declaration of an operation: everything that the system may ask of it, in one place.
//
// From a declaration come the type check, derivatives of every order in both modes, batching, cost, printing, and the
// rows of the conformance matrix; a test walks the table and fails where a rule is missing. Traits say the rest of what
// passes need to know, so that no pass asks for an operation's name (scripts/check_op_names.py), except the one that
// exists for it.
#pragma once

#include <functional>
#include <optional>
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

// A composite written with other operations: oracle, fallback, derivatives without rules. No results: it is simple.
using Decomposition = Tensors (*)(const Attrs& attrs, std::span<const Tensor> inputs);

// The ways in which ranks can share an application, beside each doing all of it (core/ir/layout.h): what they then must have of
// the inputs and get of the outputs, with the attributes or the program for the parts. One list serves whoever asks what
// follows from layouts of inputs or is wanted for those of outputs, and tests, which try every way.
struct LayoutRequest;
struct Way;
using LayoutRule = std::vector<Way> (*)(const LayoutRequest& request);

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
  double diagonal =
      0;  // (i + 1) times this is added to elements (…, i, i): matrices that are far from singular
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
  kCollective,  // among ranks
  kControl,
  kSource
};

// Which element types an operation accepts for the inputs that may vary.
enum class DtypeClass : uint8_t { kFloating, kNumeric, kAny, kInteger, kBool };
bool accepts(DtypeClass dtypes, Dtype dtype);

// Traits.

// Where a result lies in the memory of an input, so that nothing runs.
struct Aliased {
  Shape strides;
  int64_t offset = 0;  // elements from the input's first
  size_t input = 0;
};
// Nothing where strides cannot say it.
using AliasRule = std::optional<Aliased> (*)(const Attrs& attrs, std::span<const ViewType> inputs,
                                             size_t output);

// The attributes with which one application does what two do, `first` and then `second`.
using ComposeRule = Attrs (*)(const Attrs& first, const Attrs& second);

// How movement leaves the elements, as memory lists them.
enum class Order : uint8_t { kOther, kKept, kRepeated };

// A reduction that can be formed part by part.
enum class Fold : uint8_t { kNone, kSum, kSumSquares, kMax, kMin };

// An operation on the rows of the first input's last dim, each for itself. Bit i: input i is a parameter of every row;
// output i is a sum over rows.
struct RowWork {
  bool whole_rows = false;
  uint32_t parameters = 0, column_sums = 0;
};

// What becomes of operands that were written as f32 where a program runs in 16 bits (core/transform/precision.h).
enum class Precision : uint8_t {
  kFollows,    // 16 bits where all operands have them, else f32
  kNarrow,     // rounded to 16 bits: products
  kWide,       // widened, and the result is f32: sums, exponentials
  kAsWritten,  // f32 for a program that was written for it
  kAny,        // the operation takes what there is
  kInside      // the program inside is transformed
};

// The number that, as all of one of these inputs (bit i), leaves the other one as it is.
struct Neutral {
  uint32_t inputs = 0;
  double value = 0;
};

// A loop over programs, from its attributes. Inputs: carries, constants, xs; results: carries, ys, kept carries.
struct LoopForm {
  GraphPtr body;
  GraphPtr condition;  // null: `length` times
  int carries = 0, constants = 0;
  int64_t length = 0;
  bool reverse = false, keep_carries = false;
};
using LoopRule = LoopForm (*)(const Attrs& attrs);

struct OpDef {
  std::string_view name;
  OpKind kind = OpKind::kComposite;
  DtypeClass dtypes = DtypeClass::kFloating;
  InferRule infer = nullptr;
  // jvp (reverse mode follows by transposing it), vjp, or both.
  JvpRule jvp = nullptr;
  VjpRule vjp = nullptr;
  BatchRule batch = nullptr;
  Decomposition decompose = nullptr;
  CostRule cost = nullptr;
  LayoutRule layout = nullptr;
  SampleRule samples = nullptr;
  bool smooth = true;  // second derivatives may be compared with finite differences on its samples

  Precision precision = Precision::kFollows;
  AliasRule alias = nullptr;
  ComposeRule compose = nullptr;
  Order order = Order::kOther;
  Fold fold = Fold::kNone;
  RowWork rows = {};
  Neutral neutral = {};
  LoopRule loop = nullptr;
  bool repeats_number = false;    // every element is the attribute `value`
  std::string_view inlined = {};  // the attribute with the program that compilers put in its place
  bool among_ranks = false;  // kernels work with the ranks of the context that they are prepared in
  bool distinct = false;     // each application is a node of its own, although an equal one exists
  std::string (*title)(const Attrs& attrs) = nullptr;  // for people, where the name says too little
};

// The name or title.
std::string title_of(const OpDef& op, const Attrs& attrs);

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
