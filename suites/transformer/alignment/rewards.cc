#include "suites/transformer/alignment/rewards.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <regex>

#include "core/base/error.h"
#include "suites/transformer/alignment/reward_library.h"
#include "suites/transformer/alignment/reward_model.h"

namespace mstrain {

class Rewards::Rule {
 public:
  Rule(const RewardConfig& config, const AutoOr<std::string>& end);
  std::vector<double> of(std::span<const WrittenAnswer> answers) const;
  double weight() const { return config_.weight; }

 private:
  double of(const WrittenAnswer& answer) const;

  RewardConfig config_;
  std::regex pattern_;
  std::optional<RewardLibrary> library_;
  std::optional<RewardModel> model_;
};

Rewards::Rule::Rule(const RewardConfig& config, const AutoOr<std::string>& end)
    : config_(config), pattern_(config.pattern) {
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

void check_rewards(const std::vector<RewardConfig>& rewards, const std::string& key,
                   const YamlNode& tree) {
  if (rewards.empty()) {
    config_fail(tree, key, "nothing would be earned");
  }
  for (const RewardConfig& rule : rewards) {
    const auto goes_with = [&](const char* what, const char* types, bool is_of_type,
                               bool is_there) {
      if (is_of_type != is_there) {
        config_fail(tree, key,
                    is_there ? fmt::format("{} belongs to type {}", what, types)
                             : fmt::format("type {} needs {}", types, what));
      }
    };
    goes_with("pattern", "regex", rule.type == RewardType::kRegex, !rule.pattern.empty());
    goes_with("at_most", "length", rule.type == RewardType::kLength, rule.at_most > 0);
    const bool has_path = rule.type == RewardType::kLibrary || rule.type == RewardType::kModel;
    if (has_path == rule.path.empty()) {
      config_fail(tree, key,
                  has_path ? "types library and model need path"
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
        config_fail(tree, key, error.what());
      }
    }
    try {
      const std::regex tried(rule.pattern);
    } catch (const std::regex_error& error) {
      config_fail(tree, key, fmt::format("pattern {}: {}", rule.pattern, error.what()));
    }
  }
}

Rewards::Rewards(const std::vector<RewardConfig>& rules, const AutoOr<std::string>& end) {
  for (const RewardConfig& rule : rules) {
    rules_.emplace_back(rule, end);
  }
}
Rewards::~Rewards() = default;

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Where a number begins of which the last digits of its whole part, up to a comma before them, begin at `begin` and end at
// `end`: commas cut digits into groups of three, but for the first one, which may be shorter.
size_t begin_of_groups(std::string_view text, size_t begin, size_t end) {
  size_t first = begin;
  for (size_t group = end - begin; group == 3 && first > 0 && text[first - 1] == ',';) {
    const size_t comma = first - 1;
    first = comma;
    while (first > 0 && is_digit(text[first - 1])) {
      --first;
    }
    group = comma - first;
    if (group == 0 || group > 3) {
      return begin;
    }
  }
  return first;
}

}  // namespace

std::optional<double> last_number(std::string_view text) {
  const auto last = std::find_if(text.rbegin(), text.rend(), is_digit);
  if (last == text.rend()) {
    return std::nullopt;
  }
  const auto end = static_cast<size_t>(text.rend() - last);
  size_t begin = end;
  bool has_point = false;
  while (begin > 0 && (is_digit(text[begin - 1]) || (text[begin - 1] == '.' && !has_point &&
                                                     begin > 1 && is_digit(text[begin - 2])))) {
    has_point = has_point || text[begin - 1] == '.';
    --begin;
  }
  begin = begin_of_groups(text, begin, std::min(text.find('.', begin), end));
  if (begin > 0 && text[begin - 1] == '-' && (begin == 1 || !is_digit(text[begin - 2]))) {
    --begin;
  }
  std::string digits(text.substr(begin, end - begin));
  std::erase(digits, ',');
  double value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return result.ec == std::errc() ? std::optional(value) : std::nullopt;
}

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
    case RewardType::kRegex:
      return std::regex_search(answer.text.begin(), answer.text.end(), pattern_) ? 1 : 0;
    case RewardType::kLength: return answer.tokens <= config_.at_most ? 1 : 0;
    case RewardType::kPlaces: return share_in_place(answer.text, answer.expected);
    case RewardType::kLibrary:
    case RewardType::kModel: break;
  }
  fail("this reward is of all answers together");
}

std::vector<double> Rewards::of(std::span<const WrittenAnswer> answers) const {
  std::vector<double> total(answers.size(), 0.0);
  for (const Rule& rule : rules_) {
    const std::vector<double> scores = rule.of(answers);
    for (size_t i = 0; i < answers.size(); ++i) {
      total[i] += rule.weight() * scores[i];
    }
  }
  return total;
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
