#include "core/base/config.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"

namespace mstrain {
namespace {

std::string child_path(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

// Calls visit(path, entry) for every key at any depth.
template <class F>
void for_each_key(const ConfigFields& fields, const std::string& path, const F& visit) {
  for (const ConfigFields::Entry& entry : fields.entries()) {
    const std::string full = child_path(path, entry.key);
    visit(full, entry);
    if (const auto section = entry.field->section()) {
      for_each_key(*section, full, visit);
    }
  }
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What other programs mean by `key`: of the keys that are the same those below `path`, or all where there are none; else
// the one that says it in another unit. Empty where nothing is known.
std::string known_elsewhere(const std::string& key, const std::string& path,
                            const ConfigFields& root) {
  std::vector<std::string> all;
  std::vector<std::string> below;
  std::string in_other_units;
  for_each_key(root, "", [&](const std::string& full, const ConfigFields::Entry& entry) {
    if (contains(entry.rule.elsewhere, key)) {
      all.push_back(full);
      if (full.starts_with(path + '.')) {
        below.push_back(full);
      }
    }
    if (contains(entry.rule.measured_by, key)) {
      in_other_units = fmt::format("; here {} says it: {}", full, entry.doc);
    }
  });
  return all.empty()
             ? in_other_units
             : fmt::format("; here that is {}", fmt::join(below.empty() ? all : below, " and "));
}

// The key that begins with `key`, or with nearly that: `chance_codes` of `chanse`. Empty where none does.
std::string begun_by(const std::string& key, const std::vector<std::string>& names) {
  std::vector<std::string> beginnings, whole;
  for (const std::string& name : names) {
    for (size_t end = name.find('_'); end != std::string::npos; end = name.find('_', end + 1)) {
      beginnings.push_back(name.substr(0, end));
      whole.push_back(name);
    }
  }
  const std::string best = nearest(key, beginnings);
  const auto found = std::ranges::find(beginnings, best);
  return best.empty() ? "" : whole[static_cast<size_t>(found - beginnings.begin())];
}

// `model: {init: {from: …}}` of model.init.from: overrides name keys so, files do not.
std::string in_sections(std::string_view key) {
  std::string before;
  std::string after;
  for (size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.')) {
    before += fmt::format("{}: {{", key.substr(0, dot));
    after += '}';
    key.remove_prefix(dot + 1);
  }
  return fmt::format("{}{}: …{}", before, key, after);
}

// What the name means elsewhere; else the sections that it names; else the nearest key of this section; else keys of the same
// name elsewhere; else a key of this section that it begins; else all of them.
std::string suggest(const std::string& key, const std::string& path, const ConfigFields& fields,
                    const ConfigFields& root) {
  if (std::string known = known_elsewhere(key, path, root); !known.empty()) {
    return known;
  }
  if (key.find('.') != std::string::npos) {
    return fmt::format("; in a file that is {}", in_sections(key));
  }
  std::vector<std::string> here;
  for (const ConfigFields::Entry& entry : fields.entries()) {
    here.push_back(entry.key);
  }
  if (const std::string best = nearest(key, here); !best.empty()) {
    return fmt::format("; did you mean {}?", child_path(path, best));
  }
  std::string namesake;
  for_each_key(root, "", [&](const std::string& full, const ConfigFields::Entry& entry) {
    if (namesake.empty() && entry.key == key) {
      namesake = full;
    }
  });
  if (!namesake.empty()) {
    return fmt::format("; did you mean {}?", namesake);
  }
  if (const std::string begun = begun_by(key, here); !begun.empty()) {
    return fmt::format("; did you mean {}?", child_path(path, begun));
  }
  std::string list;
  for (const std::string& name : here) {
    list += (list.empty() ? "" : ", ") + name;
  }
  return fmt::format("; known here: {}", list);
}

}  // namespace

ConfigRule ConfigRule::at_least(double bound) const {
  ConfigRule out = *this;
  out.min = bound;
  out.min_open = false;
  return out;
}
ConfigRule ConfigRule::above(double bound) const {
  ConfigRule out = *this;
  out.min = bound;
  out.min_open = true;
  return out;
}
ConfigRule ConfigRule::at_most(double bound) const {
  ConfigRule out = *this;
  out.max = bound;
  out.max_open = false;
  return out;
}
ConfigRule ConfigRule::below(double bound) const {
  ConfigRule out = *this;
  out.max = bound;
  out.max_open = true;
  return out;
}
ConfigRule ConfigRule::one_of(std::initializer_list<const char*> choices) const {
  ConfigRule out = *this;
  out.names.assign(choices.begin(), choices.end());
  return out;
}
ConfigRule ConfigRule::required() const {
  ConfigRule out = *this;
  out.is_required = true;
  return out;
}

ConfigRule ConfigRule::path() const {
  ConfigRule out = *this;
  out.is_path = true;
  return out;
}
ConfigRule ConfigRule::elsewhere_called(std::initializer_list<const char*> names_there) const {
  ConfigRule out = *this;
  out.elsewhere.assign(names_there.begin(), names_there.end());
  return out;
}
ConfigRule ConfigRule::elsewhere_measured_by(std::initializer_list<const char*> names_there) const {
  ConfigRule out = *this;
  out.measured_by.assign(names_there.begin(), names_there.end());
  return out;
}

void ConfigAt::fail_expected(const std::string& expected) const {
  std::string found = describe(node);
  if (node.is_sequence()) {
    found = fmt::format("a list of {}", node.children.size());
  }
  const bool could_be_listed = node.is_scalar() && expected.starts_with("a list");
  yaml_fail(node, path,
            fmt::format("expected {}{}, found {}{}", otherwise, expected, found,
                        could_be_listed ? fmt::format("; did you mean [{}]?", node.text) : ""));
}

ConfigAt ConfigAt::with(const YamlNode& child, std::string path_of_child) const {
  return {child, std::move(path_of_child), rule, root, ""};
}

void ConfigFields::add(const char* key, const char* doc, const ConfigRule& rule,
                       std::unique_ptr<ConfigField> field) {
  for (const Entry& entry : entries_) {
    check(entry.key != key, "configuration key {} is declared twice", key);
  }
  entries_.push_back({key, doc, rule, std::move(field)});
}

namespace config_detail {

// A null section is an empty one: `model:` with nothing below it.
void read_section(const ConfigAt& at, const ConfigFields& fields) {
  if (!at.node.is_map() && !at.node.is_null()) {
    at.fail_expected("a section (a map of keys)");
  }
  std::vector<const ConfigFields::Entry*> given;
  for (const YamlNode& child : at.node.children) {
    const auto& entries = fields.entries();
    const auto entry = std::find_if(
        entries.begin(), entries.end(),
        [&](const ConfigFields::Entry& candidate) { return candidate.key == child.key; });
    const std::string path = child_path(at.path, child.key);
    if (entry == entries.end()) {
      yaml_fail(child, path, "unknown key" + suggest(child.key, at.path, fields, at.root));
    }
    if (child.is_null() && child.takes_back && !entry->field->takes_null()) {
      continue;
    }
    entry->field->read({child, path, entry->rule, at.root, ""});
    given.push_back(&*entry);
  }
  for (const ConfigFields::Entry& entry : fields.entries()) {
    if (std::ranges::count(given, &entry) > 0) {
      continue;
    }
    if (entry.rule.is_required) {
      yaml_fail(at.node, child_path(at.path, entry.key),
                fmt::format("required key is missing; expected {}", entry.field->type(entry.rule)));
    }
    // Required keys of a section that is absent altogether.
    if (const auto section = entry.field->section()) {
      YamlNode absent;
      absent.file = at.node.file;
      absent.line = at.node.line;
      read_section({absent, child_path(at.path, entry.key), entry.rule, at.root, ""}, *section);
    }
  }
}

}  // namespace config_detail

void read_config_fields(const YamlNode& tree, const ConfigFields& fields) {
  YamlNode top = tree;
  top.line = 0;  // what is missing is missing from the file, not from its first line
  const ConfigRule no_rule;
  config_detail::read_section({top, "", no_rule, fields, ""}, fields);
}

YamlNode write_config_fields(const ConfigFields& fields) {
  YamlNode node = YamlNode::map();
  for (const ConfigFields::Entry& entry : fields.entries()) {
    node.add(entry.key, entry.field->write(entry.rule));
  }
  return node;
}

std::vector<ConfigKeyDoc> document_config_fields(const ConfigFields& fields) {
  std::vector<ConfigKeyDoc> out;
  for (const ConfigFields::Entry& entry : fields.entries()) {
    const auto section = entry.field->section();
    if (!section) {
      out.push_back({entry.key, entry.field->type(entry.rule),
                     to_flow(entry.field->write(entry.rule)), entry.doc, entry.rule.is_required});
    }
    for (ConfigKeyDoc& doc :
         section ? document_config_fields(*section) : entry.field->keys_within()) {
      doc.path = child_path(entry.key, doc.path);
      out.push_back(std::move(doc));
    }
  }
  return out;
}

}  // namespace mstrain
