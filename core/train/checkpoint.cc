#include "core/train/checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/io/folder.h"
#include "core/runtime/context.h"
#include "core/tensor/host.h"
#include "core/train/checkpoint_together.h"

namespace mstrain {
namespace {

constexpr const char* kFormat = "mstrain checkpoint";
constexpr int kVersion = 1;

// Of one rank, which has all of them.
void write_tensors(AtomicFolder& folder, const std::string& file,
                   const std::vector<StoredTensor>& tensors) {
  const auto named = by_name(tensors);
  SafetensorsWriter writer(folder.create(file), layout_of(tensors));
  for (const TensorEntry& entry : writer.entries()) {
    writer.append(entry.name, HostRead(dense(named.at(entry.name)->value)).bytes());
  }
  writer.finish();
}

template <class T>
T member(const Json& json, const char* key, const std::string& name) {
  const auto found = json.find(key);
  if (found == json.end()) {
    throw IoError(fmt::format("{}: \"{}\" is missing", name, key));
  }
  const bool fits = std::is_same_v<T, std::string> ? found->is_string()
                    : std::is_same_v<T, uint64_t>  ? found->is_number_unsigned()
                                                   : found->is_number_integer();
  if (!fits) {
    throw IoError(fmt::format("{}: \"{}\" is {}", name, key, found->type_name()));
  }
  return found->get<T>();
}

int64_t count(const Json& json, const char* key, const std::string& name) {
  const auto value = member<uint64_t>(json, key, name);
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    throw IoError(fmt::format("{}: \"{}\" is {}", name, key, value));
  }
  return static_cast<int64_t>(value);
}

constexpr std::string_view kSetAside = ".best";

// Of the folders with a manifest whose names are those of checkpoints with `ending` behind.
std::vector<int64_t> steps_of(FileSystem& files, const std::string& directory,
                              std::string_view ending) {
  std::vector<int64_t> steps;
  if (files.is_directory(directory)) {
    for (const std::string& name : files.list(directory)) {
      const auto step =
          name.ends_with(ending)
              ? parse_checkpoint_name(std::string_view(name).substr(0, name.size() - ending.size()))
              : std::nullopt;
      if (step && files.exists(join_path(join_path(directory, name), kManifestName))) {
        steps.push_back(*step);
      }
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace

void save_checkpoint(FileSystem& files, const std::string& folder,
                     const CheckpointContents& contents, Communicator* ranks) {
  if (ranks != nullptr) {
    save_together(files, folder, contents, *ranks);
    return;
  }
  AtomicFolder out(files, folder);
  for (const auto& [name, bytes] : contents.files) {
    out.write(name, bytes);
  }
  write_tensors(out, contents.model_file, contents.model);
  write_tensors(out, kOptimizerFile, contents.optimizer);
  out.write(kStateFile, print_progress(contents.progress));
  out.commit();
}

std::string print_progress(const ProgressState& progress) {
  OrderedJson json{{"format", kFormat},
                   {"version", kVersion},
                   {"step", progress.step},
                   {"rng", {{"algorithm", "philox4x32-10"}, {"seed", progress.seed}}},
                   {"data", {{"samples", progress.samples}, {"identity", progress.data}}},
                   {"micro_batch", progress.micro_batch},
                   {"machine", {{"isa", progress.isa}, {"threads", progress.threads}}},
                   {"schedule", progress.schedule}};
  if (!progress.guard.is_null()) {
    json["guard"] = progress.guard;
  }
  if (!progress.loss_scale.is_null()) {
    json["loss_scale"] = progress.loss_scale;
  }
  if (!progress.callbacks.empty()) {
    json["callbacks"] = progress.callbacks;
  }
  if (!progress.outside.empty()) {
    json["outside"] = progress.outside;
  }
  for (const auto& [key, origin] : progress.frozen) {
    json["frozen"][key] = {{"checkpoint", origin.checkpoint}, {"manifest", origin.manifest}};
  }
  return json.dump(2) + "\n";
}

ProgressState parse_progress(std::string_view text, const std::string& name) {
  const Json json = parse_json(text, name);
  if (!json.is_object() || member<std::string>(json, "format", name) != kFormat) {
    throw IoError(fmt::format("{}: is no {}", name, kFormat));
  }
  if (const auto version = member<int64_t>(json, "version", name); version != kVersion) {
    throw IoError(fmt::format("{}: version {}; this program reads {}", name, version, kVersion));
  }
  const auto section = [&](const char* key) -> const Json& {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_object()) {
      throw IoError(fmt::format("{}: \"{}\" is missing", name, key));
    }
    return *found;
  };
  ProgressState out;
  out.step = count(json, "step", name);
  out.seed = member<uint64_t>(section("rng"), "seed", name);
  out.samples = count(section("data"), "samples", name);
  out.data = member<std::string>(section("data"), "identity", name);
  out.micro_batch = count(json, "micro_batch", name);
  out.schedule = section("schedule");
  if (json.contains("machine")) {
    out.isa = member<std::string>(section("machine"), "isa", name);
    out.threads = count(section("machine"), "threads", name);
  }
  if (json.contains("guard")) {
    out.guard = section("guard");
  }
  if (json.contains("loss_scale")) {
    out.loss_scale = section("loss_scale");
  }
  if (json.contains("callbacks")) {
    out.callbacks = section("callbacks");
  }
  if (json.contains("outside")) {
    out.outside = section("outside");
    for (const auto& [owner, id] : out.outside.items()) {
      if (!id.is_string()) {
        throw IoError(fmt::format("{}: \"outside\": {} is {}", name, owner, id.type_name()));
      }
    }
  }
  if (json.contains("frozen")) {
    const auto origin = [&](const Json& json) {
      return FrozenOrigin{.checkpoint = member<std::string>(json, "checkpoint", name),
                          .manifest = member<std::string>(json, "manifest", name)};
    };
    const Json& frozen = section("frozen");
    if (frozen.contains("checkpoint")) {  // of earlier versions
      out.frozen[kInitFromKey] = origin(frozen);
    } else {
      for (const auto& [key, json] : frozen.items()) {
        out.frozen[key] = origin(json);
      }
    }
  }
  return out;
}

ProgressState read_progress(FileSystem& files, const std::string& folder) {
  const std::string path = join_path(folder, kStateFile);
  return parse_progress(files.read(path), path);
}

void load_tensors(FileSystem& files, const std::string& folder, const std::string& file,
                  const std::vector<StoredTensor>& tensors) {
  const std::string path = join_path(folder, file);
  const SafetensorsFile stored(files, path);
  for (const StoredTensor& tensor : tensors) {
    const TensorEntry& entry = stored.at(tensor.name);
    const TensorType wanted{tensor.type().dtype, tensor.shape};
    if (entry.dtype != wanted.dtype ||
        entry.shape != std::vector<int64_t>(wanted.shape.begin(), wanted.shape.end())) {
      throw IoError(fmt::format("{}: {} is {}[{}]; the model needs {}", path, tensor.name,
                                entry.dtype_name, fmt::join(entry.shape, ", "), to_string(wanted)));
    }
    if (!tensor.value.defined()) {
      continue;
    }
    const auto coordinate = [](const MeshAxis* axis) {
      return axis == nullptr ? 0 : current_context().ranks->coordinate(axis->name);
    };
    const int64_t part = coordinate(tensor.parts);
    const int64_t column = coordinate(tensor.rows == 0 ? nullptr : tensor.shared_by);
    const std::span<const std::byte> bytes = stored.data(entry);
    const uint64_t held = held_bytes(tensor, bytes.size(), part);
    HostWrite value(tensor.value);
    const std::span<std::byte> to = value.bytes();
    std::fill(to.begin(), to.end(), std::byte(0));  // what fills it up
    for_stretches(tensor, bytes.size(), part, column, 0, held,
                  [&](uint64_t from, uint64_t at, uint64_t count) {
                    std::memcpy(to.data() + at, bytes.data() + from, count);
                  });
    value.finish();
  }
  if (stored.entries().size() != tensors.size()) {
    std::vector<std::string> known;
    for (const StoredTensor& tensor : tensors) {
      known.push_back(tensor.name);
    }
    std::sort(known.begin(), known.end());
    for (const TensorEntry& entry : stored.entries()) {
      if (!std::binary_search(known.begin(), known.end(), entry.name)) {
        throw IoError(fmt::format("{}: {} belongs to no parameter of the model", path, entry.name));
      }
    }
  }
}

std::string checkpoint_name(int64_t step) { return fmt::format("step-{:08}", step); }

std::optional<int64_t> parse_checkpoint_name(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix) || name.size() > 24) {
    return std::nullopt;
  }
  const std::string_view digits = name.substr(kPrefix.size());
  int64_t step = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9' || step > std::numeric_limits<int64_t>::max() / 10 - 1) {
      return std::nullopt;
    }
    step = 10 * step + (c - '0');
  }
  return checkpoint_name(step) == name ? std::optional(step) : std::nullopt;
}

std::string set_aside_name(int64_t step) { return checkpoint_name(step).append(kSetAside); }

std::vector<int64_t> list_checkpoints(FileSystem& files, const std::string& directory) {
  return steps_of(files, directory, "");
}

std::vector<int64_t> list_set_aside(FileSystem& files, const std::string& directory) {
  return steps_of(files, directory, kSetAside);
}

std::optional<std::string> newest_checkpoint(FileSystem& files, const std::string& directory,
                                             bool set_aside) {
  const std::vector<int64_t> steps = list_checkpoints(files, directory);
  std::string damage;
  for (size_t i = steps.size(); i-- > 0;) {
    std::string folder = join_path(directory, checkpoint_name(steps[i]));
    const std::vector<std::string> problems = verify_folder(files, folder);
    if (problems.empty()) {
      return folder;
    }
    damage = problems.front();
    if (i > 0) {
      log_warning("{}; going back to {}", damage, checkpoint_name(steps[i - 1]));
      if (set_aside) {
        files.remove_all(folder + ".damaged");
        files.rename(folder, folder + ".damaged");
        files.sync_directory(directory);
      }
    }
  }
  if (!steps.empty()) {
    throw IoError(
        fmt::format("{}; no sound checkpoint is left in {}: restore one, or start anew "
                    "with another run.output_dir",
                    damage, directory));
  }
  return std::nullopt;
}

void prune_checkpoints(FileSystem& files, const std::string& directory, int64_t keep,
                       std::span<const int64_t> besides, std::optional<int64_t> aside) {
  const std::vector<int64_t> steps = list_checkpoints(files, directory);
  for (size_t i = 0; i + static_cast<size_t>(keep) < steps.size(); ++i) {
    if (std::find(besides.begin(), besides.end(), steps[i]) == besides.end()) {
      remove_folder(files, join_path(directory, checkpoint_name(steps[i])));
    }
  }
  for (const int64_t step : list_set_aside(files, directory)) {
    if (step != aside) {
      remove_folder(files, join_path(directory, set_aside_name(step)));
    }
  }
}

}  // namespace mstrain
