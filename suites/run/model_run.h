// The configuration of a run of one model, with what follows from it: the seam between a model and everything that trains,
// plans and evaluates.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/nn/lora.h"
#include "core/train/planned_run.h"
#include "core/train/preflight.h"
#include "core/train/task.h"
#include "suites/run/network.h"

namespace mstrain {

// What a run takes at least, told by arithmetic alone, for any numbers that a configuration may hold.
struct LeastSize {
  double parameters = 0;    // nearly
  double sample_bytes = 0;  // of a step's samples
  std::string samples;      // for people: "the 1e+10 tokens of a step"
  std::string model_keys;   // "model.hidden_size, model.num_layers and model.vocab_size"
};

class AtomicFolder;
class Callback;
struct StoredModel;

class ModelRun {
 public:
  TrainConfig train;
  std::optional<LoraConfig>
      lora;  // model.lora: adapters are trained, on a network that stays as it is

  virtual ~ModelRun() = default;

  // Reads and checks the whole of `tree`, or `model` alone. Throws ConfigError with file and line.
  void read(const YamlNode& tree);
  void read_model(const YamlNode& tree);
  // The checks of read(), of `train` as it was changed since. Throws ConfigError.
  void recheck(const YamlNode& tree) const;
  // Every key, defaults filled in.
  YamlNode written() const;
  std::vector<ConfigKeyDoc> keys() const;
  // Declares the section `model`: the model's keys, and those of all models.
  void fields(ConfigFields& model);

  // The model itself; and with its adapters, where it has any.
  virtual std::shared_ptr<const Network> network() const = 0;
  std::shared_ptr<const Network> adapted_network() const;
  // Takes the place of the configuration's own, of the same model.type; with its adapters, or with none.
  virtual void take_network(const Network& network) = 0;
  void take_adapted_network(const Network& network);

  // The data have so many tokens or labels: fills in what the configuration leaves open. Throws ConfigError, with the line in
  // `tree`, where the network has fewer.
  virtual void settle(int64_t ids, const YamlNode& tree) = 0;
  // Throws ConfigError: --offline needs the number.
  [[noreturn]] virtual void fail_unsettled(const YamlNode& tree) const = 0;
  // As far as it can be told without opening data. Throws IoError that names the key.
  virtual std::optional<int64_t> known_ids(FileSystem& files, const YamlNode& tree) const = 0;

  // Opens the data; `folder` is of a checkpoint whose tokenizer they are read with, where it has one. Throws IoError and
  // ConfigError.
  virtual void open_data(FileSystem& files, const YamlNode& tree,
                         const std::optional<std::string>& folder) = 0;
  // Before settle(): takes from a run of the same kind, whose data are open, what plans need to know of them.
  virtual void take_data_of(const ModelRun& /*opened*/) {}
  // How many tokens or labels the opened data have.
  virtual int64_t data_ids() const = 0;
  // Whether anything is held out for evaluation.
  virtual bool holds_out() const = 0;
  // What is allowed and still makes no sense with data of so many tokens or labels.
  virtual void find_oddities_of(int64_t ids, const YamlNode& tree, Findings& findings) const = 0;

  // What is trained, of the model itself, and with its adapters alone where it has any; the network must be settled.
  // `initial` is left to the caller; frozen weights are drawn, unless the caller says where they are.
  virtual TrainTask task() const = 0;
  TrainTask adapted_task() const;
  // Throws ConfigError, with the line in `tree`, where model.lora names no layer of the model; finds ranks that are wider than
  // layers. The network must be settled.
  void check_adapters(const YamlNode& tree, Findings& findings) const;
  // After open_data(). `source` is config.json of the directory that the model began with.
  virtual TrainData samples(const Json& source) const = 0;

  // After open_data(): what a dry run says of this kind of model besides `plan`, of a rank in the current context; lines for people.
  virtual std::string describe_besides(const RunPlan& /*plan*/) const { return ""; }

  // After open_data(): the token that texts are taught to end with, where that is part of what is learnt.
  virtual std::optional<int32_t> taught_end() const { return {}; }

  // What has to follow a training of samples(), besides what every run has; valid as long as this.
  virtual std::vector<Callback*> callbacks() const { return {}; }

  // What else than model.init.from names models that the run reads and leaves as they are: values by key, where "[1]" after a list's key is
  // the second of it.
  virtual std::map<std::string, std::string> models_besides() const { return {}; }

  virtual LeastSize least_size() const = 0;
  // The same network with so many equal blocks, for plans that follow from those of fewer: by model.num_layers. None where it has no such key.
  virtual Overrides with_layers(int64_t layers) const;
  // Changes that leave the work of a sample as it is, and let any batch be planned that is twice a multiple of TrainTask::samples_together.
  virtual Overrides profile_changes() const { return {}; }
  // Why no plan for a cluster tells what a run of it takes; it runs on any number of ranks along data then. None: one does.
  virtual std::optional<std::string> unplanned() const { return {}; }
  // Changes that make samples smaller, from mild to strong.
  virtual std::vector<Overrides> smaller_samples() const;

 protected:
  // The keys of the section `model`, and the section `data`.
  virtual void declare_model(ConfigFields& keys) = 0;
  virtual void declare_data(ConfigFields& fields) = 0;
  // Keys of the model that are left to what other sections say. Before check().
  virtual void fill_in() {}
  // What one key alone cannot tell.
  virtual void check(const YamlNode& tree) const = 0;

  // The file that describes the network in a checkpoint, whose weights have the run's precision. `source`: see samples().
  std::string config_json(const Json& source) const;

 private:
  ConfigFields sections();
};

// What goes into an export of a stored model.
struct ExportOptions {
  bool merges = false;  // of an adapter: whole weights
  std::optional<std::string>
      since;  // of rows: those alone that learned after this checkpoint of the run
};

using Holds = std::function<bool(const std::string& stored)>;

// model.type with its parts; the parts begin with defaults.
struct ModelEntry {
  std::string type;
  std::vector<std::string> hf_types;  // model_type of config.json: read, and written
  std::unique_ptr<ModelRun> (*run)();
  // Throws Error naming the key that asks for another network than this model's; `source` names the file. `holds` says
  // whether the weights beside it hold a tensor of a name.
  std::shared_ptr<const Network> (*describe)(const Json& config_json, const std::string& source,
                                             const Holds& holds);
  // What an export writes besides weights into `folder`, of the checkpoint `model`; null: nothing.
  void (*export_besides)(FileSystem& files, const StoredModel& model, AtomicFolder& folder,
                         const ExportOptions& how) = nullptr;
  // Keys of the section `data`, which is `given`, that it leaves out and that the folder of a model of this type tells; null: none.
  // Throws IoError, or Error naming the file and its key.
  YamlNode (*data_keys)(FileSystem& files, const StoredModel& model,
                        const YamlNode& given) = nullptr;
};

// Makes a model known to all commands. Once for each type, before any of them runs.
void add_model(ModelEntry entry);

// Throws ConfigError, with the line in `tree`, where model.type is missing or none that is known.
const ModelEntry& model_of(const YamlNode& tree);
// Of a config.json. Throws Error naming `source`.
const ModelEntry& model_of(const Json& config_json, const std::string& source);

// The configuration `tree`, read.
std::unique_ptr<ModelRun> read_run(const YamlNode& tree);

}  // namespace mstrain
