#include "core/train/outside.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/train/checkpoint.h"
#include "core/train/rank_talk.h"

namespace mstrain {
namespace {

std::optional<std::string> named_in(FileSystem& files, const std::string& folder,
                                    const OutsideState& state) {
  const Json ids = read_progress(files, folder).outside;
  const auto found = ids.find(state.name());
  return found == ids.end() ? std::nullopt : std::optional(found->get<std::string>());
}

std::string must_name(FileSystem& files, const std::string& folder, const OutsideState& state) {
  const std::string path = join_path(folder, kStateFile);
  if (!files.exists(path)) {
    throw IoError(fmt::format(
        "{}: is no checkpoint of a run, which names its {} in {}; an export, which is there to be "
        "served, does not: name the run or a checkpoint of it",
        folder, state.name(), kStateFile));
  }
  const std::optional<std::string> id = named_in(files, folder, state);
  if (!id) {
    throw IoError(fmt::format("{}: names no {}", join_path(folder, kStateFile), state.name()));
  }
  return *id;
}

}  // namespace

void resume_outside(FileSystem& files, const std::string& folder, OutsideState& state) {
  const std::string id = must_name(files, folder, state);
  try {
    state.resume(id);
  } catch (const IoError& error) {
    if (error.error_number() != 0) {
      throw;
    }
    throw IoError(fmt::format(
        "{}; {} needs it: move that folder away, and the same command goes on from the checkpoint "
        "before",
        error.what(), folder));
  }
}

void read_outside(FileSystem& files, const std::string& folder, OutsideState& state) {
  state.open_to_read(must_name(files, folder, state));
}

void confirm_outside(FileSystem& files, const std::string& checkpoints, const std::string& id,
                     OutsideState& state, Communicator* ranks) {
  Json needed = Json::array();
  if (ranks == nullptr || ranks->rank() == 0) {
    const auto need = [&](const std::string& name) {
      try {
        if (const auto named = named_in(files, join_path(checkpoints, name), state)) {
          needed.push_back(*named);
        }
      } catch (const IoError& error) {
        if (error.error_number() != 0) {
          throw;
        }
        log_warning("{}; the checkpoint is damaged, and what it names may go", error.what());
      }
    };
    for (const int64_t step : list_checkpoints(files, checkpoints)) {
      need(checkpoint_name(step));
    }
    for (const int64_t step : list_set_aside(files, checkpoints)) {
      need(set_aside_name(step));
    }
  }
  if (ranks != nullptr) {
    needed = Json::parse(told(*ranks, needed.dump(), "checkpoint"));
  }
  state.confirm(id, needed.get<std::vector<std::string>>());
}

}  // namespace mstrain
