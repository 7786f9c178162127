// State of a run that is no tensor of its steps, such as tables of rows larger than memory. It joins in checkpoints: what it was is prepared,
// named in state.json, and confirmed once the manifest is there, so that dense weights and tables are of one step after any kill.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/comm/communicator.h"

namespace mstrain {

// Every rank calls each of these, in the same order.
class OutsideState {
 public:
  virtual ~OutsideState() = default;
  virtual std::string name() const = 0;  // in state.json
  // Goes on from what it was called `id`; none: begins anew. Throws IoError where that is not there.
  virtual void resume(const std::optional<std::string>& id) = 0;
  // As it was called `id`, to be looked at alone: others may read it, or go on from it, meanwhile.
  virtual void open_to_read(const std::string& id) { resume(id); }
  // Between two steps: what the state after `step` steps is called. It becomes durable beside training; wait() returns when it is,
  // and throws what it failed with.
  virtual std::string prepare(int64_t step) = 0;
  virtual void wait(const std::string& id) = 0;  // of any thread
  // A complete checkpoint names it; `needed` are those that any checkpoint names. What nobody names may go. Of any thread.
  virtual void confirm(const std::string& id, const std::vector<std::string>& needed) = 0;
  virtual std::string describe() const = 0;  // how it fared, for people; empty: nothing to say
};

// As the checkpoint in `folder` names it. Throws IoError where it names none.
void resume_outside(FileSystem& files, const std::string& folder, OutsideState& state);
void read_outside(FileSystem& files, const std::string& folder, OutsideState& state);

// After a checkpoint was written into `checkpoints`. `ranks`: all of them call it; null: there is one.
void confirm_outside(FileSystem& files, const std::string& checkpoints, const std::string& id,
                     OutsideState& state, Communicator* ranks);

}  // namespace mstrain
