// ViT as Hugging Face stores it: the edge between our parameters and files that `transformers` opens.
#pragma once

#include "core/base/json.h"
#include "core/tensor/params.h"
#include "core/train/pretrained.h"
#include "suites/transformer/vit/config.h"

namespace mstrain::vit {

// The shape under which a weight file holds parameter `name` of logical shape `shape`: heads are part of a matrix's dim.
// Elements are in the same order, so that only the shape changes. Names are equal.
Shape hf_shape(const VitConfig& config, std::string_view name, const Shape& shape);

// What a tensor of a weight file is: names with and without the prefix `vit.`, those of the modules since transformers 5;
// what a classifier does not use, such as the pooler and the parts for masked images.
StoredMeaning hf_meaning(const VitConfig& config, const std::string& stored);

// The linear layers of the encoder, as they are called here and in weight files, and as the modules are since transformers 5,
// which adapters name.
std::vector<std::pair<std::string, std::string>> hf_other_names(const VitConfig& config);

// config.json of ViTForImageClassification. `config.num_classes` must be a number. `labels` names them all; empty: as `source`
// does, the config.json of the directory where the model began, or LABEL_0, LABEL_1, …. What else `source` says and changes no
// numbers here is taken over.
OrderedJson hf_config(const VitConfig& config, const Json& source = Json::object(),
                      const std::vector<std::string>& labels = {});

// The names of the labels in a config.json, by their number; empty where none has one of its own (LABEL_0, LABEL_1, …).
std::vector<std::string> named_labels(const Json& config_json);

// Names of the `rows` of a head: those of the data, then what `before` called the others, or LABEL_i where it is a name of
// the data or there is none.
std::vector<std::string> row_names(std::vector<std::string> data,
                                   const std::vector<std::string>& before, int64_t rows);

// The reverse of hf_config(), with the defaults of Hugging Face; there are as many classes as id2label has, or num_labels says. Throws
// Error naming the key that asks for another model than this one; `source` names the file.
VitConfig config_from_hf(const Json& json, std::string_view source);

}  // namespace mstrain::vit
