// Continuous batching: texts in the sequences of a decoder, which others begin in when they have ended.
#include "suites/transformer/text/generate.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/thread_pool.h"
#include "core/runtime/context.h"
#include "core/tensor/host.h"
#include "suites/transformer/text/drawn.h"

namespace mstrain {
namespace {

// One text: its tokens, of which the model sees those from `first` on.
struct Row {
  std::vector<int32_t> ids;
  size_t prompt = 0;
  size_t first = 0;
  Rng rng;
  std::optional<size_t> end;  // of what is text

  std::span<const int32_t> seen() const { return std::span(ids).subspan(first); }
  int64_t written() const { return static_cast<int64_t>(ids.size() - prompt); }
};

// Texts in the sequences of a decoder. Those that have ended make room for others, or are left out, as soon as they are many enough.
class TextsUnderWay {
 public:
  TextsUnderWay(Decoder& decoder, const Params& params, const WriteOptions& options, int64_t known,
                const OnToken& on_token, size_t held, size_t rows, DrawnTokens* drawn)
      : decoder_(decoder),
        params_(params),
        options_(options),
        known_(static_cast<size_t>(std::min(known, decoder.model().vocab_size()))),
        on_token_(on_token),
        held_(held),
        drawn_(drawn),
        choosers_(rows == 1 ? 0 : current_context().num_threads() - 1),
        longest_(static_cast<size_t>(decoder.model().max_positions())) {}

  std::vector<std::vector<int32_t>> run(std::span<const std::vector<int32_t>> prompts) {
    for (size_t i = 0; i < prompts.size(); ++i) {
      const size_t size = prompts[i].size();
      rows_.push_back({prompts[i], size, size > longest_ ? size - longest_ : 0,
                       Rng(options_.sampling.seed, hash_bytes("sampling").lo + i)});
    }
    if (drawn_ != nullptr) {
      drawn_->log_probs.assign(rows_.size(), {});
      drawn_->supports.assign(rows_.size(), {});
    }
    const auto at_once = static_cast<size_t>(options_.at_once.value_or(std::ssize(rows_)));
    next_row_ = std::min(std::max<size_t>(at_once, 1), rows_.size());
    sequences_.resize(next_row_);
    std::iota(sequences_.begin(), sequences_.end(), size_t{0});
    if (options_.tokens > 0) {
      choose(held_ > 0 ? go_on() : start(), all_places());
      while (make_room()) {
        write_on();
      }
    }
    std::vector<std::vector<int32_t>> out;
    for (const Row& row : rows_) {
      out.emplace_back(row.ids.begin() + static_cast<ptrdiff_t>(row.prompt),
                       row.ids.begin() + static_cast<ptrdiff_t>(row.end.value_or(row.ids.size())));
    }
    return out;
  }

 private:
  using Places = std::vector<int32_t>;  // of sequences
  static constexpr size_t kNobody = static_cast<size_t>(-1);

  bool has_ended(const Row& row) const { return row.end || row.written() >= options_.tokens; }
  // The text that sequence `place` is still written in; null: none.
  Row* living(int32_t place) {
    const size_t row = sequences_[static_cast<size_t>(place)];
    return row == kNobody || has_ended(rows_[row]) ? nullptr : &rows_[row];
  }
  Places all_places() const {
    Places out(sequences_.size());
    std::iota(out.begin(), out.end(), 0);
    return out;
  }

  // Whether there is something to write.
  bool make_room() {
    // A program for fewer sequences, or a pass over few prompts, has to pay.
    constexpr size_t kShare = 8;
    constexpr size_t kFew = 16;
    for (;;) {
      Places free = all_places();
      std::erase_if(free, [&](int32_t place) { return living(place) != nullptr; });
      const size_t left = sequences_.size() - free.size();
      if (next_row_ < rows_.size() && (left == 0 || kShare * free.size() >= sequences_.size())) {
        begin_others(std::move(free));
        continue;
      }
      if (next_row_ == rows_.size() && sequences_.size() >= kFew && left > 0 &&
          4 * std::bit_ceil(left) <= sequences_.size()) {
        keep_living(std::bit_ceil(left));
      }
      return left > 0;
    }
  }
  void begin_others(Places free) {
    free.resize(std::min(free.size(), rows_.size() - next_row_));
    for (const int32_t place : free) {
      sequences_[static_cast<size_t>(place)] = next_row_++;
    }
    read_at(free);
  }
  void read_at(const Places& places) {
    std::vector<std::span<const int32_t>> prompts;
    for (const int32_t place : places) {
      prompts.push_back(rows_[sequences_[static_cast<size_t>(place)]].seen());
    }
    choose(decoder_.replace(params_, places, prompts), places);
  }
  void keep_living(size_t count) {
    Places kept = all_places();
    std::erase_if(kept, [&](int32_t place) { return living(place) == nullptr; });
    std::vector<size_t> rows;
    for (const int32_t place : kept) {
      rows.push_back(sequences_[static_cast<size_t>(place)]);
    }
    kept.resize(count, kept[0]);
    rows.resize(count, kNobody);
    decoder_.keep(kept);
    sequences_ = std::move(rows);
  }

  // Of texts that have filled their positions the newer half is read again. Those beside them wait: keys that turn by the
  // length of a text would be others if they were read again.
  void write_on() {
    Places full;
    bool others = false;
    for (const int32_t place : all_places()) {
      if (Row* const row = living(place); row != nullptr && row->seen().size() > longest_) {
        row->first = row->ids.size() - std::max<size_t>(longest_ / 2, 1);
        full.push_back(place);
      } else {
        others = others || row != nullptr;
      }
    }
    if (full.empty()) {
      choose(next(), all_places());
    } else if (others) {
      read_at(full);
    } else {
      choose(start(), all_places());  // no second cache
    }
  }
  std::vector<float> start() {
    // Sequences are begun with room for whatever comes into them.
    int64_t room = 1;
    std::vector<std::span<const int32_t>> seen;
    const auto reserve = [&](const Row& row) {
      room = std::max(room, std::ssize(row.seen()) + options_.tokens - row.written() - 1);
    };
    for (const int32_t place : all_places()) {
      const Row* const row = living(place);
      seen.push_back(row != nullptr ? row->seen() : std::span(rows_[0].ids).first(1));
      if (row != nullptr) {
        reserve(*row);
      }
    }
    std::for_each(rows_.begin() + static_cast<ptrdiff_t>(next_row_), rows_.end(), reserve);
    return decoder_.start(params_, seen, std::min(room, static_cast<int64_t>(longest_)));
  }
  std::vector<float> go_on() {
    const auto rest = rows_.front().seen().subspan(held_);
    return decoder_.next(params_, std::span(&rest, 1));
  }
  std::vector<float> next() {
    std::vector<int32_t> last;
    for (const int32_t place : all_places()) {
      const Row* const row = living(place);
      last.push_back(row != nullptr ? row->ids.back() : Decoder::kIdle);
    }
    return decoder_.next(params_, last);
  }

  // `logits` of the sequences at `places`.
  void choose(std::span<const float> logits, const Places& places) {
    const size_t vocab = logits.size() / places.size();
    constexpr int64_t kRowsAtOnce = 16;
    std::vector<int32_t> chosen(places.size(), 0);
    const bool keeps = drawn_ != nullptr && drawn_->support > 0;
    std::vector<std::vector<int64_t>> supports(keeps ? places.size() : 0);
    choosers_.parallel_for(std::ssize(places), kRowsAtOnce, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); std::cmp_less(i, end); ++i) {
        if (Row* const row = living(places[i])) {
          chosen[i] = static_cast<int32_t>(choose_token(logits.subspan(i * vocab, known_),
                                                        options_.sampling, row->rng,
                                                        keeps ? &supports[i] : nullptr));
        }
      }
    });
    if (drawn_ != nullptr) {
      note(logits, chosen, places, supports);
    }
    for (size_t i = 0; i < places.size(); ++i) {
      Row* const row = living(places[i]);
      if (row == nullptr) {
        continue;
      }
      const auto& stop = options_.stop;
      if (std::find(stop.begin(), stop.end(), chosen[i]) != stop.end()) {
        row->end = row->ids.size();
      }
      row->ids.push_back(chosen[i]);
      if (!row->end && on_token_ != nullptr) {
        on_token_(sequences_[static_cast<size_t>(places[i])], chosen[i]);
      }
    }
  }
  void note(std::span<const float> logits, std::span<const int32_t> chosen, const Places& places,
            std::span<const std::vector<int64_t>> supports) {
    const auto rows = std::ssize(places);
    const int64_t width = drawn_->support;
    std::vector<int32_t> kept(static_cast<size_t>(rows * width), -1);
    for (size_t i = 0; width > 0 && i < places.size(); ++i) {
      check(std::ssize(supports[i]) <= width, "a token was drawn from {} others, {} are kept",
            supports[i].size(), width);
      std::copy(supports[i].begin(), supports[i].end(),
                kept.begin() + static_cast<ptrdiff_t>(i) * width);
    }
    const std::vector<float> log_probs = decoder_.log_probs(
        tensor<float>(logits, {rows, std::ssize(logits) / rows}), tensor<int32_t>(chosen, {rows}),
        width > 0 ? tensor<int32_t>(kept, {rows, width}) : Tensor());
    for (size_t i = 0; i < places.size(); ++i) {
      if (living(places[i]) != nullptr) {
        const size_t row = sequences_[static_cast<size_t>(places[i])];
        drawn_->log_probs[row].push_back(log_probs[i]);
        const auto begin = kept.begin() + static_cast<ptrdiff_t>(i) * width;
        drawn_->supports[row].insert(drawn_->supports[row].end(), begin, begin + width);
      }
    }
  }

  Decoder& decoder_;
  const Params& params_;
  const WriteOptions& options_;
  size_t known_;
  const OnToken& on_token_;
  size_t held_;
  DrawnTokens* drawn_;
  ThreadPool choosers_;
  size_t longest_;
  std::vector<Row> rows_;
  std::vector<size_t> sequences_;  // which row each is of
  size_t next_row_ = 0;            // the first that waits
};

}  // namespace

std::vector<std::vector<int32_t>> continue_tokens(Decoder& decoder, const Params& params,
                                                  std::span<const std::vector<int32_t>> prompts,
                                                  const WriteOptions& options, int64_t known,
                                                  const OnToken& on_token, size_t held,
                                                  DrawnTokens* drawn) {
  check_sampling(options.sampling);
  check(drawn == nullptr || options.sampling.temperature == 1,
        "log-probabilities are those of the decoder's temperature");
  return TextsUnderWay(decoder, params, options, known, on_token, held, prompts.size(), drawn)
      .run(prompts);
}

}  // namespace mstrain
