#include "suites/transformer/alignment/answer_lines.h"

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/data/documents.h"

namespace mstrain {
namespace {

std::string text_at(const Json& json, const char* key, const std::string& where) {
  if (!json.is_object() || !json.contains(key)) {
    throw IoError(fmt::format("{}: expected a JSON object with `{}`", where, key));
  }
  if (!json[key].is_string()) {
    throw IoError(fmt::format("{}: `{}` is no string", where, key));
  }
  return json[key].get<std::string>();
}

std::vector<ChatMessage> messages_at(const Json& json, const std::string& where) {
  std::vector<ChatMessage> out;
  const Json& list = json["messages"];
  if (!list.is_array() || list.empty()) {
    throw IoError(
        fmt::format("{}: `messages` is no list of {{\"role\": …, \"content\": …}}", where));
  }
  for (const Json& each : list) {
    out.push_back({text_at(each, "role", where), text_at(each, "content", where)});
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
                     const ObjectiveConfig& objective) {
  AnswerLine out{.where = fmt::format("{}:{}", path, line.number)};
  const Json json = parse_json(line.text, out.where);
  const bool prefers =
      objective.prefers() || (objective.judges() && json.is_object() && json.contains("chosen"));
  if (objective.type == ObjectiveType::kSft && json.is_object() && json.contains("messages")) {
    if (json.contains("response")) {
      throw IoError(
          fmt::format("{}: has `messages` and `response`; expected one of them", out.where));
    }
    out.messages = messages_at(json, out.where);
    return out;
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
               std::vector<AnswerLine>& out) {
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
      out.push_back(read_line(line, path, objective));
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
  for (const CorpusSource& source : sources) {
    for (const SourceFile& file : source.files) {
      read_file(file.path, objective, malformed, out);
    }
  }
  return out;
}

}  // namespace mstrain
