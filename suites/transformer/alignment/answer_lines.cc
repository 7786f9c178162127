#include "suites/transformer/alignment/answer_lines.h"

#include <algorithm>
#include <initializer_list>
#include <set>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/data/documents.h"
#include "suites/transformer/alignment/numbers_in_text.h"

namespace mstrain {
namespace {

// Of all objectives, so that several may take the same file. Hugging Face's TRL says `completion` for `response`.
const std::vector<std::string> kKeys{"prompt", "response", "completion", "messages", "tools",
                                     "chosen", "rejected", "label",      "answer"};

// Of chat templates; others may have a meaning too.
const std::vector<std::string> kRoles{"system",   "user",    "assistant", "tool",
                                      "function", "ipython", "developer"};

bool is_key(const std::string& key) { return std::ranges::find(kKeys, key) != kKeys.end(); }

// Where the reward `number` alone looks at the line's answer, one without a number is never paid.
void check_number(const AnswerLine& line, const ObjectiveConfig& objective) {
  const std::vector<RewardConfig> rewards = objective.writing().rewards;
  const auto any_is = [&](std::initializer_list<RewardType> types) {
    return std::ranges::any_of(rewards, [&](const RewardConfig& rule) {
      return rule.weight != 0 && std::ranges::find(types, rule.type) != types.end();
    });
  };
  if (any_is({RewardType::kNumber}) &&
      !any_is({RewardType::kExact, RewardType::kPlaces, RewardType::kLibrary}) &&
      !line.answers.empty() && !line.answers[0].empty() && !last_number(line.answers[0])) {
    throw IoError(
        fmt::format("{}: there is no number in the answer {:?}, so the reward `number` is "
                    "never paid",
                    line.where, line.answers[0]));
  }
}

class LineReader {
 public:
  // `told`: what was warned of before.
  LineReader(const JsonLines::Line& line, const std::string& where,
             const ObjectiveConfig& objective, std::set<std::string>& told)
      : where_(where), objective_(objective), told_(told), json_(parse_json(line.text, where)) {
    if (!json_.is_object()) {
      fail("expected a JSON object with `prompt`");
    }
    if (has_list("messages") || has_list("prompt")) {
      ordered_ = OrderedJson::parse(line.text);  // templates write keys as they come
    }
  }

  AnswerLine read() const {
    AnswerLine out{.where = where_};
    const bool is_chat = objective_.type == ObjectiveType::kSft || objective_.is_rewarded();
    if (is_chat && json_.contains("messages")) {
      const std::string other = objective_.is_rewarded() ? "prompt" : response_key();
      if (json_.contains(other)) {
        fail(fmt::format("has `messages` and `{}`; expected one of them", other));
      }
      out.conversation = {messages_at("messages"), tools()};
      if (objective_.type == ObjectiveType::kSft) {
        return out;
      }
    } else if (has_list("prompt")) {
      out.conversation = {messages_at("prompt"), tools()};
    } else {
      if (objective_.type == ObjectiveType::kSft && !json_.contains("prompt")) {
        fail("expected `messages`, or `prompt` and `response`" + meant({"messages", "prompt"}));
      }
      out.prompt = text_at("prompt");
      if (json_.contains("tools") && !json_["tools"].is_null()) {
        fail("`tools` are for conversations: lists of messages");
      }
    }
    if (out.conversation && out.conversation->messages.back().is_assistants()) {
      fail("what the assistant is to answer ends with what it says itself");
    }
    const bool prefers = objective_.prefers() || (objective_.judges() && json_.contains("chosen"));
    for (const std::string& key : answer_keys(prefers)) {
      if (out.conversation && !objective_.is_rewarded()) {
        out.turns.push_back(turns_at(key));
      } else {
        out.answers.push_back(text_at(key));
      }
    }
    if (objective_.is_rewarded()) {
      check_number(out, objective_);
    }
    if (objective_.judges() && !prefers) {
      out.is_wanted = flag_at("label");
    }
    return out;
  }

  std::vector<std::string> unread_keys() const {
    std::vector<std::string> out;
    for (const auto& [key, value] : json_.items()) {
      if (!is_key(key)) {
        out.push_back(key);
      }
    }
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw IoError(fmt::format("{}: {}", where_, what));
  }

  // "; `mesages` is none: did you mean `messages`?", of the first key that is near one of `wanted`.
  std::string meant(const std::vector<std::string>& wanted) const {
    for (const std::string& key : unread_keys()) {
      if (const std::string near = nearest(key, wanted); !near.empty()) {
        return fmt::format("; `{}` is none: did you mean `{}`?", key, near);
      }
    }
    return "";
  }

  bool has_list(const char* key) const { return json_.contains(key) && json_[key].is_array(); }

  std::string response_key() const {
    if (json_.contains("response") && json_.contains("completion")) {
      fail("has `response` and `completion`; expected one of them");
    }
    return json_.contains("completion") ? "completion" : "response";
  }

  // None where the line has no answer and none is asked for.
  std::vector<std::string> answer_keys(bool prefers) const {
    if (prefers) {
      return {"chosen", "rejected"};
    }
    if (!objective_.is_rewarded() || json_.contains(response_key())) {
      return {response_key()};
    }
    return json_.contains("answer") || objective_.reads_answers()
               ? std::vector<std::string>{"answer"}
               : std::vector<std::string>();
  }

  const Json& value_at(const std::string& key) const {
    if (!json_.contains(key)) {
      fail(fmt::format("expected a JSON object with `{}`{}{}", key,
                       key == "answer" ? ", which a reward compares with" : "", meant({key})));
    }
    return json_[key];
  }

  std::string text_at(const std::string& key) const {
    const Json& value = value_at(key);
    if (value.is_array() && key != "answer") {
      fail(fmt::format("`{}` is a list of messages, but `prompt` is none; expected both alike",
                       key));
    }
    if (!value.is_string()) {
      fail(fmt::format("`{}` is no string", key));
    }
    return value.get<std::string>();
  }

  bool flag_at(const std::string& key) const {
    if (!json_.contains(key) || !json_[key].is_boolean()) {
      fail(fmt::format("`{}` must be true or false: whether the answer is wanted", key));
    }
    return json_[key].get<bool>();
  }

  std::vector<ChatMessage> messages_at(const std::string& key) const {
    const Json& list = value_at(key);
    if (!list.is_array() || list.empty()) {
      fail(fmt::format("`{}` is no list of {{\"role\": …, \"content\": …}}{}", key,
                       list.is_string() ? ", as `prompt` is; expected both alike" : ""));
    }
    std::vector<ChatMessage> out;
    for (const OrderedJson& each : ordered_[key]) {
      try {
        out.emplace_back(each);
      } catch (const Error& error) {
        fail(fmt::format("`{}`: {}", key, error.what()));
      }
      warn_of_role(out.back().role());
    }
    return out;
  }

  // Once of each that seems to be another one misspelt, whatever the template makes of it.
  void warn_of_role(const std::string& role) const {
    const std::string near = nearest(role, kRoles);
    if (!near.empty() && near != role && told_.insert("role " + role).second) {
      log_warning("{}: role {}; did you mean {}?", where_, role, near);
    }
  }

  std::vector<ChatMessage> turns_at(const std::string& key) const {
    std::vector<ChatMessage> out = messages_at(key);
    for (const ChatMessage& message : out) {
      if (!message.is_assistants()) {
        fail(
            fmt::format("`{}` has a message of role \"{}\"; expected those of the assistant, "
                        "which follow `prompt`",
                        key, message.role()));
      }
    }
    return out;
  }

  OrderedJson tools() const {
    if (!json_.contains("tools") || json_["tools"].is_null()) {
      return nullptr;
    }
    if (!json_["tools"].is_array()) {
      fail("`tools` is no list");
    }
    return ordered_["tools"];
  }

  const std::string& where_;
  const ObjectiveConfig& objective_;
  std::set<std::string>& told_;
  Json json_;
  OrderedJson ordered_;  // the same, of conversations
};

void read_file(const std::string& path, const ObjectiveConfig& objective, int64_t& malformed,
               std::vector<AnswerLine>& out) {
  if (!is_json_lines(path)) {
    throw IoError(fmt::format("{}: expected JSON lines (.jsonl) of {}{}", path,
                              objective.prefers() || objective.judges()
                                  ? "{\"prompt\": …, \"chosen\": …, \"rejected\": …}"
                                  : "{\"prompt\": …, \"response\": …}",
                              path.ends_with(".gz") ? "; gzip is not read: unpack it" : ""));
  }
  JsonLines lines(path);
  JsonLines::Line line;
  std::set<std::string> told;
  while (lines.next(line)) {
    if (line.number == 1 && line.text.starts_with("\x1f\x8b")) {
      throw IoError(fmt::format("{}: is compressed; gzip is not read: unpack it", path));
    }
    const std::string where = fmt::format("{}:{}", path, line.number);
    try {
      const LineReader reader(line, where, objective, told);
      out.push_back(reader.read());
      for (const std::string& key : reader.unread_keys()) {
        if (told.insert(key).second) {
          log_warning("{}: `{}` is not read, here and in lines that follow{}", where, key,
                      did_you_mean(key, kKeys));
        }
      }
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
