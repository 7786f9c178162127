// The tensors of a model directory: one file, model.safetensors, or several with an index
// (github.com/huggingface/safetensors; Hugging Face's "sharded checkpoint"):
//   model.safetensors.index.json   {"metadata": {...}, "weight_map": {tensor: file of the same directory}}
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/safetensors.h"

namespace mstrain {

inline constexpr const char* kWeightsFile = "model.safetensors";
inline constexpr const char* kWeightsIndexFile = "model.safetensors.index.json";

// Whether `folder` holds weights that SafetensorsFolder opens.
bool has_safetensors(FileSystem& files, const std::string& folder);

// What an index says, checked: names of tensors by plain file name. `name` is named in errors.
std::map<std::string, std::vector<std::string>> parse_safetensors_index(std::string_view text,
                                                                        const std::string& name);

// Reads files that nobody has checked: all headers, and that index and files hold the same tensors, before the
// constructor returns. Throws IoError that starts with a path. Reading is thread-safe.
class SafetensorsFolder {
 public:
  // Of both forms the single file is taken.
  SafetensorsFolder(FileSystem& files, const std::string& folder);
  // The tensors of one file.
  explicit SafetensorsFolder(std::unique_ptr<SafetensorsFile> file);

  struct Item {
    const SafetensorsFile* file;
    const TensorEntry* entry;
  };
  const std::vector<Item>& items() const { return items_; }  // by name

  // The tensor's bytes, as SafetensorsFile::data.
  std::span<const std::byte> data(const Item& item) const { return item.file->data(*item.entry); }

 private:
  void list_items();

  std::vector<std::unique_ptr<SafetensorsFile>> shards_;
  std::vector<Item> items_;
};

}  // namespace mstrain
