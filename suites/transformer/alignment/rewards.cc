#include "suites/transformer/alignment/rewards.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "core/base/error.h"
#include "suites/transformer/alignment/numbers_in_text.h"
#include "suites/transformer/alignment/reward_library.h"
#include "suites/transformer/alignment/reward_model.h"
#include "suites/transformer/alignment/text_pattern.h"

namespace mstrain {

class Rewards::Rule {
 public:
  Rule(const RewardConfig& config, const AutoOr<std::string>& end);
  std::vector<double> of(std::span<const WrittenAnswer> answers) const;
  const RewardConfig& config() const { return config_; }

 private:
  double of(const WrittenAnswer& answer) const;
  bool matches(const std::string& text) const;

  RewardConfig config_;
  std::optional<TextPattern> pattern_;
  std::optional<RewardLibrary> library_;
  std::optional<RewardModel> model_;
};

Rewards::Rule::Rule(const RewardConfig& config, const AutoOr<std::string>& end) : config_(config) {
  if (config.type == RewardType::kRegex) {
    pattern_.emplace(config.pattern);
  }
  if (config.type == RewardType::kLibrary) {
    library_.emplace(config.path);
  }
  if (config.type == RewardType::kModel) {
    model_.emplace(config.path, end);
  }
}

std::vector<double> Rewards::Rule::of(std::span<const WrittenAnswer> answers) const {
  if (library_) {
    return library_->score(answers);
  }
  std::vector<double> out;
  if (model_) {
    out = model_->score(answers);
    const auto odd =
        std::find_if(out.begin(), out.end(), [](double x) { return !std::isfinite(x); });
    check(odd == out.end(), "{}: gives {} to the answer {:?}", config_.path,
          odd == out.end() ? 0 : *odd,
          odd == out.end() ? "" : answers[static_cast<size_t>(odd - out.begin())].text);
    return out;
  }
  for (const WrittenAnswer& answer : answers) {
    out.push_back(of(answer));
  }
  return out;
}

namespace {

[[noreturn]] void fail_of_entry(const YamlNode& tree, const std::string& key, size_t index,
                                const std::string& message) {
  const std::string name = fmt::format("{}[{}]", key, index);
  const YamlNode* const list = find_config(tree, key);
  if (list != nullptr && index < list->children.size()) {
    yaml_fail(list->children[index], name, message);
  }
  config_fail(tree, name, message);
}

}  // namespace

void check_rewards(const std::vector<RewardConfig>& rewards, const std::string& key,
                   const YamlNode& tree) {
  if (rewards.empty()) {
    config_fail(tree, key, "nothing would be earned");
  }
  if (std::all_of(rewards.begin(), rewards.end(),
                  [](const RewardConfig& rule) { return rule.weight == 0; })) {
    config_fail(tree, key, "all weights are 0: nothing would be earned");
  }
  for (size_t i = 0; i < rewards.size(); ++i) {
    const RewardConfig& rule = rewards[i];
    const auto refuse = [&](const std::string& message) { fail_of_entry(tree, key, i, message); };
    const auto goes_with = [&](const char* what, const char* types, bool is_of_type,
                               bool is_there) {
      if (is_of_type != is_there) {
        refuse(is_there ? fmt::format("{} belongs to type {}", what, types)
                        : fmt::format("type {} needs {}", types, what));
      }
    };
    goes_with("pattern", "regex", rule.type == RewardType::kRegex, !rule.pattern.empty());
    goes_with("at_most", "length", rule.type == RewardType::kLength, rule.at_most > 0);
    const bool has_path = rule.type == RewardType::kLibrary || rule.type == RewardType::kModel;
    if (has_path == rule.path.empty()) {
      refuse(has_path ? "types library and model need path"
                      : "path belongs to types library and model");
    }
    if (has_path) {
      try {
        if (rule.type == RewardType::kLibrary) {
          const RewardLibrary tried(rule.path);
        } else {
          check_reward_model(rule.path);
        }
      } catch (const Error& error) {
        refuse(error.what());
      }
    }
    try {
      const TextPattern tried(rule.pattern);
    } catch (const Error& error) {
      refuse(fmt::format("pattern {}: {}", rule.pattern, error.what()));
    }
  }
}

Rewards::Rewards(const std::vector<RewardConfig>& rules, const AutoOr<std::string>& end) {
  for (const RewardConfig& rule : rules) {
    rules_.emplace_back(rule, end);
  }
}
Rewards::~Rewards() = default;

double share_in_place(std::string_view text, std::string_view expected) {
  const size_t longer = std::max(text.size(), expected.size());
  size_t same = 0;
  for (size_t i = 0; i < std::min(text.size(), expected.size()); ++i) {
    same += text[i] == expected[i] ? 1 : 0;
  }
  return longer == 0 ? 1 : static_cast<double>(same) / static_cast<double>(longer);
}

double Rewards::Rule::of(const WrittenAnswer& answer) const {
  switch (config_.type) {
    case RewardType::kExact: return answer.text == answer.expected ? 1 : 0;
    case RewardType::kNumber: {
      const std::optional<double> written = last_number(answer.text);
      return written.has_value() && written == last_number(answer.expected) ? 1 : 0;
    }
    case RewardType::kRegex: return matches(answer.text) ? 1 : 0;
    case RewardType::kLength: return answer.tokens <= config_.at_most ? 1 : 0;
    case RewardType::kPlaces: return share_in_place(answer.text, answer.expected);
    case RewardType::kLibrary:
    case RewardType::kModel: break;
  }
  fail("this reward is of all answers together");
}

bool Rewards::Rule::matches(const std::string& text) const {
  try {
    return pattern_->is_in(text);
  } catch (const Error& error) {
    fail("rewards: to look for pattern {} in the answer {:?} {}", config_.pattern, text,
         error.what());
  }
}

Rewards::Earned Rewards::earned(std::span<const WrittenAnswer> answers) const {
  Earned out{.total = std::vector<double>(answers.size(), 0.0), .rules = {}};
  for (const Rule& rule : rules_) {
    std::vector<double> scores = rule.of(answers);
    for (size_t i = 0; i < answers.size(); ++i) {
      out.total[i] += rule.config().weight * scores[i];
      check(std::abs(out.total[i]) <= std::numeric_limits<float>::max(),
            "rewards: the answer {:?} earns {} by {}{}{}, which no float holds", answers[i].text,
            scores[i], kRewardTypes[static_cast<size_t>(rule.config().type)],
            rule.config().path.empty() ? "" : " ", rule.config().path);
    }
    out.rules.push_back(std::move(scores));
  }
  return out;
}

std::vector<double> Rewards::of(std::span<const WrittenAnswer> answers) const {
  return earned(answers).total;
}

std::vector<std::string> Rewards::names() const {
  std::vector<std::string> out;
  for (size_t i = 0; i < rules_.size(); ++i) {
    const RewardType type = rules_[i].config().type;
    const auto before = std::count_if(rules_.begin(), rules_.begin() + static_cast<ptrdiff_t>(i),
                                      [&](const Rule& rule) { return rule.config().type == type; });
    const char* const name = kRewardTypes[static_cast<size_t>(type)];
    out.push_back(before == 0 ? name : fmt::format("{}_{}", name, before + 1));
  }
  return out;
}

std::vector<double> advantages_of(std::span<const double> rewards, AdvantageScale scale,
                                  double negatives) {
  const auto n = static_cast<double>(rewards.size());
  const double mean = std::accumulate(rewards.begin(), rewards.end(), 0.0) / n;
  double squares = 0;
  std::vector<double> out;
  for (const double reward : rewards) {
    out.push_back(reward - mean);
    squares += out.back() * out.back();
  }
  if (std::all_of(rewards.begin(), rewards.end(), [&](double r) { return r == rewards[0]; })) {
    return std::vector<double>(rewards.size(), 0.0);
  }
  if (scale == AdvantageScale::kDeviation) {
    const double deviation = std::sqrt(squares / (n - 1));
    for (double& advantage : out) {
      advantage /= deviation + 1e-4;
    }
  }
  for (double& advantage : out) {
    advantage *= advantage < 0 ? negatives : 1;
  }
  return out;
}

}  // namespace mstrain
