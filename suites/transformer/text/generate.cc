#include "suites/transformer/text/generate.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/thread_pool.h"
#include "core/ops/cross_entropy.h"
#include "core/runtime/context.h"
#include "core/tensor/host.h"

namespace mstrain {
namespace {

// One text: its tokens, of which the model sees those from `first` on. One that has ended goes on unseen as long as
// another one does.
struct Row {
  std::vector<int32_t> ids;
  size_t prompt = 0;
  size_t first = 0;
  Rng rng;
  std::optional<size_t> end;  // of what is text

  std::span<const int32_t> seen() const { return std::span(ids).subspan(first); }
};

class Continuation {
 public:
  Continuation(Decoder& decoder, const Params& params, const WriteOptions& options, int64_t known,
               const OnToken& on_token, size_t held, size_t rows,
               std::vector<std::vector<float>>* log_probs)
      : decoder_(decoder),
        params_(params),
        options_(options),
        known_(static_cast<size_t>(std::min(known, decoder.model().vocab_size()))),
        on_token_(on_token),
        held_(held),
        log_probs_(log_probs),
        choosers_(rows == 1 ? 0 : current_context().num_threads() - 1),
        longest_(static_cast<size_t>(decoder.model().max_positions())) {}

  std::vector<std::vector<int32_t>> run(std::span<const std::vector<int32_t>> prompts) {
    for (size_t i = 0; i < prompts.size(); ++i) {
      const size_t size = prompts[i].size();
      rows_.push_back({prompts[i], size, size > longest_ ? size - longest_ : 0,
                       Rng(options_.sampling.seed, hash_bytes("sampling").lo + i)});
    }
    if (log_probs_ != nullptr) {
      log_probs_->assign(rows_.size(), {});
    }
    std::vector<float> logits;
    for (int64_t step = 0; step < options_.tokens && !all_ended(); ++step) {
      logits = step == 0 && held_ > 0  ? go_on()
               : step == 0 || forget() ? start(options_.tokens - step)
                                       : next();
      choose(logits);
    }
    std::vector<std::vector<int32_t>> out;
    for (const Row& row : rows_) {
      out.emplace_back(row.ids.begin() + static_cast<ptrdiff_t>(row.prompt),
                       row.ids.begin() + static_cast<ptrdiff_t>(row.end.value_or(row.ids.size())));
    }
    return out;
  }

 private:
  bool all_ended() const {
    return std::all_of(rows_.begin(), rows_.end(),
                       [](const Row& row) { return row.end.has_value(); });
  }
  // Whether a row had filled its positions; the newer half of them is read again.
  bool forget() {
    bool forgot = false;
    for (Row& row : rows_) {
      if (row.seen().size() > longest_) {
        row.first = row.ids.size() - std::max<size_t>(longest_ / 2, 1);
        forgot = true;
      }
    }
    return forgot;
  }
  std::vector<float> start(int64_t more) {
    std::vector<std::span<const int32_t>> seen;
    size_t most = 0;
    for (const Row& row : rows_) {
      seen.push_back(row.seen());
      most = std::max(most, seen.back().size());
    }
    return decoder_.start(
        params_, seen,
        std::min(static_cast<int64_t>(most) + more - 1, static_cast<int64_t>(longest_)));
  }
  std::vector<float> go_on() {
    const auto rest = rows_.front().seen().subspan(held_);
    return decoder_.next(params_, std::span(&rest, 1));
  }
  std::vector<float> next() {
    std::vector<int32_t> last;
    for (const Row& row : rows_) {
      last.push_back(row.ids.back());
    }
    return decoder_.next(params_, last);
  }
  void choose(std::span<const float> logits) {
    const size_t vocab = logits.size() / rows_.size();
    constexpr int64_t kRowsAtOnce = 16;
    std::vector<int32_t> chosen(rows_.size());
    choosers_.parallel_for(std::ssize(rows_), kRowsAtOnce, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); std::cmp_less(i, end); ++i) {
        chosen[i] = static_cast<int32_t>(
            choose_token(logits.subspan(i * vocab, known_), options_.sampling, rows_[i].rng));
      }
    });
    note_log_probs(logits, chosen);
    for (size_t i = 0; i < rows_.size(); ++i) {
      Row& row = rows_[i];
      const int32_t id = chosen[i];
      const auto& stop = options_.stop;
      if (!row.end && std::find(stop.begin(), stop.end(), id) != stop.end()) {
        row.end = row.ids.size();
      }
      row.ids.push_back(id);
      if (!row.end && on_token_ != nullptr) {
        on_token_(i, id);
      }
    }
  }

  // By the operation that losses are made of.
  void note_log_probs(std::span<const float> logits, std::span<const int32_t> chosen) {
    if (log_probs_ == nullptr) {
      return;
    }
    const auto rows = std::ssize(rows_);
    const std::vector<float> losses = to_vector<float>(cross_entropy_rows(
        tensor<float>(logits, {rows, std::ssize(logits) / rows}), tensor<int32_t>(chosen, {rows})));
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (!rows_[i].end) {
        (*log_probs_)[i].push_back(-losses[i]);
      }
    }
  }

  Decoder& decoder_;
  const Params& params_;
  const WriteOptions& options_;
  size_t known_;
  const OnToken& on_token_;
  size_t held_;
  std::vector<std::vector<float>>* log_probs_;
  ThreadPool choosers_;
  size_t longest_;
  std::vector<Row> rows_;
};

}  // namespace

std::vector<std::vector<int32_t>> continue_tokens(Decoder& decoder, const Params& params,
                                                  std::span<const std::vector<int32_t>> prompts,
                                                  const WriteOptions& options, int64_t known,
                                                  const OnToken& on_token, size_t held,
                                                  std::vector<std::vector<float>>* log_probs) {
  check_sampling(options.sampling);
  return Continuation(decoder, params, options, known, on_token, held, prompts.size(), log_probs)
      .run(prompts);
}

Generator::Generator(std::shared_ptr<const CausalModel> model,
                     std::shared_ptr<const Tokenizer> tokenizer, Execution execution)
    : decoder_(std::move(model), execution), tokenizer_(std::move(tokenizer)) {}

std::vector<std::string> Generator::generate(const Params& params,
                                             std::span<const std::string> prompts,
                                             const WriteOptions& options, const OnText& on_text) {
  std::vector<std::vector<int32_t>> ids;
  for (const std::string& prompt : prompts) {
    ids.push_back(tokenizer_->encode(prompt.empty() ? "\n" : prompt));
  }
  std::vector<std::string> texts(prompts.size());
  // A model may have more logits than its tokenizer has tokens.
  const std::vector<std::vector<int32_t>> written = continue_tokens(
      decoder_, params, ids, options, tokenizer_->vocab_size(), [&](size_t row, int32_t id) {
        const std::string piece = tokenizer_->decode_further(std::span(&id, 1));
        texts[row] += piece;
        if (on_text != nullptr) {
          on_text(row, piece);
        }
      });
  count_cut(written, options.tokens);
  return texts;
}

size_t Generator::held(std::span<const int32_t> conversation, int64_t more) const {
  const auto read = static_cast<size_t>(decoder_.length());
  const bool goes_on =
      read > 0 && read <= last_.size() && read < conversation.size() &&
      std::equal(last_.begin(), last_.begin() + static_cast<ptrdiff_t>(read), conversation.begin());
  const int64_t needed = static_cast<int64_t>(conversation.size()) + more - 1;
  return goes_on && needed <= decoder_.capacity() ? read : 0;
}

std::string Generator::reply(const Params& params, std::span<const int32_t> conversation,
                             const WriteOptions& options, const OnText& on_text) {
  const std::vector<int32_t> prompt(conversation.begin(), conversation.end());
  WriteOptions within = options;
  const int64_t room = conversation_tokens() - static_cast<int64_t>(prompt.size()) + 1;
  check(room >= 1, "a conversation of {} tokens is longer than the model's {}", prompt.size(),
        conversation_tokens());
  within.tokens = std::min(options.tokens, room);
  const size_t held = this->held(conversation, within.tokens);
  last_.clear();  // until the decoder has come to its end
  std::string text;
  std::vector<std::vector<int32_t>> written = continue_tokens(
      decoder_, params, std::span(&prompt, 1), within, tokenizer_->vocab_size(),
      [&](size_t row, int32_t id) {
        const std::span<const int32_t> one(&id, 1);
        const std::string piece =
            text.empty() ? tokenizer_->decode(one) : tokenizer_->decode_further(one);
        text += piece;
        if (on_text != nullptr) {
          on_text(row, piece);
        }
      },
      held);
  count_cut(written, within.tokens);
  last_ = prompt;
  last_.insert(last_.end(), written[0].begin(), written[0].end());
  return text;
}

}  // namespace mstrain
