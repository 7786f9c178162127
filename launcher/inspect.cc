#include "launcher/inspect.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "core/base/error.h"
#include "core/base/missing_file.h"
#include "core/data/image_set.h"
#include "core/data/token_files.h"
#include "core/data/tokenizer.h"
#include "core/io/events.h"
#include "core/io/folder.h"
#include "core/io/idx.h"
#include "core/io/npy.h"
#include "core/io/safetensors_folder.h"
#include "core/train/checkpoint.h"
#include "core/train/find_lr.h"
#include "core/train/metrics_file.h"
#include "core/train/numbers.h"
#include "core/train/report_data.h"
#include "core/train/run_directory.h"
#include "core/train/sweep.h"
#include "launcher/inspect_data.h"
#include "launcher/inspect_run.h"
#include "suites/run/adapter_files.h"
#include "suites/run/folder_kind.h"
#include "suites/run/stored_model.h"

namespace mstrain::launcher {
namespace {

int64_t elements_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string type_of(Dtype dtype, const std::vector<int64_t>& shape) {
  return fmt::format("{}[{}]", name_of(dtype), fmt::join(shape, ", "));
}

void print_safetensors(FileSystem& files, const std::string& path, std::FILE* out) {
  const SafetensorsFile file(files, path);
  std::vector<TensorEntry> entries = file.entries();
  std::sort(entries.begin(), entries.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  int64_t elements = 0;
  size_t width = 0;
  for (const TensorEntry& entry : entries) {
    elements += elements_of(entry.shape);
    width = std::max(width, entry.name.size());
  }
  fmt::print(out, "{}: safetensors, {} tensors, {} elements, {} bytes\n", path, entries.size(),
             grouped(elements), grouped(static_cast<int64_t>(files.file_size(path))));
  for (const auto& [key, value] : file.metadata()) {
    fmt::print(out, "  metadata {}: {}\n", key, value);
  }
  for (const TensorEntry& entry : entries) {
    fmt::print(out, "  {:<{}}  {} [{}]\n", entry.name, width, entry.dtype_name,
               fmt::join(entry.shape, ", "));
  }
}

// What config.json, and of an adapter adapter_config.json, say; or why they say nothing that we know.
void print_model(FileSystem& files, const std::string& path, std::FILE* out) {
  const std::string source = join_path(path, kAdapterConfigFile);
  if (files.exists(source)) {
    const Json config = parse_json(files.read(source, 1 << 20), source);
    fmt::print(out, "  adapter:");
    const char* between = " ";
    for (const char* key : {"peft_type", "r", "lora_alpha", "use_rslora", "target_modules",
                            "modules_to_save", "base_model_name_or_path"}) {
      if (config.is_object() && config.contains(key) && !config[key].is_null()) {
        fmt::print(out, "{}{} {}", between, key,
                   config[key].dump(-1, ' ', false, Json::error_handler_t::replace));
        between = ", ";
      }
    }
    fmt::print(out, "\n");
  } else if (!files.exists(join_path(path, "config.json"))) {
    return;
  }
  try {
    const StoredModel model = open_model(files, path);
    int64_t parameters = 0;
    for (const ParamSpec& spec : (model.base ? *model.base : model).network->specs()) {
      parameters += spec.type.elements();
    }
    fmt::print(out, "  model: {}, {} parameters", model.description.value("model_type", model.type),
               grouped(parameters));
    if (model.base == nullptr) {
      std::set<std::string> types;
      const SafetensorsFolder weights(files, path);
      for (const SafetensorsFolder::Item& item : weights.items()) {
        types.insert(item.entry->dtype_name);
      }
      fmt::print(out, " in {}", fmt::join(types, ", "));
    }
    YamlNode tree = YamlNode::map();
    tree.add("model", model.network->section());
    for (const char* key : {"hidden_size", "num_layers", "num_attention_heads",
                            "num_key_value_heads", "max_position_embeddings", "vocab_size"}) {
      if (const YamlNode* const found = find_config(tree, std::string("model.") + key)) {
        fmt::print(out, ", {} {}", key, found->text);
      }
    }
    fmt::print(out, "\n");
  } catch (const Error& error) {
    fmt::print(out, "  model: {}\n", error.what());
  }
}

void print_checkpoint(FileSystem& files, const std::string& path, std::FILE* out) {
  fmt::print(out, "{}: checkpoint\n", path);
  print_model(files, path, out);
  if (files.exists(join_path(path, kManifestName))) {
    const Manifest manifest = read_manifest(files, path);
    for (const auto& [name, summary] : manifest) {
      fmt::print(out, "  {:<24} {:>16} bytes  sha256 {}\n", name,
                 grouped(static_cast<int64_t>(summary.size)), summary.sha256.substr(0, 16));
    }
    if (const auto problems = verify_folder(files, path); !problems.empty()) {
      throw IoError(fmt::format("{}", fmt::join(problems, "\n")));
    }
    fmt::print(out, "  every file has the size and digest of the manifest\n");
  }
  if (files.exists(join_path(path, kStateFile))) {
    const ProgressState progress = read_progress(files, path);
    fmt::print(out, "  step {}, {} samples taken, seed {}\n", grouped(progress.step),
               grouped(progress.samples), progress.seed);
  }
  std::vector<std::string> shards;
  const SafetensorsFolder weights =
      has_adapter(files, path) ? adapter_tensors(files, path) : SafetensorsFolder(files, path);
  for (const SafetensorsFolder::Item& item : weights.items()) {
    shards.push_back(item.file->name());
  }
  std::sort(shards.begin(), shards.end());
  shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
  for (const std::string& shard : shards) {
    print_safetensors(files, shard, out);
  }
  if (has_tokenizer(files, path)) {
    print_tokenizer(files, path, out);
  }
}

void print_events(FileSystem& files, const std::string& path, std::FILE* out) {
  const EventsContent content = read_events(files, path);
  struct Tag {
    size_t count = 0;
    int64_t last_step = 0;
    std::optional<float> last;
  };
  std::map<std::string, Tag> tags;
  for (const EventRecord& event : content.events) {
    for (const EventValue& value : event.values) {
      Tag& tag = tags[value.tag];
      ++tag.count;
      tag.last_step = event.step;
      tag.last = value.scalar;
    }
  }
  fmt::print(out, "{}: TensorBoard events, {} records{}\n", path, content.events.size(),
             content.incomplete_tail ? ", the last one incomplete" : "");
  for (const auto& [name, tag] : tags) {
    fmt::print(out, "  {}: {} values, last at step {}{}\n", name, tag.count, tag.last_step,
               tag.last ? fmt::format(": {}", *tag.last) : "");
  }
}

void print_images(FileSystem& files, const std::string& path, std::FILE* out) {
  const ImageParts parts = open_images(files, path, /*channels=*/3);
  const ImageSet& train = *parts.train;
  fmt::print(out, "{}: {} images of {} classes{}\n", path, grouped(train.size()), train.classes(),
             parts.held_out == nullptr
                 ? ""
                 : fmt::format(", {} held out", grouped(parts.held_out->size())));
  std::vector<int64_t> counts(train.names().size());
  for (int64_t i = 0; i < train.size(); ++i) {
    ++counts[static_cast<size_t>(train.label(i))];
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    fmt::print(out, "  {}: {}\n", train.names()[i], grouped(counts[i]));
  }
}

// Null: `path` is none that a suite brings.
const FolderKind* folder_kind(FileSystem& files, const std::string& path) {
  const auto found = std::ranges::find_if(folder_kinds(), [&](const FolderKind& kind) {
    return files.exists(join_path(path, kind.file));
  });
  return found == folder_kinds().end() ? nullptr : &*found;
}

[[noreturn]] void fail_unknown_folder(const std::string& path) {
  std::string suites;
  for (const FolderKind& kind : folder_kinds()) {
    suites += ", " + kind.what;
  }
  throw IoError(fmt::format(
      "{}: is neither a checkpoint, a run, a sweep, a tokenizer{} nor images (a folder of PNG or "
      "JPEG files for each class, MNIST's files or CIFAR's)",
      path, suites));
}

bool is_picture(const std::string& name) {
  return name.ends_with(".png") || name.ends_with(".jpg") || name.ends_with(".jpeg");
}

void print_picture(FileSystem& files, const std::string& path, std::FILE* out) {
  const Image image = decode_image(as_bytes(files.read(path)), path);
  fmt::print(out, "{}: {} x {} pixels, {}\n", path, image.width, image.height,
             image.channels == 1 ? "grey" : "coloured");
}

}  // namespace

void inspect_path(FileSystem& files, const std::string& path, std::FILE* out) {
  check_exists(files, path);
  if (files.is_directory(path)) {
    if (has_safetensors(files, path) || has_adapter(files, path)) {
      print_checkpoint(files, path, out);
    } else if (files.exists(join_path(path, kMetricsFile)) ||
               files.exists(join_path(path, "checkpoints")) ||
               files.exists(join_path(path, kRunFile))) {
      print_run(files, path, out);
    } else if (files.exists(join_path(path, kSweepFile))) {
      print_sweep(files, path, out);
    } else if (const std::string found = join_path(path, kFindLrFolder);
               is_run_directory(files, found)) {
      print_run(files, found, out);
    } else if (has_tokenizer(files, path)) {
      print_tokenizer(files, path, out);
    } else if (const FolderKind* const kind = folder_kind(files, path)) {
      kind->print(files, path, out);
    } else if (looks_like_images(files, path)) {
      print_images(files, path, out);
    } else {
      fail_unknown_folder(path);
    }
    return;
  }
  const std::string name = file_name(path);
  if (name.ends_with(".safetensors")) {
    print_safetensors(files, path, out);
  } else if (name.ends_with(".npy")) {
    const NpyArray array = read_npy(files, path);
    fmt::print(out, "{}: NumPy array {}\n", path, type_of(array.dtype, array.shape));
  } else if (is_token_file(path) || is_megatron_index(files, path)) {
    print_token_file(files, path, out);
  } else if (name.find("-ubyte") != std::string::npos || name.find(".idx") != std::string::npos) {
    const IdxArray array = read_idx(files, path);
    fmt::print(out, "{}: IDX array {}\n", path, type_of(array.dtype, array.shape));
  } else if (is_picture(name)) {
    print_picture(files, path, out);
  } else if (name.starts_with(kEventsPrefix)) {
    print_events(files, path, out);
  } else if (holds_documents(path)) {
    print_json_lines(path, out);
  } else if (is_tokenizer_file(name)) {
    print_tokenizer(files, path, out);
  } else {
    print_text(files, path, out);
  }
}

}  // namespace mstrain::launcher
