// The only file that includes yaml-cpp: its events become YamlNodes.
#include "core/base/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <sstream>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/missing_file.h"

namespace mstrain {
namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr size_t kMaxNodes = 20'000;
constexpr size_t kMaxDepth = 64;

class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& file) : file_(file) {}

  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode node = make(mark, "", anchor);
    close(std::move(node));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { reject_anchor(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node = make(mark, tag, anchor);
    node.kind = YamlNode::Kind::kScalar;
    node.quoted = tag == "!";
    node.text = value;
    close(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(make(mark, tag, anchor), YamlNode::Kind::kSequence);
  }
  void OnSequenceEnd() override { close_top(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(make(mark, tag, anchor), YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { close_top(); }

 private:
  struct Level {
    YamlNode node;
    YamlNode pending_key;
    bool has_key = false;
  };

  [[noreturn]] void reject(const YamlNode& at, std::string_view message) const {
    throw ConfigError(fmt::format("{}: {}", at.where(), message));
  }
  [[noreturn]] void reject_anchor(const YAML::Mark& mark) {
    reject(
        make(mark, "", 0),
        "anchors and aliases (& and *) are not supported; quote the text if it is meant literally");
  }

  YamlNode make(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    YamlNode node;
    node.file = file_;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    if (++count_ > kMaxNodes) {
      reject(node, fmt::format("more than {} values", kMaxNodes));
    }
    if (anchor != 0) {
      reject_anchor(mark);
    }
    if (!tag.empty() && tag != "?" && tag != "!") {
      reject(node, fmt::format("tags are not supported: {}", tag));
    }
    return node;
  }

  void open(YamlNode node, YamlNode::Kind kind) {
    node.kind = kind;
    if (levels_.size() == kMaxDepth) {
      reject(node, fmt::format("nested deeper than {} levels", kMaxDepth));
    }
    levels_.push_back({std::move(node), {}, false});
  }
  void close_top() {
    YamlNode node = std::move(levels_.back().node);
    levels_.pop_back();
    close(std::move(node));
  }
  void close(YamlNode node) {
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

  const std::string& file_;
  std::vector<Level> levels_;
  YamlNode root_;
  size_t count_ = 0;
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

}  // namespace

YamlNode parse_yaml(std::string_view text, const std::string& file) {
  if (text.size() > kMaxBytes) {
    throw ConfigError(fmt::format("{}: larger than {} bytes", file, kMaxBytes));
  }
  if (text.find('\0') != std::string_view::npos) {
    throw ConfigError(fmt::format("{}: holds a zero byte; is it a text file?", file));
  }
  std::istringstream stream{std::string(text)};
  TreeBuilder builder(file);
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    RejectAll rest(file);
    parser.HandleNextDocument(rest);
  } catch (const YAML::Exception& error) {
    throw ConfigError(error.mark.is_null()
                          ? fmt::format("{}: {}", file, error.msg)
                          : fmt::format("{}:{}: {}", file, error.mark.line + 1, error.msg));
  }
  return builder.take();
}

YamlNode load_yaml(const std::string& path) {
  if (!real_files().exists(path)) {
    fail_missing(real_files(), path);
  }
  return parse_yaml(real_files().read(path, kMaxBytes), path);
}

}  // namespace mstrain
