// A network as the house sees it: its weights under the names that files have for them, what it computes of given tensors,
// and what text it writes. A model's folder makes one of a `model` section or of a config.json.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/base/yaml.h"
#include "core/data/hf_simple.h"
#include "core/data/tokenizer.h"
#include "core/tensor/params.h"
#include "core/train/pretrained.h"
#include "core/train/sections.h"
#include "suites/run/text_writer.h"

namespace mstrain {

// A tensor that a network computes of. Dims of one name have one size in all of them.
struct InputSpec {
  struct Dim {
    std::string name;
    std::optional<int64_t> most = {};
    std::optional<int64_t> exactly = {};
  };
  struct Integers {
    int64_t low = 0, high = 0;  // within [low, high)
    std::optional<int64_t> also = {};
  };
  std::string name;
  std::vector<Dim> dims;
  std::optional<Integers>
      integers;  // given as i32, whatever integers the file has; none: any numbers, as f32
  bool is_required = false;
  bool is_of_all = false;  // a batch of one stands for all of a larger one
};

using NamedTensors = std::map<std::string, Tensor>;

struct Computed {
  Tensor logits;
  Tensor loss;  // [], their mean; null where no labels are given
};

// Immutable; any thread may use it.
class Network {
 public:
  virtual ~Network() = default;

  // Every parameter with its initialiser. Throws ConfigError where the number of ids is left open.
  virtual std::vector<ParamSpec> specs() const = 0;
  virtual int64_t num_layers() const = 0;
  // How many tokens or labels it tells apart; none: left open.
  virtual std::optional<int64_t> ids() const = 0;

  // The shape under which files store parameter `name`: the same elements in the same order.
  virtual Shape stored_shape(const std::string& name, const Shape& shape) const;
  // What a tensor of a weight file is.
  virtual StoredMeaning meaning(const std::string& stored) const = 0;
  // Tensors of the model's class, each a module's of its own, that are a parameter used once more: StoredMeaning::Kind::kCopy.
  virtual std::vector<std::string> copies() const { return {}; }
  // Whether parameter `name` is drawn anew where a run begins with a model that has none, or one of another shape: the head of
  // other labels.
  virtual bool redraws(const std::string& name) const;

  // Linear layers that other versions of the model's class call otherwise: what they are called here, and there.
  using OtherName = std::pair<std::string, std::string>;
  virtual std::vector<OtherName> other_names() const { return {}; }

  // config.json. Where the model began with that of a directory, `source` is its config.json: what changes no numbers
  // here, such as the ids of special tokens, is taken over.
  virtual OrderedJson description(const Json& source = Json::object()) const = 0;
  // The `model` of a configuration, for a run that begins with this network.
  virtual YamlNode section() const = 0;
  // Keys of `model`, with their values, that must be equal where two networks share weights. Chosen once: a null that
  // stands for a number is that number.
  virtual std::vector<std::pair<std::string, std::string>> identity() const = 0;

  // Whether its logits [b, 1] say how good the texts are that it is given.
  virtual bool scores_texts() const { return false; }
  // What compute() takes.
  virtual std::vector<InputSpec> inputs() const = 0;
  // As the model's class of Hugging Face computes it. Pure; runs in the current context.
  virtual Computed compute(const Params& params, const NamedTensors& inputs) const = 0;

  // What its texts have beside the ids of `tokenizer`.
  virtual TokensBeside tokens_beside(std::shared_ptr<const Tokenizer> tokenizer) const;

  // Null where the model writes no text.
  virtual std::unique_ptr<TextWriter> writer(std::shared_ptr<const Tokenizer> tokenizer,
                                             Execution execution) const;
};

// Of all parameters, in order.
std::vector<Shape> stored_shapes(const Network& network, std::span<const ParamSpec> specs);

// flatten_config() of `model` alone, without what decides no weights: dropout, initial weights, smoothing of labels, and the
// keys that `leaves_out` says.
std::vector<std::pair<std::string, std::string>> weight_keys(
    const YamlNode& model, const std::function<bool(const std::string& key)>& leaves_out = {});

// Null where it is not there.
Tensor given(const NamedTensors& inputs, const std::string& name);

}  // namespace mstrain
