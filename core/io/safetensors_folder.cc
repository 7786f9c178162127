#include "core/io/safetensors_folder.h"

#include <algorithm>

#include "core/base/json.h"
#include "core/io/json_place.h"
#include "core/io/refuse.h"

namespace mstrain {
namespace {

constexpr uint64_t kMaxIndexBytes = 100'000'000;  // as of a header

// The header of a shard names the tensors that the index gives it, and no others.
void check_shard(const SafetensorsFile& shard, const std::string& path,
                 const std::vector<std::string>& wanted, const std::string& index) {
  for (const std::string& name : wanted) {
    if (!shard.contains(name)) {
      refuse(path, fmt::format("has no tensor \"{}\", which {} looks for there", name, index));
    }
  }
  if (shard.entries().size() != wanted.size()) {
    for (const TensorEntry& entry : shard.entries()) {
      if (!std::binary_search(wanted.begin(), wanted.end(), entry.name)) {
        refuse(path, fmt::format("tensor \"{}\" is not in {}", entry.name, index));
      }
    }
  }
}

}  // namespace

bool has_safetensors(FileSystem& files, const std::string& folder) {
  return files.exists(join_path(folder, kWeightsFile)) ||
         files.exists(join_path(folder, kWeightsIndexFile));
}

std::map<std::string, std::vector<std::string>> parse_safetensors_index(std::string_view text,
                                                                        const std::string& name) {
  const Json json = parse_json(text, name, 8);
  const auto at = [&](const std::string& key, const std::string& message) {
    return fmt::format("offset {}: {}", place_of_key(text, key), message);
  };
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    refuse(name, at("weight_map", "not an index of safetensors: there is no map weight_map"));
  }
  for (const auto& [key, value] : json.items()) {
    if (key != "weight_map" && key != "metadata") {
      refuse(name, at(key, fmt::format("unknown key {}; expected weight_map and metadata",
                                       OrderedJson(key).dump())));
    }
  }
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string() || !is_plain_name(file.get_ref<const std::string&>())) {
      refuse(name, at(tensor, fmt::format("weight_map: the file of \"{}\" is {}, not a name in "
                                          "this directory",
                                          tensor, file.dump())));
    }
    shards[file.get<std::string>()].push_back(tensor);
  }
  return shards;
}

SafetensorsFolder::SafetensorsFolder(FileSystem& files, const std::string& folder) {
  const std::string single = join_path(folder, kWeightsFile);
  const std::string index = join_path(folder, kWeightsIndexFile);
  if (files.exists(single)) {
    shards_.push_back(std::make_unique<SafetensorsFile>(files, single));
  } else if (files.exists(index)) {
    for (const auto& [name, tensors] :
         parse_safetensors_index(files.read(index, kMaxIndexBytes), index)) {
      const std::string path = join_path(folder, name);
      if (!files.exists(path)) {
        refuse(index, fmt::format("names {}, which does not exist", path));
      }
      shards_.push_back(std::make_unique<SafetensorsFile>(files, path));
      check_shard(*shards_.back(), path, tensors, index);
    }
  } else {
    const std::string pickled = join_path(folder, "pytorch_model.bin");
    refuse(folder, fmt::format("holds neither {} nor {}{}", kWeightsFile, kWeightsIndexFile,
                               files.exists(pickled)
                                   ? "; pytorch_model.bin can hold programs and is not read: save "
                                     "the model as safetensors"
                                   : ""));
  }
  list_items();
}

SafetensorsFolder::SafetensorsFolder(std::unique_ptr<SafetensorsFile> file) {
  shards_.push_back(std::move(file));
  list_items();
}

void SafetensorsFolder::list_items() {
  for (const auto& shard : shards_) {
    for (const TensorEntry& entry : shard->entries()) {
      items_.push_back({shard.get(), &entry});
    }
  }
  std::sort(items_.begin(), items_.end(),
            [](const Item& a, const Item& b) { return a.entry->name < b.entry->name; });
}

}  // namespace mstrain
