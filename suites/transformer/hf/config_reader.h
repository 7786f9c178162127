// config.json of a Hugging Face model, key by key.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/nn/activation.h"
#include "suites/transformer/hf/sections.h"

namespace mstrain::hf {

// Throws Error that begins with `source`, the file's name, and names the key. Absent keys give `otherwise`.
class ConfigReader {
 public:
  // `other_names`: further names of keys, as attribute_map of the class in `transformers` has them. `json` must outlive this.
  ConfigReader(const Json& json, std::string_view source,
               std::map<std::string, std::string> other_names = {});

  // The value under `key` or its other name; null where there is none.
  const Json* find(const std::string& key) const;

  void expect_model_type(std::string_view type) const;
  int64_t count(const std::string& key, int64_t otherwise) const;  // positive, below 2^28
  int64_t id(const std::string& key, int64_t otherwise) const;     // of a token: from 0, null too
  double number(const std::string& key, double otherwise) const;
  double positive(const std::string& key, double otherwise) const;
  double probability(const std::string& key, double otherwise) const;  // in [0, 1)
  bool flag(const std::string& key, bool otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
  Activation activation(const std::string& key, Activation otherwise) const;
  // A score where `architectures` names a class ForSequenceClassification, which must have a single label; both where write_head() said so.
  HeadType head() const;

  // Throws where a key holds anything: absent, null, false, 0 and empty are nothing.
  void refuse(std::initializer_list<const char*> keys) const;

  // Throws where a key was never asked for, is none of `harmless`, and none of those that all models have and that change
  // no number of a forward pass, such as options of generate().
  void refuse_unknown(std::initializer_list<const char*> harmless = {}) const;

 private:
  [[noreturn]] void fail_expected(const std::string& key, const Json& value,
                                  std::string_view expected) const;

  const Json& json_;
  std::string source_;
  std::map<std::string, std::string> other_names_;
  mutable std::set<std::string> asked_;
};

// The keys that head() reads. `otherwise`: what classes of next tokens are called behind the model's name.
void write_head(OrderedJson& config, const std::string& class_name, const std::string& otherwise,
                HeadType head);

// Whether a stored tensor belongs to a head that this model has not.
bool is_of_other_head(const std::string& stored, HeadType head);

// The activation of that name; `where` begins the error.
Activation activation_of(const std::string& name, std::string_view where);

// Adds what `source`, the config.json that a model began with, says besides and what changes no number here, such as the
// ids of special tokens. `replaced`: keys that `config` says by other names.
void take_over(OrderedJson& config, const Json& source,
               std::initializer_list<const char*> replaced);

}  // namespace mstrain::hf
