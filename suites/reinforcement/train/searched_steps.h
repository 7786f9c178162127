// What a searching agent has done: the last steps of its environments, with what its searches found, and sequences to learn from.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "suites/reinforcement/algorithms/muzero.h"
#include "suites/reinforcement/env/bytes.h"
#include "suites/reinforcement/train/sum_tree.h"

namespace mstrain::reinforcement {

// A step of r rows.
struct SearchedStep {
  std::span<const float> observations;      // [r, O]: before it
  std::span<const uint8_t> legal;           // [r, A], or none: there
  std::span<const float> policies, values;  // [r, A], [r]: of the searches there
  std::span<const float> actions, rewards;  // [r]
  std::span<const uint8_t> terminated, truncated;
  std::span<const float>
      last_values;  // [r]: of the last observation of an episode that is truncated
};

class SearchedSteps {
 public:
  // `config` must outlive it.
  SearchedSteps(const MuZero& config, int64_t rows, const EnvSpec& env);

  void add(const SearchedStep& step);

  int64_t added() const { return added_; }  // steps of every row, ever
  // Steps that enough others follow to learn from.
  int64_t size() const;
  // Sequences drawn alike or by priority: a function of what is stored, `seed` and `draw`. size() > 0. Beyond a terminated step rewards and
  // values are 0; beyond a truncated one nothing is known.
  MuZeroBatch sample(int64_t b, uint64_t seed, uint64_t draw) const;

  // Places of b stored steps, drawn alike; their observations [b, O]; what was legal [b, A]; what a new search found there.
  std::vector<int64_t> draw_places(int64_t b, uint64_t seed, uint64_t draw) const;
  std::vector<float> observations_at(std::span<const int64_t> places) const;
  std::vector<uint8_t> legal_at(std::span<const int64_t> places) const;
  void refresh(std::span<const int64_t> places, std::span<const float> policies,
               std::span<const float> values);

  static int64_t bytes_of(const MuZero& config, int64_t rows, const EnvSpec& env);
  // save() writes the steps that are kept, and makes room for them and `more`. load() reads what earlier versions wrote, too: room
  // for all steps that would be kept.
  void save(ByteWriter& to, size_t more = 0) const;
  void load(ByteReader& from);

 private:
  // Of what is kept of a step of one row, in the order of a checkpoint: f(values, numbers of a row).
  template <class Self, class F>
  static void each_kept(Self& self, const F& f) {
    f(self.observations_, self.observation_size_);
    f(self.taken_, 1);
    f(self.policies_, self.actions_);
    f(self.values_, 1);
    f(self.rewards_, 1);
    f(self.last_values_, 1);
    f(self.legal_, self.flags_);
    f(self.terminated_, 1);
    f(self.truncated_, 1);
  }
  int64_t stored() const { return std::min(added_, steps_); }
  int64_t place(int64_t step, int64_t row) const { return step % steps_ * rows_ + row; }
  int64_t step_at(int64_t place) const;
  int64_t drawable() const;  // steps of each row
  // Sets the priority of a step that can be drawn, by |value of its search - target|.
  void judge(int64_t step, int64_t row);
  // The value of `step`, of n steps and what a search found behind them.
  float target(int64_t step, int64_t row) const;

  const MuZero& config_;
  int64_t steps_, rows_, observation_size_, actions_, flags_;  // flags: legal actions of a row
  int64_t added_ = 0;
  std::vector<float> observations_, taken_, policies_, values_, rewards_, last_values_;
  std::vector<uint8_t> legal_, terminated_, truncated_;
  std::optional<SumTree> tree_;  // where sequences are drawn by priority
};

}  // namespace mstrain::reinforcement
