#include "core/base/error.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace mstrain {
namespace {

// Levenshtein distance with adjacent transposition counted as one edit.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitution = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string to_string(const SourceLocation& where) {
  std::string_view file = where.file_name();
  const std::string_view root = MSTRAIN_SOURCE_DIR;
  if (file.starts_with(root) && file.substr(root.size()).starts_with('/')) {
    file.remove_prefix(root.size());
    file.remove_prefix(std::min(file.find_first_not_of('/'), file.size()));
  }
  return fmt::format("{}:{}", file, where.line());
}

std::string nearest(std::string_view word, std::span<const std::string> choices) {
  // Among equally near ones, the one of like length: a wrong letter is likelier than a missing one.
  const auto length_difference = [&](const std::string& choice) {
    return choice.size() > word.size() ? choice.size() - word.size() : word.size() - choice.size();
  };
  // Two letters of four are another word, unless they stand at its end.
  const auto is_other = [&](const std::string& choice, size_t distance) {
    return 2 * distance >= word.size() && distance > 1 && choice.substr(0, 1) != word.substr(0, 1);
  };
  const size_t most = std::max<size_t>(2, word.size() / 3);
  std::string best;
  std::pair<size_t, size_t> best_distance{most + 1, 0};
  for (const std::string& choice : choices) {
    const std::pair distance{edit_distance(word, choice), length_difference(choice)};
    if (distance < best_distance && !is_other(choice, distance.first)) {
      best_distance = distance;
      best = choice;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> choices) {
  const std::string best = nearest(word, choices);
  return best.empty() ? std::string() : fmt::format("; did you mean {}?", best);
}

}  // namespace mstrain
