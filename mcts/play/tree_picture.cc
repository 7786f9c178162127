#include "mcts/play/tree_picture.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace mstrain::mcts::play {
namespace {

constexpr double kBoxWidth = 62;
constexpr double kBoxHeight = 44;
constexpr double kColumn = kBoxWidth + 10;
constexpr double kRow = 108;
constexpr double kMargin = 24;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string short_count(uint64_t n) {
  return n >= 10'000'000 ? fmt::format("{}M", n / 1'000'000)
         : n >= 10'000   ? fmt::format("{}k", n / 1000)
                         : fmt::format("{}", n);
}

// From red (low) over a pale grey to green (high), all light enough for dark text; small differences show.
std::string colour(const Picture& picture, double value) {
  const double x =
      std::clamp((value - picture.low) / (picture.high - picture.low), 0.0, 1.0) * 2 - 1;
  const double strength = std::sqrt(std::abs(x));
  const auto mix = [&](double end) {
    return static_cast<int>(std::lround(236 + (end - 236) * strength));
  };
  return x < 0 ? fmt::format("#{:02x}{:02x}{:02x}", mix(240), mix(128), mix(118))
               : fmt::format("#{:02x}{:02x}{:02x}", mix(110), mix(200), mix(130));
}

// Boxes in the order they are drawn, with the place of each: leaves side by side, parents over the middle of their children.
struct Box {
  const PictureNode* node;
  double x, y;
  size_t parent;
  double share;  // of the parent's visits
};

double place(const PictureNode& node, int depth, size_t parent, double share, double& next,
             std::vector<Box>& out) {
  const size_t mine = out.size();
  out.push_back({&node, 0, 0, parent, share});
  double x = 0;
  if (node.children.empty()) {
    x = next;
    next += kColumn;
  } else {
    double first = 0;
    double last = 0;
    for (size_t i = 0; i < node.children.size(); ++i) {
      const double of_visits = static_cast<double>(node.children[i].visits) /
                               static_cast<double>(std::max<uint64_t>(node.visits, 1));
      const double at = place(node.children[i], depth + 1, mine, of_visits, next, out);
      first = i == 0 ? at : first;
      last = at;
    }
    x = (first + last) / 2;
  }
  out[mine].x = x;
  out[mine].y = depth * kRow;
  return x;
}

void dot_node(const Picture& picture, const PictureNode& node, size_t& number, std::string& out) {
  const size_t mine = number++;
  std::string label = node.action.empty() ? "root" : node.action;
  std::replace(label.begin(), label.end(), '"', '\'');
  out += fmt::format("  n{} [label=\"{}\\n{}\\n{:+.3f}\", fillcolor=\"{}\"];\n", mine, label,
                     node.visits, node.value, colour(picture, node.value));
  for (const PictureNode& child : node.children) {
    const double share =
        static_cast<double>(child.visits) / static_cast<double>(std::max<uint64_t>(node.visits, 1));
    out += fmt::format("  n{} -> n{} [penwidth={:.2f}];\n", mine, number, 0.5 + 6 * share);
    dot_node(picture, child, number, out);
  }
}

}  // namespace

std::string to_svg(const Picture& picture) {
  std::vector<Box> boxes;
  double next = kBoxWidth / 2;
  place(picture.root, 0, 0, 1, next, boxes);
  std::vector<std::string_view> lines;
  for (std::string_view rest = picture.board; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    lines.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  size_t columns = 0;
  for (const std::string_view line : lines) {
    columns = std::max(columns, line.size());
  }
  const double board_height = 15.0 * static_cast<double>(lines.size());
  double depth = 0;
  for (const Box& box : boxes) {
    depth = std::max(depth, box.y);
  }
  const double left = kMargin + (lines.empty() ? 0 : 8.0 * static_cast<double>(columns) + kMargin);
  const double top = kMargin + 30;
  const double width = left + next - kBoxWidth / 2 + kMargin;
  const double height = std::max(top + depth + kBoxHeight + 34, top + board_height) + kMargin;

  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" "
      "font-family=\"system-ui, sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#fbfbfa\"/>\n"
      "<text x=\"{2:.0f}\" y=\"{3:.0f}\" font-size=\"14\" font-weight=\"600\" "
      "fill=\"#222\">{4}</text>\n",
      width, height, kMargin, kMargin + 6, escaped(picture.title));
  for (size_t i = 0; i < lines.size(); ++i) {
    out += fmt::format(
        "<text x=\"{:.0f}\" y=\"{:.0f}\" font-family=\"ui-monospace, monospace\" font-size=\"13\" "
        "xml:space=\"preserve\" "
        "fill=\"#333\">{}</text>\n",
        kMargin, top + 14 + 15.0 * static_cast<double>(i), escaped(lines[i]));
  }
  for (size_t i = 1; i < boxes.size(); ++i) {
    const Box& box = boxes[i];
    const Box& parent = boxes[box.parent];
    const double from = top + parent.y + kBoxHeight;
    const double to = top + box.y;
    const double middle = (from + to) / 2;
    out += fmt::format(
        "<path d=\"M{0:.1f} {1:.1f} C{0:.1f} {4:.1f} {2:.1f} {4:.1f} {2:.1f} {3:.1f}\" "
        "fill=\"none\" stroke=\"#8a8a86\" "
        "stroke-width=\"{5:.2f}\"/>\n",
        left + parent.x, from, left + box.x, to, middle, 0.6 + 7 * box.share);
  }
  for (const Box& box : boxes) {
    const double x = left + box.x;
    const double y = top + box.y;
    const PictureNode& node = *box.node;
    out += fmt::format(
        "<g><title>{} visits, value {:+.4f}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" "
        "width=\"{:.0f}\" height=\"{:.0f}\" "
        "rx=\"6\" fill=\"{}\" stroke=\"#555\" stroke-width=\"{}\"{}/>",
        node.visits, node.value, x - kBoxWidth / 2, y, kBoxWidth, kBoxHeight,
        colour(picture, node.value), node.player == 0 ? 1.6 : 0.8,
        node.player == -1 ? " stroke-dasharray=\"3 2\"" : "");
    const auto text = [&](double dy, const char* style, const std::string& what) {
      out += fmt::format(
          "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"#111\" {}>{}</text>", x,
          y + dy, style, escaped(what));
    };
    text(15, "font-weight=\"600\"", node.action.empty() ? "root" : node.action);
    text(28, "font-size=\"10.5\"", short_count(node.visits));
    text(40, "font-size=\"10.5\"", fmt::format("{:+.2f}", node.value));
    out += "</g>\n";
    if (node.hidden > 0) {
      out += fmt::format(
          "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" font-size=\"10\" "
          "fill=\"#777\">+{}</text>\n",
          x + kBoxWidth / 2, y + kBoxHeight + 11, node.hidden);
    }
  }
  out += fmt::format(
      "<text x=\"{:.0f}\" y=\"{:.0f}\" font-size=\"10.5\" fill=\"#666\">action, visits, mean "
      "result for who took it; "
      "line width: share of the visits; +n: children not drawn</text>\n</svg>\n",
      kMargin, height - 10);
  return out;
}

std::string to_dot(const Picture& picture) {
  std::string title = picture.title;
  std::replace(title.begin(), title.end(), '"', '\'');
  std::string out = fmt::format(
      "digraph tree {{\n  label=\"{}\";\n  node [shape=box, style=\"rounded,filled\", "
      "fontname=\"sans-serif\"];\n",
      title);
  size_t number = 0;
  dot_node(picture, picture.root, number, out);
  return out + "}\n";
}

}  // namespace mstrain::mcts::play
