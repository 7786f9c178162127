// What a run of an agent saves, and how it goes on from there.
#include <algorithm>

#include "core/base/error.h"
#include "core/base/isa.h"
#include "core/base/log.h"
#include "core/train/checkpoint.h"
#include "core/train/previous_run.h"
#include "core/train/rank_talk.h"
#include "core/train/run_device.h"
#include "suites/reinforcement/train/agent_session.h"

namespace mstrain::reinforcement {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 40;
// Of a saved state, room for what stands beside the agent's: counters and the last episodes.
constexpr size_t kRest = 16 << 10;

std::string state_file(int rank) { return fmt::format("agent-{:04}.bin", rank); }

// What keeps a run from going on as it began. Length, evaluation and what is written may change.
bool may_differ(std::string_view key) {
  for (const std::string_view free : {"run.", "log.", "checkpoint.", "eval.", "memory."}) {
    if (key.starts_with(free) && key != "run.seed") {
      return true;
    }
  }
  return key == "schedule.total_env_steps" || key == "distribution.timeout_s";
}

// With --change, what decides how fast it learns may change, too.
bool may_be_changed(std::string_view key) {
  return may_change(key) == Changing::kOnRequest &&
         (key.starts_with("optimizer.") || key.starts_with("schedule."));
}

void check_changes(const std::string& path, const YamlNode& before, const YamlNode& now,
                   const std::vector<std::string>& asked) {
  std::string refused;
  for (const KeyChange& change : changed_keys(before, now)) {
    const bool is_asked = std::find(asked.begin(), asked.end(), change.key) != asked.end();
    if (is_asked && may_be_changed(change.key)) {
      log_info("from here on {}", describe(change));
    } else if (!may_differ(change.key)) {
      refused += (refused.empty() ? "" : "; ") + describe(change);
    }
  }
  if (!refused.empty()) {
    throw ConfigError(fmt::format(
        "{}: this run began with other values ({}); restore them, choose another run.output_dir, "
        "or begin anew with --restart",
        path, refused));
  }
}

}  // namespace

std::optional<std::string> AgentSession::previous_checkpoint() {
  std::optional<std::string> newest;
  work_together("newest checkpoint", [&] {
    if (first_) {
      newest = newest_checkpoint(files_, directory_->checkpoints(), /*set_aside=*/true);
    }
  });
  const std::string folder = told(ranks_, newest.value_or(""), "newest checkpoint");
  if (folder.empty()) {
    return std::nullopt;
  }
  if (config_.checkpoint.resume == Resume::kNever) {
    throw ConfigError(fmt::format(
        "checkpoint.resume: never, but {} exists; choose another run.output_dir, or say auto to go "
        "on",
        folder));
  }
  if (const auto before = previous_config(files_, config_.run.directory(), request_.start)) {
    check_changes(directory_->at(kConfigFile), *before, resolved_, request_.start.changes);
  }
  return folder;
}

void AgentSession::restore(const std::string& folder) {
  const ProgressState progress = read_progress(files_, folder);
  if (progress.isa != to_string(isa()) || progress.threads != current_context().num_threads()) {
    log_warning(
        "{}: made with {} and {} threads, going on with {} and {}: numbers differ in their last "
        "bits from those of a run that never stopped",
        folder, progress.isa, progress.threads, to_string(isa()), current_context().num_threads());
  }
  load_tensors(files_, folder, kModelFile, agent_->model());
  load_tensors(files_, folder, kOptimizerFile, agent_->optimizer());
  int began_with = 0;
  while (files_.exists(join_path(folder, state_file(began_with)))) {
    ++began_with;
  }
  const int ranks = ranks_ == nullptr ? 1 : ranks_->mesh().ranks();
  if (began_with != ranks) {
    throw ConfigError(fmt::format(
        "{}: is of a run of {} rank{}, and there {} {}: go on with as many (--ranks, "
        "distribution.actors)",
        folder, began_with, began_with == 1 ? "" : "s", ranks == 1 ? "is" : "are", ranks));
  }
  const std::string state = join_path(folder, state_file(ranks_ == nullptr ? 0 : ranks_->rank()));
  const std::string bytes = files_.read(state, kMostBytes);
  ByteReader reader(bytes, state);
  env_steps_ = reader.get<int64_t>();
  iterations_ = reader.get<int64_t>();
  logged_ = reader.get<int64_t>();
  evaluated_ = reader.get<int64_t>();
  stopped_ = reader.get<uint8_t>() != 0;
  episodes_.load(reader);
  agent_->load(reader.get_text());
  reader.expect_end();
  saved_ = env_steps_;
}

// Whether eval.stop_at_return is now more than the last evaluation's return, or none.
bool AgentSession::asks_for_more() const {
  const std::optional<double>& enough = config_.eval.stop_at_return;
  bool more = !enough;
  if (first_ && enough) {
    for (const Json& row : read_metrics(files_, directory_->at(kMetricsFile))) {
      if (row.contains(kEvalReturn) && row["step"].get<int64_t>() == evaluated_) {
        more = row[kEvalReturn].get<double>() < *enough;
      }
    }
  }
  return told(ranks_, more ? 1 : 0, "eval.stop_at_return") != 0;
}

// Everything of this rank that is in no tensor.
std::string AgentSession::state() const {
  const std::string agent = agent_->save();
  ByteWriter out;
  out.reserve(agent.size() + kRest);
  out.put(env_steps_);
  out.put(iterations_);
  out.put(logged_);
  out.put(evaluated_);
  out.put<uint8_t>(stopped_ ? 1 : 0);
  episodes_.save(out);
  out.put_text(agent);
  return out.take();
}

void AgentSession::save() {
  const auto begin = Clock::now();
  std::string own;
  work_together("checkpoint", [&] { own = state(); });
  std::vector<std::string> states = told_to_first(ranks_, std::move(own), "checkpoint");
  work_together("checkpoint", [&] {
    if (!first_) {
      return;
    }
    CheckpointContents contents;
    contents.progress.step = env_steps_;
    contents.progress.seed = static_cast<uint64_t>(config_.run.seed);
    contents.progress.data = config_.environment.env.name.value_or("");
    contents.progress.isa = to_string(isa());
    contents.progress.threads = current_context().num_threads();
    contents.progress.schedule = Json::object();
    contents.model = agent_->model();
    contents.optimizer = agent_->optimizer();
    contents.files.emplace_back(kPlayedFile, to_yaml(resolved_));
    contents.files.emplace_back(kEnvironmentsFile, agent_->env().save());
    for (size_t rank = 0; rank < states.size(); ++rank) {
      contents.files.emplace_back(state_file(static_cast<int>(rank)), std::move(states[rank]));
    }
    events_->sync();
    save_checkpoint(files_, join_path(directory_->checkpoints(), checkpoint_name(env_steps_)),
                    contents);
    prune_checkpoints(files_, directory_->checkpoints(), config_.checkpoint.keep);
  });
  meet(ranks_, "checkpoint");  // which there is none of where the first rank failed
  agent_->release(list_checkpoints(files_, directory_->checkpoints()).front());
  saved_ = env_steps_;
  saved_at_ = Clock::now();
  away_ += seconds_since(begin);
}

}  // namespace mstrain::reinforcement
