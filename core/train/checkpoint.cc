#include "core/train/checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/files_silent.h"
#include "core/base/log.h"
#include "core/io/folder.h"
#include "core/runtime/context.h"
#include "core/tensor/host.h"

namespace mstrain {
namespace {

constexpr const char* kFormat = "mstrain checkpoint";
constexpr int kVersion = 1;

std::vector<int64_t> dims(const Shape& shape) { return {shape.begin(), shape.end()}; }

std::vector<SafetensorsWriter::Tensor> entries_of(const std::vector<StoredTensor>& tensors) {
  std::vector<SafetensorsWriter::Tensor> entries;
  for (const StoredTensor& tensor : tensors) {
    const TensorType type = tensor.type();
    const int64_t held =
        type.elements() * tensor.columns() * (tensor.parts == nullptr ? 1 : tensor.parts->size);
    check(tensor.shape.elements() == held ||
              (tensor.parts != nullptr && tensor.shape.elements() < held),
          "{}: {} is to be stored as {}", tensor.name, to_string(type), to_string(tensor.shape));
    entries.push_back({tensor.name, type.dtype, dims(tensor.shape)});
  }
  return entries;
}

std::map<std::string, const StoredTensor*> by_name(const std::vector<StoredTensor>& tensors) {
  std::map<std::string, const StoredTensor*> out;
  for (const StoredTensor& tensor : tensors) {
    out[tensor.name] = &tensor;
  }
  return out;
}

// Bytes of a tensor of `all` that part `rank` has, of parts of `each`: fewer where the tensor ends.
uint64_t bytes_of_part(uint64_t all, uint64_t each, int rank) {
  const uint64_t begin = std::min(all, static_cast<uint64_t>(rank) * each);
  return std::min(all - begin, each);
}

constexpr const char* kSaving = "checkpoint";

// Columns of equal sizes in the order of the stored tensor.
std::vector<std::byte> joined(const std::vector<std::vector<std::byte>>& columns, int64_t rows) {
  std::vector<std::byte> all;
  const auto width = static_cast<std::ptrdiff_t>(columns[0].size()) / rows;
  for (int64_t row = 0; row < rows; ++row) {
    for (const std::vector<std::byte>& column : columns) {
      all.insert(all.end(), column.begin() + row * width, column.begin() + (row + 1) * width);
    }
  }
  return all;
}

// One column of a stored tensor.
std::vector<std::byte> column_of(std::span<const std::byte> all, const StoredTensor& tensor,
                                 int64_t column) {
  std::vector<std::byte> out;
  const auto rows = static_cast<size_t>(tensor.rows);
  const size_t width = all.size() / rows / static_cast<size_t>(tensor.columns());
  for (size_t row = 0; row < rows; ++row) {
    const auto from =
        all.begin() +
        static_cast<std::ptrdiff_t>(
            (row * static_cast<size_t>(tensor.columns()) + static_cast<size_t>(column)) * width);
    out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(width));
  }
  return out;
}

void write_tensors(AtomicFolder& folder, const std::string& file,
                   const std::vector<StoredTensor>& tensors, Communicator* others) {
  const auto named = by_name(tensors);
  SafetensorsWriter writer(folder.create(file), entries_of(tensors), {{"format", "pt"}});
  std::vector<std::byte> received;
  for (const TensorEntry& entry : writer.entries()) {
    const StoredTensor& tensor = *named.at(entry.name);
    const auto each = static_cast<uint64_t>(tensor.type().bytes());
    const int64_t columns = tensor.columns();
    const uint64_t all = entry.bytes / static_cast<uint64_t>(columns);
    std::vector<std::vector<std::byte>> held(static_cast<size_t>(columns));
    const auto add = [&](int64_t column, std::span<const std::byte> part) {
      if (columns == 1) {
        writer.append(entry.name, part);
      } else {
        auto& to = held[static_cast<size_t>(column)];
        to.insert(to.end(), part.begin(), part.end());
      }
    };
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t parts = tensor.parts == nullptr ? 1 : tensor.parts->size;
      for (int64_t part = 0; part < parts; ++part) {
        const uint64_t count = bytes_of_part(all, each, static_cast<int>(part));
        const auto rank = tensor.first + static_cast<int>(part * tensor.neighbours + column);
        if (rank == 0) {
          const HostRead own(dense(tensor.value));
          add(column, own.bytes().first(count));
        } else if (count > 0) {
          received.resize(count);
          others->receive({received.data(), static_cast<int64_t>(count), Dtype::kU8}, rank, kSaving)
              .wait();
          add(column, received);
        }
      }
    }
    if (columns > 1) {
      writer.append(entry.name, joined(held, tensor.rows));
    }
  }
  writer.finish();
}

// In the order in which they are written.
void send_parts(const std::vector<StoredTensor>& tensors, Communicator& first) {
  const auto named = by_name(tensors);
  SilentFiles nowhere(real_files());
  const auto file = nowhere.open("", WriteMode::kTruncate);
  const SafetensorsWriter writer(*file, entries_of(tensors));
  for (const TensorEntry& entry : writer.entries()) {
    const StoredTensor& tensor = *named.at(entry.name);
    const int64_t rank = first.rank() - tensor.first;
    const int64_t part = rank / tensor.neighbours;
    if (rank < 0 || rank % tensor.neighbours >= tensor.columns() ||
        part >= (tensor.parts == nullptr ? 1 : tensor.parts->size)) {
      continue;
    }
    const uint64_t count =
        bytes_of_part(entry.bytes / static_cast<uint64_t>(tensor.columns()),
                      static_cast<uint64_t>(tensor.type().bytes()), static_cast<int>(part));
    if (count > 0) {
      const HostRead own(dense(tensor.value));
      // Read alone.
      void* const from = const_cast<std::byte*>(own.data());
      first.send({from, static_cast<int64_t>(count), Dtype::kU8}, 0, kSaving).wait();
    }
  }
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

}  // namespace

void send_parts(const CheckpointContents& contents, Communicator& first) {
  send_parts(contents.model, first);
  send_parts(contents.optimizer, first);
}

void save_checkpoint(FileSystem& files, const std::string& folder,
                     const CheckpointContents& contents, Communicator* others) {
  AtomicFolder out(files, folder);
  for (const auto& [name, bytes] : contents.files) {
    out.write(name, bytes);
  }
  write_tensors(out, contents.model_file, contents.model, others);
  write_tensors(out, kOptimizerFile, contents.optimizer, others);
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
  return out;
}

void load_tensors(FileSystem& files, const std::string& folder, const std::string& file,
                  const std::vector<StoredTensor>& tensors) {
  const std::string path = join_path(folder, file);
  const SafetensorsFile stored(files, path);
  for (const StoredTensor& tensor : tensors) {
    const TensorEntry& entry = stored.at(tensor.name);
    const TensorType wanted{tensor.type().dtype, tensor.shape};
    if (entry.dtype != wanted.dtype || entry.shape != dims(wanted.shape)) {
      throw IoError(fmt::format("{}: {} is {}[{}]; the model needs {}", path, tensor.name,
                                entry.dtype_name, fmt::join(entry.shape, ", "), to_string(wanted)));
    }
    if (!tensor.value.defined()) {
      continue;
    }
    std::span<const std::byte> bytes = stored.data(entry);
    std::vector<std::byte> column;
    if (tensor.rows > 0) {
      column =
          column_of(bytes, tensor, current_context().ranks->coordinate(tensor.shared_by->name));
      bytes = column;
    }
    HostWrite value(tensor.value);
    const std::span<std::byte> to = value.bytes();
    if (tensor.parts != nullptr) {
      const auto part =
          static_cast<size_t>(current_context().ranks->coordinate(tensor.parts->name));
      const size_t begin = std::min(bytes.size(), part * to.size());
      bytes = bytes.subspan(begin, std::min(bytes.size() - begin, to.size()));
    }
    std::fill(std::copy(bytes.begin(), bytes.end(), to.begin()), to.end(), std::byte(0));
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

std::vector<int64_t> list_checkpoints(FileSystem& files, const std::string& directory) {
  std::vector<int64_t> steps;
  if (files.is_directory(directory)) {
    for (const std::string& name : files.list(directory)) {
      const auto step = parse_checkpoint_name(name);
      if (step && files.exists(join_path(join_path(directory, name), kManifestName))) {
        steps.push_back(*step);
      }
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
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
                       std::span<const int64_t> besides) {
  const std::vector<int64_t> steps = list_checkpoints(files, directory);
  for (size_t i = 0; i + static_cast<size_t>(keep) < steps.size(); ++i) {
    if (std::find(besides.begin(), besides.end(), steps[i]) == besides.end()) {
      remove_folder(files, join_path(directory, checkpoint_name(steps[i])));
    }
  }
}

}  // namespace mstrain
