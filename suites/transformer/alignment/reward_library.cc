#include "suites/transformer/alignment/reward_library.h"

#include <cmath>
#include <limits>

#include "core/base/crash_notice.h"
#include "core/base/error.h"
#include "core/base/shared_library.h"
#include "suites/transformer/alignment/c_reward.h"

namespace mstrain {
namespace {

const mstrain_reward_api& reward_api(const std::string& path) {
  const auto entry = reinterpret_cast<decltype(&mstrain_reward)>(
      function_of_library(path, "mstrain_reward", "a reward in C"));
  const CrashNotice notice(path.c_str(), "mstrain_reward");
  const mstrain_reward_api* api = entry();
  check(api != nullptr, "{}: mstrain_reward() gave NULL", path);
  check(api->version == MSTRAIN_REWARD_VERSION && api->size == sizeof(mstrain_reward_api),
        "{}: made for version {} of the interface ({} bytes): expected version {} ({} bytes); "
        "compile it again with this mstrain's c_reward.h",
        path, api->version, api->size, MSTRAIN_REWARD_VERSION, sizeof(mstrain_reward_api));
  check(api->name != nullptr && api->name[0] != '\0', "{}: it gives no name", path);
  check(api->score != nullptr && api->last_error != nullptr, "{}: one of its functions is NULL",
        path);
  return *api;
}

mstrain_text text_of(const std::string& text) {
  return {text.c_str(), static_cast<int64_t>(text.size())};
}

}  // namespace

RewardLibrary::RewardLibrary(const std::string& path) : path_(path), api_(reward_api(path)) {}

std::vector<double> RewardLibrary::score(std::span<const WrittenAnswer> answers) const {
  std::vector<mstrain_answer> given;
  for (const WrittenAnswer& answer : answers) {
    given.push_back({text_of(answer.prompt), text_of(answer.text), text_of(answer.expected),
                     answer.tokens, answer.is_cut ? 1 : 0});
  }
  std::vector<double> rewards(answers.size(), std::numeric_limits<double>::quiet_NaN());
  int status = 0;
  {
    const CrashNotice notice(path_.c_str(), "score");
    status = api_.score(given.data(), static_cast<int64_t>(given.size()), rewards.data());
  }
  if (status != 0) {
    const CrashNotice notice(path_.c_str(), "last_error");
    const char* why = api_.last_error();
    fail("{}: {} failed with {}: {}", path_, api_.name, status, why == nullptr ? "" : why);
  }
  for (size_t i = 0; i < rewards.size(); ++i) {
    check(std::isfinite(rewards[i]), "{}: {} gives {} to the answer \"{}\" of \"{}\"", path_,
          api_.name, rewards[i], answers[i].text, answers[i].prompt);
  }
  return rewards;
}

}  // namespace mstrain
