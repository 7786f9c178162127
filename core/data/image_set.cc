#include "core/data/image_set.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/base/error.h"
#include "core/base/missing_file.h"
#include "core/data/source_files.h"
#include "core/io/idx.h"
#include "core/io/images/cifar.h"

namespace mstrain {
namespace {

class StoredImages final : public ImageSet {
 public:
  StoredImages(std::vector<uint8_t> pixels, int64_t height, int64_t width, int64_t stored_channels,
               std::vector<int32_t> labels, std::vector<std::string> names, int64_t channels)
      : ImageSet(std::move(names), channels,
                 Hasher()
                     .add(std::as_bytes(std::span(pixels)))
                     .add(std::as_bytes(std::span(labels)))
                     .finish()),
        pixels_(std::move(pixels)),
        labels_(std::move(labels)),
        height_(height),
        width_(width),
        stored_channels_(stored_channels) {}

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  int32_t label(int64_t index) const override { return labels_.at(static_cast<size_t>(index)); }
  Image read(int64_t index, const ChooseRegion& choose) const override {
    check(index >= 0 && index < size(), "there is no image {} among {}", index, size());
    const ImageRegion region = choose(height_, width_);
    image_files::check_region(region, height_, width_);
    Image image(region.height, region.width, stored_channels_);
    const uint8_t* const first = pixels_.data() + index * height_ * width_ * stored_channels_;
    for (int64_t y = 0; y < region.height; ++y) {
      const int64_t at = ((region.top + y) * width_ + region.left) * stored_channels_;
      std::copy_n(first + at, region.width * stored_channels_, image.row(y));
    }
    return with_channels(std::move(image), channels());
  }

 private:
  std::vector<uint8_t> pixels_;
  std::vector<int32_t> labels_;
  int64_t height_, width_, stored_channels_;
};

struct LabeledFile {
  std::string path;
  int32_t label = 0;
};

class FolderImages final : public ImageSet {
 public:
  FolderImages(FileSystem& files, std::vector<LabeledFile> pictures, std::vector<std::string> names,
               int64_t channels, const Hash128& identity)
      : ImageSet(std::move(names), channels, identity),
        files_(files),
        pictures_(std::move(pictures)) {}

  int64_t size() const override { return static_cast<int64_t>(pictures_.size()); }
  int32_t label(int64_t index) const override {
    return pictures_.at(static_cast<size_t>(index)).label;
  }
  Image read(int64_t index, const ChooseRegion& choose) const override {
    const LabeledFile& picture = pictures_.at(static_cast<size_t>(index));
    constexpr uint64_t kMostBytes = uint64_t{1} << 30;
    const std::string bytes = files_.read(picture.path, kMostBytes);
    return with_channels(decode_image(as_bytes(bytes), picture.path, choose), channels());
  }

 private:
  FileSystem& files_;
  std::vector<LabeledFile> pictures_;
};

class SomeImages final : public ImageSet {
 public:
  SomeImages(ImageSetPtr all, std::vector<int64_t> indices, const Hash128& identity)
      : ImageSet(all->names(), all->channels(), identity),
        all_(std::move(all)),
        indices_(std::move(indices)) {}

  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  int32_t label(int64_t index) const override {
    return all_->label(indices_.at(static_cast<size_t>(index)));
  }
  Image read(int64_t index, const ChooseRegion& choose) const override {
    return all_->read(indices_.at(static_cast<size_t>(index)), choose);
  }

 private:
  ImageSetPtr all_;
  std::vector<int64_t> indices_;
};

std::vector<std::string> numbers(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) {
    names.push_back(std::to_string(i));
  }
  return names;
}

// The file, plain or zipped; nothing where there is neither.
std::optional<std::string> plain_or_zipped(FileSystem& files, const std::string& path) {
  for (const char* ending : {"", ".gz"}) {
    if (files.exists(path + ending)) {
      return path + ending;
    }
  }
  return std::nullopt;
}

// Null where the folder has no such part.
ImageSetPtr open_idx(FileSystem& files, const std::string& folder, const std::string& part,
                     int64_t channels) {
  const std::string stem = join_path(folder, part);
  const auto images = plain_or_zipped(files, stem + "-images-idx3-ubyte");
  const auto labels = plain_or_zipped(files, stem + "-labels-idx1-ubyte");
  if (!images && !labels) {
    return nullptr;
  }
  if (!images || !labels) {
    throw IoError(fmt::format("{}-{}-ubyte: no such file, with .gz or without", stem,
                              images ? "labels-idx1" : "images-idx3"),
                  ENOENT);
  }
  constexpr int kMostClasses = 256;
  const LabeledImages data = read_labeled_images(files, *images, *labels, kMostClasses);
  const auto bytes_of = [](const IdxArray& array) {
    const auto* first = reinterpret_cast<const uint8_t*>(array.data.data());
    return std::span(first, array.data.size());
  };
  const auto pixels = bytes_of(data.images);
  const auto marks = bytes_of(data.labels);
  if (marks.empty()) {
    throw IoError(fmt::format("{}: holds no images", *images));
  }
  const int64_t classes = *std::max_element(marks.begin(), marks.end()) + 1;
  return stored_images({pixels.begin(), pixels.end()}, data.images.shape[1], data.images.shape[2],
                       1, {marks.begin(), marks.end()}, numbers(classes), channels);
}

ImageSetPtr open_cifar(FileSystem& files, const std::string& folder,
                       const std::vector<std::string>& names, int classes, int64_t channels) {
  CifarImages data;
  for (const std::string& name : names) {
    read_cifar(files, join_path(folder, name), classes, data);
  }
  return stored_images(std::move(data.pixels), kCifarSide, kCifarSide, 3, std::move(data.labels),
                       numbers(classes), channels);
}

std::vector<std::string> folders_in(FileSystem& files, const std::string& path) {
  std::vector<std::string> names = files.list(path);
  std::erase_if(names, [&](const std::string& name) {
    return name.starts_with('.') || !files.is_directory(join_path(path, name));
  });
  return names;
}

const std::vector<std::string>& endings() {
  static const std::vector<std::string> all{".png", ".jpg",  ".jpeg", ".PNG",
                                            ".JPG", ".JPEG", ".JPE",  ".jpe"};
  return all;
}

bool is_image(const std::string& name) {
  return std::ranges::any_of(endings(), [&](const std::string& e) { return name.ends_with(e); });
}

// An empty file of text is no loss, and not looked at; an image was there. Each folder is visited once, whatever links to it.
void refuse_empty(FileSystem& files, const std::string& folder, std::set<std::string>& visited) {
  std::error_code error;
  const auto real = std::filesystem::canonical(folder, error);
  if (error || !visited.insert(real.string()).second) {
    return;
  }
  for (const std::string& name : files.list(folder)) {
    const std::string path = join_path(folder, name);
    if (files.is_directory(path)) {
      refuse_empty(files, path, visited);
    } else if (is_image(name) && files.file_size(path) == 0) {
      throw IoError(fmt::format("{}: the file is empty", path));
    }
  }
}

// Whether a picture lies in `folder`, or in a folder of its own.
bool has_image(FileSystem& files, const std::string& folder, bool look_below = true) {
  const std::vector<std::string> names = files.list(folder);
  return std::ranges::any_of(names, is_image) ||
         (look_below && std::ranges::any_of(names, [&](const std::string& name) {
            const std::string path = join_path(folder, name);
            return files.is_directory(path) && has_image(files, path, false);
          }));
}

// MNIST's or CIFAR's.
bool holds_image_files(FileSystem& files, const std::string& path) {
  for (const char* name : {"train-images-idx3-ubyte", "t10k-images-idx3-ubyte", "data_batch_1.bin",
                           "test_batch.bin", "train.bin", "test.bin"}) {
    if (plain_or_zipped(files, join_path(path, name))) {
      return true;
    }
  }
  return false;
}

std::string home_of_classes(FileSystem& files, const std::string& path) {
  const std::string train = join_path(path, "train");
  return files.is_directory(train) ? train : path;
}

// Labels are places in `known`, or where that is empty in the names of the folders.
ImageSetPtr open_folders(FileSystem& files, const std::string& path,
                         const std::vector<std::string>& known, int64_t channels) {
  const std::vector<std::string> folders = folders_in(files, path);
  const std::vector<std::string>& names = known.empty() ? folders : known;
  std::vector<LabeledFile> pictures;
  Hasher identity;
  std::set<std::string> visited;
  for (const std::string& folder : folders) {
    const auto found = std::find(names.begin(), names.end(), folder);
    if (found == names.end()) {
      throw IoError(fmt::format("{}: is none of the {} classes that are learnt{}",
                                join_path(path, folder), names.size(),
                                did_you_mean(folder, names)));
    }
    const auto label = static_cast<int32_t>(found - names.begin());
    refuse_empty(files, join_path(path, folder), visited);
    for (const SourceFile& file : find_source_files(files, join_path(path, folder), endings())) {
      pictures.push_back({file.path, label});
      identity.add(folder).add(file.name).add(file.bytes);
    }
  }
  if (pictures.empty()) {
    throw IoError(fmt::format(
        "{}: holds no images; expected a folder of PNG or JPEG files for each class, MNIST's files "
        "(train-images-idx3-ubyte) or CIFAR's (data_batch_1.bin, train.bin)",
        path));
  }
  return std::make_shared<FolderImages>(files, std::move(pictures), names, channels,
                                        identity.finish());
}

std::optional<std::string> held_out_folder(FileSystem& files, const std::string& path) {
  for (const char* name : {"val", "valid", "validation", "test"}) {
    if (files.is_directory(join_path(path, name))) {
      return join_path(path, name);
    }
  }
  return std::nullopt;
}

// `known`: the labels' names; empty: those that are found.
ImageParts open_parts(FileSystem& files, const std::string& path,
                      const std::vector<std::string>& known, int64_t channels) {
  check_exists(files, path);
  if (!files.is_directory(path)) {
    throw IoError(fmt::format("{}: expected a folder of images", path));
  }
  ImageParts parts{open_idx(files, path, "train", channels),
                   open_idx(files, path, "t10k", channels)};
  if (parts.train != nullptr || parts.held_out != nullptr) {
    return parts;
  }
  const auto has = [&](const std::string& name) { return files.exists(join_path(path, name)); };
  const auto cifar = [&](std::vector<std::string> names, int classes) -> ImageSetPtr {
    return has(names.front()) ? open_cifar(files, path, names, classes, channels) : nullptr;
  };
  if (has("data_batch_1.bin") || has("test_batch.bin")) {
    return {cifar({"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                   "data_batch_5.bin"},
                  10),
            cifar({"test_batch.bin"}, 10)};
  }
  if (has("train.bin") || has("test.bin")) {
    return {cifar({"train.bin"}, 100), cifar({"test.bin"}, 100)};
  }
  if (files.is_directory(join_path(path, "train"))) {
    parts.train = open_folders(files, join_path(path, "train"), known, channels);
    if (const auto held_out = held_out_folder(files, path)) {
      parts.held_out = open_folders(files, *held_out, parts.train->names(), channels);
    }
    return parts;
  }
  return {open_folders(files, path, known, channels), nullptr};
}

void check_labels(const ImageSet& set, int64_t classes, const std::string& path) {
  if (set.classes() > classes) {
    throw IoError(
        fmt::format("{}: images of {} classes, but {} are learnt", path, set.classes(), classes));
  }
}

}  // namespace

ImageSetPtr stored_images(std::vector<uint8_t> pixels, int64_t height, int64_t width,
                          int64_t stored_channels, std::vector<int32_t> labels,
                          std::vector<std::string> names, int64_t channels) {
  const auto count = static_cast<int64_t>(labels.size());
  check(height > 0 && width > 0 && count > 0 &&
            static_cast<int64_t>(pixels.size()) == count * height * width * stored_channels,
        "{} bytes are no {} images of {} x {} x {}", pixels.size(), count, height, width,
        stored_channels);
  for (const int32_t label : labels) {
    check(label >= 0 && label < static_cast<int64_t>(names.size()), "label {}, expected below {}",
          label, names.size());
  }
  return std::make_shared<StoredImages>(std::move(pixels), height, width, stored_channels,
                                        std::move(labels), std::move(names), channels);
}

ImageSetPtr some_images(ImageSetPtr all, std::vector<int64_t> indices) {
  const Hash128 identity =
      Hasher().add(all->identity()).add(std::as_bytes(std::span(indices))).finish();
  return std::make_shared<SomeImages>(std::move(all), std::move(indices), identity);
}

std::vector<std::string> class_folders(FileSystem& files, const std::string& path) {
  return !files.is_directory(path) || holds_image_files(files, path)
             ? std::vector<std::string>()
             : folders_in(files, home_of_classes(files, path));
}

bool looks_like_images(FileSystem& files, const std::string& path) {
  if (holds_image_files(files, path)) {
    return true;
  }
  const std::string home = home_of_classes(files, path);
  const std::vector<std::string> classes = folders_in(files, home);
  return !classes.empty() && std::ranges::all_of(classes, [&](const std::string& name) {
    return has_image(files, join_path(home, name));
  });
}

ImageParts open_images(FileSystem& files, const std::string& path, int64_t channels,
                       const std::vector<std::string>& known) {
  ImageParts parts = open_parts(files, path, known, channels);
  if (parts.train == nullptr) {
    throw IoError(fmt::format("{}: holds images to evaluate on, none to train on", path));
  }
  if (!known.empty()) {
    check_labels(*parts.train, static_cast<int64_t>(known.size()), path);
  }
  if (parts.held_out != nullptr) {
    check_labels(*parts.held_out, parts.train->classes(), path);
  }
  return parts;
}

ImageSetPtr open_held_out_images(FileSystem& files, const std::string& path, const ImageSet& like) {
  const ImageParts parts = open_parts(files, path, like.names(), like.channels());
  ImageSetPtr set = parts.held_out != nullptr ? parts.held_out : parts.train;
  check_labels(*set, like.classes(), path);
  return set;
}

}  // namespace mstrain
