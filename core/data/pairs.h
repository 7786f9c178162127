// Pairs of texts from JSON lines {"input": …, "target": …}, as ids in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/base/hash.h"
#include "core/data/data_config.h"
#include "core/data/seq2seq_vocabulary.h"

namespace mstrain {

class Pairs {
 public:
  int64_t size() const { return static_cast<int64_t>(ends_.size()) / 2; }
  std::span<const int32_t> source(int64_t pair) const { return text(2 * pair); }
  std::span<const int32_t> target(int64_t pair) const { return text(2 * pair + 1); }
  // Ids of the longest source, and of the longest target.
  int64_t longest_source() const { return longest_source_; }
  int64_t longest_target() const { return longest_target_; }

  void add(std::span<const int32_t> source, std::span<const int32_t> target);

 private:
  std::span<const int32_t> text(int64_t index) const;

  std::vector<int32_t> ids_;
  std::vector<size_t> ends_;  // in ids_, of source and target in turn
  int64_t longest_source_ = 0, longest_target_ = 0;
};

struct WeightedPairs {
  std::shared_ptr<const Pairs> pairs;
  double weight = 1;
};

struct PairCorpus {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<WeightedPairs> train;
  struct HeldOut {
    std::string name;  // of data.valid; empty where it is the only one
    std::shared_ptr<const Pairs> pairs;
  };
  std::vector<HeldOut> valid;  // none where nothing is held out
  Hash128 identity;            // as a Corpus'
};

// As open_corpus(), for files of pairs alone: what is held out where data.valid is null, tokenizers of characters, blends,
// errors. `model`: of the vocabulary that texts are read with.
PairCorpus open_pairs(FileSystem& files, const DataConfig& config,
                      const Seq2SeqVocabulary::OfModel& model,
                      std::shared_ptr<const Tokenizer> tokenizer = nullptr,
                      const YamlNode& tree = YamlNode());

}  // namespace mstrain
