// What stands where a run is to write: a run to go on from, nothing, or what it must not touch.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/train/checkpoint.h"
#include "core/train/preflight.h"
#include "core/train/session.h"

namespace mstrain {

// What goes on: the newest sound checkpoint and its state, and what is to be another than so far.
struct PreviousRun {
  std::string folder;
  ProgressState progress;
  std::vector<KeyChange> changes;

  bool changes_in(std::string_view section) const;
  Trainer::Data data() const;
};

// Throws ConfigError where `directory` holds a sweep.
void check_no_sweep(FileSystem& files, const std::string& directory);

// Whether run.json of `directory` is not what its run would have written at its end: it died, or failed, before.
bool ended_without_its_word(FileSystem& files, const std::string& directory);

// Of a checkpoint: changeable() of the configuration that it was made with. What config.yaml of the run says may be newer than
// any checkpoint.
inline constexpr const char* kChangeableFile = "changeable.yaml";
// What of a whole configuration another one may say on request.
YamlNode changeable(const YamlNode& resolved);

// A configuration that was written once, as `resolve` (SessionStart::with_defaults) reads it now; as it is where that is null or cannot.
YamlNode with_defaults(YamlNode written, const std::function<YamlNode(const YamlNode&)>& resolve);

// The configuration that the run in `directory` was last started with, or that its `checkpoint` was made with where one is given; none
// where it is not written down.
std::optional<YamlNode> previous_config(FileSystem& files, const std::string& directory,
                                        const SessionStart& start,
                                        const std::string& checkpoint = "");

// The run in `directory`, whose newest sound checkpoint is `folder`; empty: there is none. Throws ConfigError for changes that nobody asked
// for, where checkpoint.resume forbids to go on, and where a run ended whose checkpoints are gone.
std::optional<PreviousRun> find_previous(FileSystem& files, const std::string& directory,
                                         const std::string& folder, const TrainConfig& config,
                                         const YamlNode& resolved, const SessionStart& start);

// What train() would refuse to begin for, of what stands in run.output_dir. Changes nothing.
void find_previous_in_the_way(FileSystem& files, const TrainConfig& config,
                              const YamlNode& resolved, const SessionStart& start,
                              Findings& findings);

}  // namespace mstrain
