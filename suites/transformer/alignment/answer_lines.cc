#include "suites/transformer/alignment/answer_lines.h"

#include <set>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/data/documents.h"

namespace mstrain {
namespace {

// Of chat templates; others may have a meaning too.
const std::vector<std::string> kRoles{"system",   "user",    "assistant", "tool",
                                      "function", "ipython", "developer"};

// "; `mesages` is none: did you mean `messages`?", of the first key of `json` that is near one of `wanted`.
std::string meant(const Json& json, const std::vector<std::string>& wanted) {
  for (const auto& [key, value] : json.items()) {
    if (const std::string near = nearest(key, wanted); !near.empty()) {
      return fmt::format("; `{}` is none: did you mean `{}`?", key, near);
    }
  }
  return "";
}

std::string text_at(const Json& json, const char* key, const std::string& where) {
  if (!json.is_object() || !json.contains(key)) {
    throw IoError(
        fmt::format("{}: expected a JSON object with `{}`{}", where, key, meant(json, {key})));
  }
  if (!json[key].is_string()) {
    throw IoError(fmt::format("{}: `{}` is no string", where, key));
  }
  return json[key].get<std::string>();
}

// Warns once of each role that seems to be another one misspelt, whatever the template makes of it.
std::vector<ChatMessage> messages_at(const Json& json, const std::string& where,
                                     std::set<std::string>& warned) {
  std::vector<ChatMessage> out;
  const Json& list = json["messages"];
  if (!list.is_array() || list.empty()) {
    throw IoError(
        fmt::format("{}: `messages` is no list of {{\"role\": …, \"content\": …}}", where));
  }
  for (const Json& each : list) {
    out.push_back({text_at(each, "role", where), text_at(each, "content", where)});
    const std::string& role = out.back().role;
    const std::string near = nearest(role, kRoles);
    if (!near.empty() && near != role && warned.insert(role).second) {
      log_warning("{}: role {}; did you mean {}?", where, role, near);
    }
  }
  return out;
}

bool flag_at(const Json& json, const char* key, const std::string& where) {
  if (!json.contains(key) || !json[key].is_boolean()) {
    throw IoError(
        fmt::format("{}: `{}` must be true or false: whether the answer is wanted", where, key));
  }
  return json[key].get<bool>();
}

AnswerLine read_line(const JsonLines::Line& line, const std::string& path,
                     const ObjectiveConfig& objective, std::set<std::string>& warned) {
  AnswerLine out{.where = fmt::format("{}:{}", path, line.number)};
  const Json json = parse_json(line.text, out.where);
  const bool prefers =
      objective.prefers() || (objective.judges() && json.is_object() && json.contains("chosen"));
  if (objective.type == ObjectiveType::kSft && json.is_object() && json.contains("messages")) {
    if (json.contains("response")) {
      throw IoError(
          fmt::format("{}: has `messages` and `response`; expected one of them", out.where));
    }
    out.messages = messages_at(json, out.where, warned);
    return out;
  }
  if (objective.type == ObjectiveType::kSft && json.is_object() && !json.contains("prompt")) {
    throw IoError(fmt::format("{}: expected `messages`, or `prompt` and `response`{}", out.where,
                              meant(json, {"messages", "prompt"})));
  }
  out.prompt = text_at(json, "prompt", out.where);
  if (prefers) {
    out.answers = {text_at(json, "chosen", out.where), text_at(json, "rejected", out.where)};
  } else {
    out.answers = {text_at(
        json,
        objective.is_rewarded() && !(json.is_object() && json.contains("response")) ? "answer"
                                                                                    : "response",
        out.where)};
  }
  if (objective.judges() && !prefers) {
    out.is_wanted = flag_at(json, "label", out.where);
  }
  return out;
}

void read_file(const std::string& path, const ObjectiveConfig& objective, int64_t& malformed,
               std::set<std::string>& warned, std::vector<AnswerLine>& out) {
  if (!is_json_lines(path)) {
    throw IoError(fmt::format("{}: expected JSON lines (.jsonl) of {}", path,
                              objective.prefers() || objective.judges()
                                  ? "{\"prompt\": …, \"chosen\": …, \"rejected\": …}"
                                  : "{\"prompt\": …, \"response\": …}"));
  }
  JsonLines lines(path);
  JsonLines::Line line;
  while (lines.next(line)) {
    try {
      out.push_back(read_line(line, path, objective, warned));
    } catch (const IoError& error) {
      if (malformed >= objective.malformed) {
        throw IoError(fmt::format("{}{}", error.what(),
                                  objective.malformed == 0
                                      ? "; objective.malformed says how many such lines are skipped"
                                      : fmt::format("; {} such lines were skipped before it, as "
                                                    "objective.malformed allows",
                                                    malformed)));
      }
      ++malformed;
    }
  }
}

}  // namespace

std::vector<AnswerLine> read_answer_lines(const std::vector<CorpusSource>& sources,
                                          const ObjectiveConfig& objective, int64_t& malformed) {
  std::vector<AnswerLine> out;
  std::set<std::string> warned;
  for (const CorpusSource& source : sources) {
    for (const SourceFile& file : source.files) {
      read_file(file.path, objective, malformed, warned, out);
    }
  }
  return out;
}

}  // namespace mstrain
