// Named parameters of a model, declared where they are used.
//
//   Tensor linear(const Params& p, const Tensor& x, int64_t out) {
//     return matmul(x, p.get("weight", {x.dim(-1), out}, normal(0.02))) + p.get("bias", {out}, zeros_init());
//   }
//
// A weight that products alone read, through weight(), may be stored in codes of fewer bits instead, under its name and that
// of the code: "h.0.attn.c_attn.weight.int8" in place of "h.0.attn.c_attn.weight".
//
// `p / "attn"` is the same set seen from a folder. Running the model once on abstract inputs declares every parameter
// with its shape and initialiser (declare_params), so that a model is one file and weights have one name.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/tensor.h"
#include "core/tensor/weight.h"

namespace mstrain {

struct Init {
  enum class Kind { kZeros, kOnes, kNormal, kUniform } kind = Kind::kZeros;
  double scale = 0;  // normal: standard deviation; uniform: in [-scale, scale)
};
inline Init normal_init(double std) { return {Init::Kind::kNormal, std}; }
inline Init uniform_init(double bound) { return {Init::Kind::kUniform, bound}; }
inline Init zeros_init() { return {Init::Kind::kZeros, 0}; }
inline Init ones_init() { return {Init::Kind::kOnes, 0}; }

// How many ranks may share a dim.
enum class PartsOfDim : uint8_t {
  kDividing,      // those that divide it
  kWholeIfFewer,  // also those that it divides: each holds all of it
  kFilledUp,      // any: parts are of one size, what they have too many is zeros
};

struct ParamSpec {
  std::string name;  // full path, "h.0.attn.c_attn.weight"
  TensorType type;
  Init init;
  bool decay = false;                     // weight decay applies: matrices, not biases and norms
  std::optional<MatrixForm> matrix = {};  // how products read it, where nothing else does
  std::optional<int> shared_dim = {};     // of which ranks along `tensor` hold a part each
  PartsOfDim parts = PartsOfDim::kDividing;
  bool follows = false;  // a running statistic: see core/nn/follow_scope.h
};

// One line of a model's table of what ranks can share: parameters whose names end so, by whole words.
struct SharedDim {
  std::string_view name;
  int dim;
  PartsOfDim parts = PartsOfDim::kDividing;
};
// `specs` with what the table says.
std::vector<ParamSpec> shared(std::vector<ParamSpec> specs, std::span<const SharedDim> table);

// A value type: copies share the tensors; operations on a copy do not change the original.
class Params {
 public:
  Params();

  // The folder `name` of these parameters.
  Params operator/(std::string_view name) const;
  Params operator/(int64_t index) const { return *this / std::to_string(index); }
  const std::string& path() const { return prefix_; }
  // path() + "." + name
  std::string path_of(std::string_view name) const;

  // The parameter `name` of this folder, declared here. Throws where the stored one has another shape, or none is
  // stored, naming the nearest.
  Tensor get(std::string_view name, const Shape& shape, const Init& init, bool decay = true) const;
  // The same for a running statistic.
  Tensor followed(std::string_view name, const Shape& shape, const Init& init) const;
  // The same for a weight that only products and embeddings read, decayed, which may be stored in codes.
  Weight weight(std::string_view name, const Shape& shape, const MatrixForm& form,
                const Init& init) const;

  // All parameters, whatever the folder, in the order of declaration.
  size_t size() const;
  const std::string& name(size_t i) const;
  const Tensor& tensor(size_t i) const;
  const Tensor* find(std::string_view full_name) const;  // null where absent
  void set(const std::string& full_name, Tensor value);  // adds or replaces
  // Direct access for tree traversal; makes the storage this object's own first.
  std::vector<std::pair<std::string, Tensor>>& items();

 private:
  friend std::vector<ParamSpec> declare_params(const std::function<void(const Params&)>& model);
  friend class LeafVisitor;
  struct Store;
  Tensor declared(const std::string& path, const Shape& shape, const Init& init, bool decay,
                  const std::optional<MatrixForm>& form) const;
  // As items(), without making the storage this object's own: for reading.
  std::vector<std::pair<std::string, Tensor>>& shared_items() const;
  std::shared_ptr<Store> store_;
  std::string prefix_;
};

// Those of `params`, and those of `more` added or in their place.
Params joined(Params params, const Params& more);

// Runs `model` on abstract values and collects what it asks for. Nothing is allocated.
std::vector<ParamSpec> declare_params(const std::function<void(const Params&)>& model);

// Parameters with their initial values: a pure function of (seed, name, index), whatever else the model holds.
Params init_params(std::span<const ParamSpec> specs, uint64_t seed);
// `params` with those of `specs` that have a matrix form in codes instead. Throws as encode_weight().
Params in_code(WeightCode code, const Params& params, std::span<const ParamSpec> specs);
// Abstract parameters, for planning inside a trace.
Params abstract_params(std::span<const ParamSpec> specs);

}  // namespace mstrain
