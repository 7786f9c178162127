// A training run's state as a folder, <run directory>/checkpoints/step-00001000:
//   model.safetensors      parameters, under the names and shapes that Hugging Face uses; of an adapter
//                          adapter_model.safetensors, as PEFT has it
//   optimizer.safetensors  the optimizer's tensors, as <parameter>.<slot>
//   state.json             step, seed, position in the data, schedule; instruction set and threads that made it
//   changeable.yaml        what another configuration may say on request, as it was (core/train/previous_run.h)
//   other files            config.json, the tokenizer: given by the suite, so that the folder opens elsewhere
//   MANIFEST.json          size and SHA-256 of each file, written last: without it there is no checkpoint
// Contents depend on the state, of which the instruction set and the number of threads are part, and on what may change
// on request. One writer per run directory, guarded by a lock.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/files.h"
#include "core/base/json.h"
#include "core/train/stored_tensor.h"

namespace mstrain {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kStateFile = "state.json";

// A model whose weights a run holds that no step changes: the key that names it may come to mean another while the run stands.
struct FrozenOrigin {
  std::string
      checkpoint;  // below what the key says: "checkpoints/step-00000100"; empty: that folder itself
  std::string manifest;  // SHA-256 of its MANIFEST.json; empty where it has none
};
// By the key: "model.init.from", "objective.grpo.rewards[0].path".
using FrozenOrigins = std::map<std::string, FrozenOrigin>;
inline constexpr const char* kInitFromKey = "model.init.from";

// What a run is besides its tensors.
struct ProgressState {
  int64_t step = 0;           // updates done
  uint64_t seed = 0;          // all random numbers are functions of it and the step
  int64_t samples = 0;        // taken from the training data
  int64_t micro_batch = 0;    // the order of sums depends on it
  std::string data;           // identity of the training data
  std::string isa;            // instruction set of the last steps; empty where it is not known
  int64_t threads = 0;        // of the last steps; 0 where it is not known
  Json schedule;              // LearningRate::state()
  Json guard = nullptr;       // StepGuard::state(), where steps may be skipped
  Json loss_scale = nullptr;  // {scale, taken} (core/optim/loss_scale.h), where it is dynamic
  Json callbacks = Json::object();  // Callback::state() by name
  Json outside = Json::object();    // what OutsideState::prepare() said, by name
  FrozenOrigins frozen = {};
};

struct CheckpointContents {
  ProgressState progress;
  std::vector<StoredTensor> model;
  std::vector<StoredTensor> optimizer;
  std::vector<std::pair<std::string, std::string>> files;  // name, bytes
  std::string model_file = kModelFile;
};

// Writes `folder` and returns when it is durable. On an error what was there before is unchanged. `ranks`: those that have the
// tensors, all of which call it and write side by side what they have (checkpoint_together.h).
void save_checkpoint(FileSystem& files, const std::string& folder,
                     const CheckpointContents& contents, Communicator* ranks = nullptr);

std::string print_progress(const ProgressState& progress);
// Throws IoError naming `name` for anything but what print_progress writes.
ProgressState parse_progress(std::string_view text, const std::string& name);
// That of a checkpoint's folder. Throws IoError.
ProgressState read_progress(FileSystem& files, const std::string& folder);

// Copies `file` of `folder` into the memory of `tensors`, which nobody else may be reading; each must be there with its
// shape and dtype, and nothing else may be. Of parts only their own elements are read; padding is 0. What other ranks have is
// looked for alone. Throws IoError.
void load_tensors(FileSystem& files, const std::string& folder, const std::string& file,
                  const std::vector<StoredTensor>& tensors);

// "step-00001000"
std::string checkpoint_name(int64_t step);
std::optional<int64_t> parse_checkpoint_name(std::string_view name);
// "step-00001000.best": what the step came to, where the run ended there with the weights of another one. No run goes on from it.
std::string set_aside_name(int64_t step);

// Steps of the checkpoints in `directory` (those with a manifest), ascending. Empty where the directory is missing.
std::vector<int64_t> list_checkpoints(FileSystem& files, const std::string& directory);

// The newest checkpoint all of whose files have their sizes and digests. Damaged newer ones are reported with a warning;
// where `set_aside`, they are renamed to <name>.damaged, so that the run may write that step again. Without a sound one:
// none where there was no checkpoint at all, else IoError.
std::optional<std::string> newest_checkpoint(FileSystem& files, const std::string& directory,
                                             bool set_aside);

// Removes the oldest but `keep`, and but those of the steps `besides`; and what was set aside but for that of step `aside`.
void prune_checkpoints(FileSystem& files, const std::string& directory, int64_t keep,
                       std::span<const int64_t> besides = {},
                       std::optional<int64_t> aside = std::nullopt);
// The steps of which something is set aside.
std::vector<int64_t> list_set_aside(FileSystem& files, const std::string& directory);

}  // namespace mstrain
