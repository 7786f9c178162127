// What stands between an environment and who learns from it.
#pragma once

#include <memory>
#include <string>

#include "suites/reinforcement/env/bytes.h"
#include "suites/reinforcement/env/environment.h"

namespace mstrain::reinforcement {

// The environment with the wrappers that the configuration asks for, from within: sticky actions, rewards cut, rewards
// normalised, observations normalised, frames stacked, the team seen. Throws ConfigError for what does not go together.
std::unique_ptr<VectorEnv> wrapped(std::unique_ptr<VectorEnv> env, const EnvConfig& config);

// Passes everything on; a wrapper overrides what it changes.
class Wrapper : public VectorEnv {
 public:
  Wrapper(std::unique_ptr<VectorEnv> inner, ResetMode mode)
      : inner_(std::move(inner)),
        spec_(inner_->spec()),
        mode_(mode),
        still_(static_cast<size_t>(inner_->size())) {}

  const EnvSpec& spec() const override { return spec_; }
  int64_t size() const override { return inner_->size(); }
  void reset(uint64_t seed, uint64_t first_env) override {
    inner_->reset(seed, first_env);
    still_.assign(still_.size(), 0);
    begin_all(seed, first_env);
  }
  void observe(float* out) const override { inner_->observe(out); }
  void action_masks(uint8_t* out) const override { inner_->action_masks(out); }
  void to_move(int32_t* out) const override { inner_->to_move(out); }
  void get_states(double* out) const override { inner_->get_states(out); }
  void set_states(const double* states) override {
    inner_->set_states(states);
    still_.assign(still_.size(), 0);
    begin_all(0, 0);
  }
  Image picture(int64_t i) const override { return inner_->picture(i); }
  void set_learning(bool learning) override { inner_->set_learning(learning); }
  void copy_statistics(const VectorEnv& from) override;
  std::string save() const override;
  void load(std::string_view bytes) override;

 protected:
  virtual std::string_view kind() const = 0;  // names its part of a saved state
  virtual void save_own(ByteWriter& out) const = 0;
  virtual void load_own(ByteReader& in) = 0;
  virtual void copy_own(const Wrapper& /*from*/) {}
  // After a reset of everything, when the first observations are there.
  virtual void begin_all(uint64_t /*seed*/, uint64_t /*first_env*/) {}

  int64_t rows() const { return inner_->size() * spec_.agents; }
  // Whether environment i takes no action in the step that comes or has just been taken; until note_ends().
  bool is_still(int64_t i) const { return still_[static_cast<size_t>(i)] != 0; }
  bool begins_when_still() const { return mode_ == ResetMode::kNextStep; }
  bool begins_at_end() const { return mode_ == ResetMode::kSameStep; }
  // With the flags of the step just taken.
  void note_ends(const uint8_t* terminated, const uint8_t* truncated);

  std::unique_ptr<VectorEnv> inner_;
  EnvSpec spec_;

 private:
  ResetMode mode_;
  std::vector<uint8_t> still_;  // [n]
};

// Flags and observations of a step, of the caller or, where the caller wants none, one's own.
struct OwnBuffers {
  std::vector<float> observations, finals, rewards;
  std::vector<uint8_t> terminated, truncated;

  explicit OwnBuffers(const VectorEnv& env);
  StepBuffers filled(const StepBuffers& wanted);
};

}  // namespace mstrain::reinforcement
