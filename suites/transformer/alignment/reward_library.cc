#include "suites/transformer/alignment/reward_library.h"

#include <cmath>
#include <span>

#include "core/base/crash_notice.h"
#include "core/base/error.h"
#include "core/base/filled.h"
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
  check(api->score != nullptr, "{}: its function score is NULL", path);
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
  Filled<double> rewards(answers.size());
  int status = 0;
  try {
    const CrashNotice notice(path_.c_str(), "score");
    status = api_.score(given.data(), static_cast<int64_t>(given.size()), rewards.begin());
  } catch (const std::exception& error) {  // of one in C++
    fail("{}: {}: score() threw {}", path_, api_.name, error.what());
  }
  if (status != 0) {
    const CrashNotice notice(path_.c_str(), "last_error");
    const char* const why = api_.last_error == nullptr ? nullptr : api_.last_error();
    fail("{}: {}: score() failed with {}{}{}", path_, api_.name, status, why == nullptr ? "" : ": ",
         why == nullptr ? "" : why);
  }
  check(!rewards.is_overrun(), "{}: {}: score() wrote more than the {} rewards it was asked for",
        path_, api_.name, rewards.size());
  const std::span<const double> all(rewards.data(), rewards.size());
  for (size_t i = 0; i < all.size(); ++i) {
    check(std::isfinite(all[i]), "{}: {} gives {} to the answer {:?} of {:?}", path_, api_.name,
          all[i], answers[i].text, answers[i].prompt);
  }
  return {all.begin(), all.end()};
}

}  // namespace mstrain
