// A model on disk: a checkpoint of ours, a Hugging Face model directory, or an adapter with the model that it names.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/base/files.h"
#include "core/io/safetensors_folder.h"
#include "suites/run/model_run.h"

namespace mstrain {

struct StoredModel {
  std::string folder;
  Json description;  // config.json as it stands; an adapter without one has that of its base
  std::string description_path;            // of that config.json
  std::string type;                        // model.type
  std::shared_ptr<const Network> network;  // of an adapter: AdaptedNetwork
  std::shared_ptr<const StoredModel>
      base;  // of an adapter: the model that it adapts; otherwise null
};

// The folder with weights or an adapter that `path` means: itself, or the newest sound checkpoint of a run directory. Throws
// IoError, with ENOENT where there is none.
std::string find_checkpoint(FileSystem& files, const std::string& path);

// Reads config.json of the folder that find_checkpoint gives, and adapter_config.json. Throws IoError, or Error for a model
// that is not known.
StoredModel open_model(FileSystem& files, const std::string& path);

// The folder with its tokenizer: its own, or that of the model that it adapts; empty where neither has one.
std::string tokenizer_folder(FileSystem& files, const StoredModel& model);

// Its tokenizer; null where the folder holds none that we know. Throws IoError.
std::shared_ptr<const Tokenizer> stored_tokenizer(FileSystem& files, const StoredModel& model);

// Its weights, in f32; of an adapter those of its base as well. With a `code`, those that products alone read are in codes of
// fewer bits; they go there tensor by tensor, and never lie in memory as f32. Files that a
// manifest lists are compared with it first. Throws IoError naming parameters that are missing, of another shape, or unknown,
// and Error for a model, or a number, that the code has no place for. `reads`, where it is given: which ones to read, of a model that is no
// adapter.
Params load_params(FileSystem& files, const StoredModel& model, std::optional<WeightCode> code = {},
                   const std::function<bool(const std::string& name)>& reads = nullptr);
// Throws what load_params() would, and takes no memory for the weights.
void check_params(FileSystem& files, const StoredModel& model);
// Of an adapter what it holds itself.
Params load_adapter(FileSystem& files, const StoredModel& adapter);

// Its weights for a run of `network`, which begins with them: what the network redraws, and the folder does not hold in its
// shape, is drawn as init_params() does, and said in a line of the log. `specs`: those that are read, in their types, or, with
// a `code`, those with a matrix form tensor by tensor into it.
Params initial_params(FileSystem& files, const StoredModel& model, const Network& network,
                      uint64_t seed);
Params initial_params(FileSystem& files, const StoredModel& model, const Network& network,
                      uint64_t seed, std::span<const ParamSpec> specs,
                      std::optional<WeightCode> code = {});
// Throws what that would, whatever labels the network has.
void check_initial_params(FileSystem& files, const StoredModel& model);

// What each tensor of `weights` is, as the network says; but the copy of a parameter that the file does not hold is the
// parameter itself.
Meaning meaning_in(const SafetensorsFolder& weights, const Network& network);

// The name that the weight files have for each parameter, by our name.
std::map<std::string, std::string> stored_names(FileSystem& files, const StoredModel& model);

// model.init.from of a configuration.
std::optional<std::string> begins_with(const YamlNode& tree);

// Lays `model.*` of a configuration that names `model.init.from` over what that directory says; of an adapter, model.lora
// too. Throws ConfigError where both name different networks; what is dropped out and how weights would be drawn may differ. Where the
// configuration names no data.tokenizer, it is the directory's, as are ModelEntry::data_keys. Other configurations
// come back as they are.
YamlNode with_stored_model(FileSystem& files, YamlNode tree);

// A configuration with the model `stored` in place of its own of the same type, as for an evaluation; its model.head stays, for
// take_network() to look at. Where it names no data.tokenizer, it is that one's, as are
// ModelEntry::data_keys.
YamlNode with_model_of(FileSystem& files, const StoredModel& stored, YamlNode tree);

}  // namespace mstrain
