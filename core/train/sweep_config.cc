#include "core/train/sweep_config.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/yaml_scalar.h"

namespace mstrain {
namespace {

enum class Scale { kUniform, kLog };

// A range as it is written.
struct Range {
  double low = 0;
  double high = 0;
  Scale scale = Scale::kUniform;

  template <class V>
  void fields(V& v) {
    v("low", low, "least value", rule::required());
    v("high", high, "greatest value", rule::required());
    v("scale", scale, "how values are drawn between them", rule::one_of({"uniform", "log"}));
  }
};

bool is_integer(const YamlNode& range, const char* end) {
  return yaml_scalar::parse_int(range.find(end)->text).has_value();
}

SweepKey read_range(const ConfigAt& at, const std::string& key) {
  Range range;
  ConfigCodec<Range>::read(at, range);
  if (range.low >= range.high) {
    yaml_fail(at.node, at.path, fmt::format("low {} is not below high {}", range.low, range.high));
  }
  if (range.scale == Scale::kLog && range.low <= 0) {
    yaml_fail(at.node, at.path, fmt::format("a log scale begins above 0, found low {}", range.low));
  }
  return {key,
          {},
          range.low,
          range.high,
          range.scale == Scale::kLog,
          is_integer(at.node, "low") && is_integer(at.node, "high")};
}

void read_keys(const ConfigAt& at, const std::string& prefix, std::vector<SweepKey>& out) {
  for (const YamlNode& child : at.node.children) {
    const std::string key = prefix.empty() ? child.key : prefix + '.' + child.key;
    const ConfigAt inner = at.with(child, fmt::format("{}.{}", at.path, child.key));
    if (child.is_null()) {
      continue;  // how a layer above takes back what a file varies
    }
    if (child.is_sequence() && !child.children.empty()) {
      out.push_back({key, child.children});
    } else if (child.is_map() && (child.find("low") != nullptr || child.find("high") != nullptr)) {
      out.push_back(read_range(inner, key));
    } else if (child.is_map() && !child.children.empty()) {
      read_keys(inner, key, out);
      continue;
    } else {
      inner.fail_expected("a list of values, {low, high, scale} or null");
    }
    const auto same = [&](const SweepKey& other) { return other.key == key; };
    if (std::count_if(out.begin(), out.end(), same) > 1) {
      yaml_fail(child, inner.path, "is named twice");
    }
    for (const char* own : {"run.output_dir", "run.name", "run.mode", "sweep"}) {
      if (key == own || key.starts_with(std::string(own) + '.')) {
        yaml_fail(child, inner.path, fmt::format("{} is not for a sweep to vary", own));
      }
    }
  }
}

}  // namespace

bool SweepKey::operator==(const SweepKey& other) const {
  return key == other.key && low == other.low && high == other.high && is_log == other.is_log &&
         is_integer == other.is_integer &&
         std::ranges::equal(values, other.values,
                            [](const YamlNode& a, const YamlNode& b) { return a.same_value(b); });
}

void ConfigCodec<std::vector<SweepKey>>::read(const ConfigAt& at, std::vector<SweepKey>& out) {
  if (!at.node.is_null() && (!at.node.is_map() || at.node.children.empty())) {
    at.fail_expected(type(at.rule));
  }
  out.clear();
  read_keys(at, "", out);
  if (out.empty()) {
    yaml_fail(at.node, at.path,
              "null of all that there is varies nothing; sweep: null is one run without a sweep");
  }
}

YamlNode ConfigCodec<std::vector<SweepKey>>::write(const std::vector<SweepKey>& keys,
                                                   const ConfigRule&) {
  YamlNode map = YamlNode::map();
  for (const SweepKey& key : keys) {
    YamlNode value = key.values.empty() ? YamlNode::map() : YamlNode::sequence();
    if (!key.values.empty()) {
      value.children = key.values;
    } else {
      const auto number = [&](double v) {
        return key.is_integer ? YamlNode::integer(static_cast<int64_t>(v)) : YamlNode::number(v);
      };
      value.add("low", number(key.low));
      value.add("high", number(key.high));
      value.add("scale", YamlNode::scalar(key.is_log ? "log" : "uniform"));
    }
    map.add(key.key, std::move(value));
  }
  return map;
}

std::string ConfigCodec<std::vector<SweepKey>>::type(const ConfigRule&) {
  return "keys, each with a list of values or {low, high, scale}";
}

}  // namespace mstrain
