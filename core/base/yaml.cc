// The only file that includes yaml-cpp: its events become YamlNodes.
#include "core/base/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/missing_file.h"
#include "core/base/written_yaml.h"
#include "core/base/yaml_mistake.h"

namespace mstrain {
namespace {

struct Limits {
  size_t bytes, nodes;
};
constexpr Limits kOfPeople{1 << 20, 20'000};
constexpr Limits kOfToYaml{64 << 20, 400'000};
constexpr size_t kMaxDepth = 64;

class YamlTreeBuilder final : public YAML::EventHandler {
 public:
  YamlTreeBuilder(const std::string& file, const Limits& limits) : file_(file), limits_(limits) {
    root_.file = file;
  }

  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    close(make(mark, ""), anchor);
  }
  // A copy, whose values say where they were written.
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const YamlNode here = make(mark, "");
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end()) {
      reject(here, "an alias inside of what it stands for");
    }
    count_ += found->second.size.nodes;
    check_count(here);
    copied_ += found->second.size.bytes;
    if (copied_ > limits_.bytes) {
      reject(here, fmt::format("aliases stand for more than {} bytes", limits_.bytes));
    }
    check_depth(here, found->second.size.depth);
    close(found->second.node, 0);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node = make(mark, tag);
    node.kind = YamlNode::Kind::kScalar;
    node.quoted = tag == "!";
    node.text = value;
    close(std::move(node), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(make(mark, tag), anchor, YamlNode::Kind::kSequence);
  }
  void OnSequenceEnd() override { close_top(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(make(mark, tag), anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { close_top(); }

 private:
  struct Level {
    YamlNode node;
    YAML::anchor_t anchor = 0;
    YamlNode pending_key{};
    bool has_key = false;
  };
  struct Size {
    size_t nodes = 1;
    size_t depth = 0;  // of lists and maps in each other
    size_t bytes = 0;  // of keys and scalars
  };
  struct Anchored {
    YamlNode node;
    Size size;
  };

  [[noreturn]] void reject(const YamlNode& at, std::string_view message) const {
    throw ConfigError(fmt::format("{}: {}", at.where(), message));
  }
  void check_count(const YamlNode& at) const {
    if (count_ > limits_.nodes) {
      reject(at, fmt::format("more than {} values", limits_.nodes));
    }
  }

  void check_depth(const YamlNode& at, size_t more) const {
    if (levels_.size() + more > kMaxDepth) {
      reject(at, fmt::format("nested deeper than {} levels", kMaxDepth));
    }
  }

  YamlNode make(const YAML::Mark& mark, const std::string& tag) {
    YamlNode node;
    node.file = file_;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    ++count_;
    check_count(node);
    if (!tag.empty() && tag != "?" && tag != "!") {
      reject(node, fmt::format("tags are not supported: {}", tag));
    }
    return node;
  }

  void open(YamlNode node, YAML::anchor_t anchor, YamlNode::Kind kind) {
    node.kind = kind;
    check_depth(node, 1);
    levels_.push_back({std::move(node), anchor});
  }
  void close_top() {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    if (level.node.is_map()) {
      merge(level.node);
    }
    close(std::move(level.node), level.anchor);
  }
  void close(YamlNode node, YAML::anchor_t anchor) {
    if (anchor != 0) {
      anchored_[anchor] = {node, size_of(node)};
    }
    if (levels_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = levels_.back();
    if (level.node.kind == YamlNode::Kind::kSequence) {
      level.node.children.push_back(std::move(node));
    } else if (!level.has_key) {
      take_key(level, std::move(node));
    } else {
      node.key = std::move(level.pending_key.text);
      node.line = level.pending_key.line;
      node.column = level.pending_key.column;
      level.has_key = false;
      level.node.children.push_back(std::move(node));
    }
  }
  void take_key(Level& level, YamlNode key) {
    if (!key.is_scalar()) {
      reject(key, fmt::format("expected a key, found {}", describe(key)));
    }
    if (const YamlNode* first = level.node.find(key.text)) {
      reject(key, fmt::format("{}: duplicate key; the first is in line {}", key.text, first->line));
    }
    level.pending_key = std::move(key);
    level.has_key = true;
  }

  // `<<: *base` or `<<: [*a, *b]`: their keys, where the map and those before have none.
  void merge(YamlNode& map) {
    const auto found = std::find_if(map.children.begin(), map.children.end(),
                                    [](const YamlNode& child) { return child.key == kMergeKey; });
    if (found == map.children.end()) {
      return;
    }
    YamlNode merged = std::move(*found);
    map.children.erase(found);
    std::vector<YamlNode> sources;
    if (merged.is_sequence()) {
      sources = std::move(merged.children);
    } else {
      sources.push_back(std::move(merged));
    }
    for (YamlNode& source : sources) {
      if (!source.is_map()) {
        reject(source, fmt::format("{}: expected a map or a list of maps, found {}", kMergeKey,
                                   describe(source)));
      }
      for (YamlNode& child : source.children) {
        if (map.find(child.key) == nullptr) {
          map.children.push_back(std::move(child));
        }
      }
    }
  }

  static Size size_of(const YamlNode& node) {
    Size size{.nodes = 1,
              .depth = node.is_map() || node.is_sequence() ? size_t{1} : size_t{0},
              .bytes = node.key.size() + node.text.size()};
    for (const YamlNode& child : node.children) {
      const Size inner = size_of(child);
      size.nodes += inner.nodes;
      size.depth = std::max(size.depth, inner.depth + 1);
      size.bytes += inner.bytes;
    }
    return size;
  }

  static constexpr const char* kMergeKey = "<<";

  const std::string& file_;
  const Limits& limits_;
  std::vector<Level> levels_;
  std::map<YAML::anchor_t, Anchored> anchored_;
  YamlNode root_;
  size_t count_ = 0;
  size_t copied_ = 0;
};

// Refuses every document after the first.
class RejectAll final : public YAML::EventHandler {
 public:
  explicit RejectAll(const std::string& file) : file_(file) {}
  void OnDocumentStart(const YAML::Mark& mark) override {
    throw ConfigError(
        fmt::format("{}:{}: a second document starts here; one is expected", file_, mark.line + 1));
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  const std::string& file_;
};

// What the parser says, and what its author most likely did where that is a rule of the grammar.
std::string explained(const std::string& said) {
  for (const char* const rule :
       {"illegal map value", "illegal map key", "illegal block entry", "end of map not found",
        "end of sequence not found", "unknown token"}) {
    if (said.starts_with(rule)) {
      return said + "; is this line, or the one before it, indented as those beside it?";
    }
  }
  return said;
}

YamlNode parse(std::string_view text, const std::string& file, const Limits& limits) {
  if (text.size() > limits.bytes) {
    throw ConfigError(fmt::format("{}: larger than {} bytes", file, limits.bytes));
  }
  if (text.find('\0') != std::string_view::npos) {
    throw ConfigError(fmt::format("{}: holds a zero byte; is it a text file?", file));
  }
  std::istringstream stream{std::string(text)};
  YamlTreeBuilder builder(file, limits);
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    RejectAll rest(file);
    parser.HandleNextDocument(rest);
  } catch (const YAML::Exception& error) {
    if (const auto mistake = yaml_mistake(text)) {
      throw ConfigError(fmt::format("{}:{}: {}", file, mistake->line, mistake->what));
    }
    throw ConfigError(error.mark.is_null() ? fmt::format("{}: {}", file, error.msg)
                                           : fmt::format("{}:{}: {}", file, error.mark.line + 1,
                                                         explained(error.msg)));
  }
  return builder.take();
}

}  // namespace

YamlNode parse_yaml(std::string_view text, const std::string& file) {
  return parse(text, file, kOfPeople);
}

YamlNode read_written_yaml(FileSystem& files, const std::string& path) {
  return parse(files.read(path, kOfToYaml.bytes), path, kOfToYaml);
}

YamlNode load_yaml(const std::string& path) {
  check_exists(real_files(), path);
  return parse_yaml(real_files().read(path, kOfPeople.bytes), path);
}

}  // namespace mstrain
