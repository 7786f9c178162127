// Command lines of ec_tool: words and `--name value` pairs; a name alone is a switch. Unknown names are errors with the nearest one.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace mstrain::embedding_cache {

class Arguments {
 public:
  // `options` take a value, `switches` do not.
  Arguments(int argc, char** argv, const std::vector<std::string>& options,
            const std::vector<std::string>& switches);
  const std::vector<std::string>& words() const { return words_; }
  const std::string& word(size_t index, const char* what) const;  // ConfigError where it is missing
  bool has(const std::string& name) const { return values_.contains(name); }
  std::string text(const std::string& name, const std::string& otherwise) const;
  uint64_t number(const std::string& name, uint64_t otherwise, uint64_t least = 0) const;
  double not_negative(const std::string& name, double otherwise) const;
  double positive(const std::string& name, double otherwise) const;

 private:
  double finite(const std::string& name, double otherwise, bool is_positive) const;

  std::vector<std::string> words_;
  std::map<std::string, std::string> values_;
};

}  // namespace mstrain::embedding_cache
