#include "suites/transformer/gpt/stored_model.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/missing_file.h"
#include "core/io/folder.h"
#include "core/train/checkpoint.h"
#include "suites/transformer/gpt/hf_names.h"
#include "suites/transformer/gpt/model.h"

namespace mstrain::gpt {
namespace {

struct ModelSection {
  GptConfig model;

  template <class V>
  void fields(V& v) {
    v("model", model, "the network");
  }
};

// `over` replaces what it names in `under`.
void lay_over(YamlNode& under, const YamlNode& over) {
  for (const YamlNode& child : over.children) {
    YamlNode* const below = under.find(child.key);
    if (below == nullptr) {
      under.add(child.key, child);
    } else if (below->is_map() && child.is_map()) {
      lay_over(*below, child);
    } else {
      *below = child;
    }
  }
}

void set_place(YamlNode& node, const YamlNode& of) {
  node.file = of.file;
  node.line = of.line;
  for (YamlNode& child : node.children) {
    set_place(child, of);
  }
}

// Whether two models with different values of the key may have the same weights.
bool may_differ(const std::string& key) {
  return key.starts_with("model.dropout.") || key.starts_with("model.init.") ||
         key == "model.label_smoothing" ||
         key == "model.ffn_hidden_size";  // null has a meaning: compared apart
}

void compare(const YamlNode& tree, const ModelSection& given, const ModelSection& stored,
             const std::string& source) {
  const auto mine = flatten_config(write_config(given));
  const auto theirs = flatten_config(write_config(stored));
  for (size_t i = 0; i < mine.size(); ++i) {
    const auto& [key, value] = mine[i];
    if (!may_differ(key) && value != theirs[i].second) {
      config_fail(tree, key,
                  fmt::format("{} differs from {} in {}; leave it out to take that", value,
                              theirs[i].second, source));
    }
  }
  if (given.model.ffn_dim() != stored.model.ffn_dim()) {
    config_fail(tree, "model.ffn_hidden_size",
                fmt::format("{} differs from {} in {}; leave it out to take that",
                            given.model.ffn_dim(), stored.model.ffn_dim(), source));
  }
}

// What `use`, which is load_pretrained or check_pretrained, gives for the model's weights.
template <class Use>
auto with_weights(FileSystem& files, const StoredModel& model, const Use& use) {
  if (files.exists(join_path(model.folder, kManifestName))) {
    if (const auto problems = verify_folder(files, model.folder); !problems.empty()) {
      throw IoError(problems.front());
    }
  }
  const SafetensorsFolder weights(files, model.folder);
  // Each layer has tensors of its own: a number of layers that no file could hold is not tried.
  if (model.config.num_layers > static_cast<int64_t>(weights.items().size())) {
    throw IoError(fmt::format("{}: config.json tells of {} layers, the weights are {} tensors",
                              model.folder, model.config.num_layers, weights.items().size()));
  }
  const std::vector<ParamSpec> specs = Gpt(model.config).specs();
  std::vector<Shape> shapes;
  for (const ParamSpec& spec : specs) {
    shapes.push_back(hf_shape(spec.name, spec.type.shape));
  }
  return use(weights, model.folder, specs, shapes,
             meaning_in(weights, model.config.tie_embeddings));
}

}  // namespace

std::string find_checkpoint(FileSystem& files, const std::string& path) {
  if (has_safetensors(files, path)) {
    return path;
  }
  const std::string checkpoints = join_path(path, "checkpoints");
  for (const std::string& directory : {checkpoints, path}) {
    if (const auto found = newest_checkpoint(files, directory, /*set_aside=*/false)) {
      return *found;
    }
  }
  if (!files.exists(path)) {
    fail_missing(files, path);
  }
  if (files.exists(join_path(path, "config.json"))) {
    const SafetensorsFolder weights(files, path);  // says what is missing
  }
  throw IoError(
      fmt::format("{}: holds no checkpoint: neither {} nor checkpoints/step-…", path, kModelFile));
}

StoredModel open_model(FileSystem& files, const std::string& path) {
  StoredModel out;
  out.folder = find_checkpoint(files, path);
  const std::string config = join_path(out.folder, "config.json");
  out.description = parse_json(files.read(config, 16 << 20), config);
  out.config = config_from_hf(out.description, config);
  return out;
}

std::shared_ptr<const Tokenizer> stored_tokenizer(FileSystem& files, const StoredModel& model) {
  return has_tokenizer(files, model.folder) ? load_tokenizer(files, model.folder) : nullptr;
}

Params load_params(FileSystem& files, const StoredModel& model) {
  return with_weights(files, model, load_pretrained);
}

void check_params(FileSystem& files, const StoredModel& model) {
  with_weights(files, model, check_pretrained);
}

Meaning meaning_in(const SafetensorsFolder& weights, bool tied) {
  const bool has_embedding = std::any_of(
      weights.items().begin(), weights.items().end(), [&](const SafetensorsFolder::Item& item) {
        const std::string_view name = item.entry->name;
        return name == "wte.weight" || name == "transformer.wte.weight";
      });
  return [tied, has_embedding](const std::string& stored) {
    StoredMeaning is = hf_meaning(stored, tied);
    if (is.kind == StoredMeaning::Kind::kCopy && !has_embedding) {
      is.kind = StoredMeaning::Kind::kParameter;
    }
    return is;
  };
}

std::map<std::string, std::string> stored_names(FileSystem& files, const StoredModel& model) {
  std::map<std::string, std::string> names;
  const SafetensorsFolder weights(files, model.folder);
  const Meaning meaning = meaning_in(weights, model.config.tie_embeddings);
  for (const SafetensorsFolder::Item& item : weights.items()) {
    const StoredMeaning is = meaning(item.entry->name);
    if (is.kind == StoredMeaning::Kind::kParameter) {
      names[is.name] = item.entry->name;
    }
  }
  return names;
}

YamlNode with_stored_model(FileSystem& files, YamlNode tree) {
  const YamlNode* const from = find_config(tree, "model.init.from");
  if (from == nullptr || from->is_null()) {
    return tree;
  }
  const std::string path = as_string(*from, "model.init.from");
  ModelSection stored;
  std::string folder;
  try {
    const StoredModel model = open_model(files, path);
    stored.model = model.config;
    folder = model.folder;
  } catch (const Error& error) {
    config_fail(tree, "model.init.from", error.what());
  }
  YamlNode& model = *tree.find("model");
  YamlNode given = model;
  if (YamlNode* const vocab = given.find("vocab_size");
      vocab != nullptr && vocab->is_scalar() && vocab->text == "auto") {
    *vocab = YamlNode::integer(*stored.model.vocab_size.value);
    vocab->key = "vocab_size";
  }
  YamlNode merged = *write_config(stored).find("model");
  merged.key = model.key;
  merged.file = model.file;
  merged.line = model.line;
  lay_over(merged, given);
  model = std::move(merged);
  ModelSection both;
  YamlNode section = YamlNode::map();
  section.file = tree.file;
  section.add("model", *tree.find("model"));
  read_config(section, both);
  compare(tree, both, stored, join_path(path, "config.json"));
  YamlNode* const data = tree.find("data");
  if (data != nullptr && data->is_map() && data->find("tokenizer") == nullptr &&
      has_tokenizer(files, folder)) {
    YamlNode& tokenizer = data->add("tokenizer", YamlNode::map());
    tokenizer.add("type", YamlNode::string("hf"));
    tokenizer.add("path", YamlNode::string(folder));
    set_place(tokenizer, *find_config(tree, "model.init.from"));
  }
  return tree;
}

}  // namespace mstrain::gpt
