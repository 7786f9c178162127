// A run of a model that reads text: its data are a corpus, its ids the tokens of a tokenizer.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/data/corpus.h"
#include "suites/run/model_run.h"

namespace mstrain {

class TextRun : public ModelRun {
 public:
  DataConfig data;

  void settle(int64_t ids, const YamlNode& tree) override;
  [[noreturn]] void fail_unsettled(const YamlNode& tree) const override;
  std::optional<int64_t> known_ids(FileSystem& files, const YamlNode& tree) const override;
  void open_data(FileSystem& files, const YamlNode& tree,
                 const std::optional<std::string>& folder) override;
  int64_t data_ids() const override { return corpus().tokenizer->vocab_size(); }
  bool holds_out() const override { return data.valid.has_value() || data.split < 1; }
  void find_oddities_of(int64_t ids, const YamlNode& tree, Findings& findings) const override;
  std::vector<Overrides> smaller_samples() const override { return samples_below(data.seq_length); }

  // After open_data().
  const Corpus& corpus() const { return *corpus_; }
  void use(Corpus corpus) { corpus_ = std::make_shared<const Corpus>(std::move(corpus)); }

 protected:
  virtual AutoOr<int64_t>& vocab_size() = 0;  // model.vocab_size
  const AutoOr<int64_t>& vocab_size() const { return const_cast<TextRun*>(this)->vocab_size(); }

  void declare_data(ConfigFields& fields) override;
  void check(const YamlNode& tree) const override;

  // That of `folder`, where it has one.
  static std::shared_ptr<const Tokenizer> tokenizer_in(FileSystem& files,
                                                       const std::optional<std::string>& folder);
  // The text of open_data().
  void open_text(FileSystem& files, const YamlNode& tree, const std::optional<std::string>& folder);
  // Throws ConfigError where `encode` throws what is wrong with one of eval.prompts.
  void check_prompts(const YamlNode& tree,
                     const std::function<void(const std::string& prompt)>& encode) const;

  // What does not depend on how samples are made of the corpus: identity, files of a checkpoint, samples of what the model
  // writes.
  TrainData text_data(const Json& source) const;

  // Tokens of rows of one sample each, of which none needs more than `needed`, and which have room for `room`.
  int64_t length_for(int64_t needed, int64_t room) const;
  // Halves of samples of so many tokens.
  static std::vector<Overrides> samples_below(int64_t tokens);

  // Bytes, and words for them, of a step of sequences of i32, `tensors` of data.seq_length each.
  LeastSize least_size_with(double parameters, int tensors) const;

 private:
  std::shared_ptr<const Corpus> corpus_;
};

}  // namespace mstrain
