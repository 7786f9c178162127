#include "suites/reinforcement/train/joint_envs.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "suites/reinforcement/train/messages.h"

namespace mstrain::reinforcement {
namespace {

constexpr const char* kObservations = "observations";
constexpr const char* kActions = "actions";
constexpr const char* kSteps = "steps of environments";

Elements elements(std::span<const float> values) {
  return {const_cast<float*>(values.data()), std::ssize(values), Dtype::kF32};
}

// All that a step gave, one after another, the episodes last.
void write_step(const Environments& envs, std::string& message) {
  char* to = message.data();
  const auto put = [&](const auto& values) {
    const std::span<const std::byte> bytes = std::as_bytes(values);  // of no episodes: none
    std::ranges::copy(bytes, reinterpret_cast<std::byte*>(to));
    to += bytes.size();
  };
  put(envs.observations());
  put(envs.legal());
  put(envs.rewards());
  put(envs.final_observations());
  put(envs.terminated());
  put(envs.truncated());
  const int64_t episodes = std::ssize(envs.finished());
  put(std::span(&episodes, 1));
  put(envs.finished());
}

// Flags of an environment.
int64_t legal_of(const EnvSpec& spec) { return spec.masks ? spec.agents * spec.action.n : 0; }

// Where a step fails, messages on their way are read from and written to memory that goes with whoever called it.
struct SettleOnExit {
  const std::vector<Event>& events;
  ~SettleOnExit() {
    for (const Event& event : events) {
      event.settle();
    }
  }
};

}  // namespace

int64_t step_message_bytes(const EnvSpec& spec, int64_t n) {
  const int64_t numbers = n * spec.agents * (2 * spec.observation.size() + 1);
  return numbers * static_cast<int64_t>(sizeof(float)) + n * (2 + legal_of(spec)) +
         static_cast<int64_t>(sizeof(int64_t)) + n * static_cast<int64_t>(sizeof(Episode));
}

JointEnvs::JointEnvs(const EnvSpec& spec, EnvGroup* own, int64_t each, uint64_t seed,
                     Communicator& ranks)
    : spec_(spec), own_(own), each_(each), seed_(seed), ranks_(ranks) {
  resize(spec, first(ranks.size()));
  messages_.assign(count(ranks.size()), std::string(count(step_message_bytes(spec, each)), 0));
}

void JointEnvs::begin() {
  const int64_t width = spec_.agents * spec_.observation.size();
  if (own_ != nullptr) {
    std::ranges::copy(own_->observations(), observations_.begin());
    std::ranges::copy(own_->legal(), legal_.begin());
  }
  const int64_t flags = legal_of(spec_);
  const std::span<float> all(observations_);
  for (int rank = 1; rank < ranks_.size(); ++rank) {
    ranks_.receive({&steps_, 1, Dtype::kI64}, rank, kObservations).wait();  // the same of all
    ranks_
        .receive(elements(all.subspan(count(first(rank) * width), count(each_ * width))), rank,
                 kObservations)
        .wait();
    if (flags > 0) {
      ranks_
          .receive({legal_.data() + first(rank) * flags, each_ * flags, Dtype::kU8}, rank,
                   kObservations)
          .wait();
    }
  }
}

void JointEnvs::draw_noise(bool normal, int64_t width, std::span<float> out, int64_t hold) const {
  reinforcement::draw_noise(seed_, steps_ - steps_ % hold, 0, rows(), normal, width, out);
}

void JointEnvs::step(std::span<const float> actions) {
  const size_t width = actions.size() / rewards_.size() * count(spec_.agents);
  std::vector<Event> events;
  const SettleOnExit settled{events};
  for (int rank = 1; rank < ranks_.size(); ++rank) {
    events.push_back(
        ranks_.send(elements(actions.subspan(count(first(rank)) * width, count(each_) * width)),
                    rank, kActions));
    events.push_back(ranks_.receive(octets(messages_[static_cast<size_t>(rank)]), rank, kSteps));
  }
  finished_.clear();
  if (own_ != nullptr) {
    own_->step(actions.first(count(own_->size()) * width));
    take_own();
  }
  for (const Event& event : events) {
    event.wait();
  }
  for (int rank = 1; rank < ranks_.size(); ++rank) {
    take(rank);
  }
  ++steps_;
}

void JointEnvs::take_own() {
  std::ranges::copy(own_->observations(), observations_.begin());
  std::ranges::copy(own_->legal(), legal_.begin());
  std::ranges::copy(own_->rewards(), rewards_.begin());
  std::ranges::copy(own_->final_observations(), final_observations_.begin());
  std::ranges::copy(own_->terminated(), terminated_.begin());
  std::ranges::copy(own_->truncated(), truncated_.begin());
  finished_.insert(finished_.end(), own_->finished().begin(), own_->finished().end());
}

void JointEnvs::take(int rank) {
  const char* from = messages_[static_cast<size_t>(rank)].data();
  // As write_step() puts them, `width` for each environment.
  const auto get = [&](auto& all, int64_t width) {
    const auto part = std::span(all).subspan(count(first(rank) * width), count(each_ * width));
    // Which may be nothing, at no address.
    std::copy_n(from, part.size_bytes(), reinterpret_cast<char*>(part.data()));
    from += part.size_bytes();
  };
  get(observations_, spec_.agents * spec_.observation.size());
  get(legal_, legal_of(spec_));
  get(rewards_, spec_.agents);
  get(final_observations_, spec_.agents * spec_.observation.size());
  get(terminated_, 1);
  get(truncated_, 1);
  int64_t episodes = 0;
  std::memcpy(&episodes, from, sizeof(episodes));
  check(episodes >= 0 && episodes <= each_,
        "rank {}: {} episodes end with a step of {} environments", rank, episodes, each_);
  const size_t before = finished_.size();
  finished_.resize(before + count(episodes));
  from += sizeof(episodes);
  std::copy_n(from, count(episodes) * sizeof(Episode),
              reinterpret_cast<char*>(finished_.data() + before));
}

void serve(EnvGroup& envs, int64_t steps, Communicator& ranks) {
  int64_t taken = envs.steps_taken();
  ranks.send({&taken, 1, Dtype::kI64}, 0, kObservations).wait();
  ranks.send(elements(envs.observations()), 0, kObservations).wait();
  if (!envs.legal().empty()) {
    ranks
        .send({const_cast<uint8_t*>(envs.legal().data()), std::ssize(envs.legal()), Dtype::kU8}, 0,
              kObservations)
        .wait();
  }
  std::vector<float> actions(count(envs.rows() * envs.spec().action.size()));
  std::string message(count(step_message_bytes(envs.spec(), envs.size())), 0);
  for (int64_t step = 0; step < steps; ++step) {
    ranks.receive(elements(actions), 0, kActions).wait();
    envs.step(actions);
    write_step(envs, message);
    ranks.send(octets(message), 0, kSteps).wait();
  }
}

}  // namespace mstrain::reinforcement
