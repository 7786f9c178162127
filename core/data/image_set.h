// Pictures with labels: folders of PNG and JPEG files by class, IDX files (MNIST and its kin) and CIFAR's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/hash.h"
#include "core/io/images/image.h"

namespace mstrain {

// Immutable; any thread may read.
class ImageSet {
 public:
  virtual ~ImageSet() = default;

  virtual int64_t size() const = 0;
  virtual int32_t label(int64_t index) const = 0;
  // What `choose` picks of picture `index`, with the set's number of channels: see decode_image().
  virtual Image read(int64_t index, const ChooseRegion& choose = whole_image) const = 0;

  // Names of the labels. Of IDX files and CIFAR's, which name none: as many as there are, "0", "1", ….
  const std::vector<std::string>& names() const { return names_; }
  int64_t classes() const { return static_cast<int64_t>(names_.size()); }
  int64_t channels() const { return channels_; }
  const Hash128& identity() const { return identity_; }  // equal for equal data

 protected:
  ImageSet(std::vector<std::string> names, int64_t channels, const Hash128& identity)
      : names_(std::move(names)), channels_(channels), identity_(identity) {}

 private:
  std::vector<std::string> names_;
  int64_t channels_;
  Hash128 identity_;
};
using ImageSetPtr = std::shared_ptr<const ImageSet>;

// Pictures of one size in memory: pixels [labels.size(), height, width, channels of them].
ImageSetPtr stored_images(std::vector<uint8_t> pixels, int64_t height, int64_t width,
                          int64_t stored_channels, std::vector<int32_t> labels,
                          std::vector<std::string> names, int64_t channels);

// Some of the pictures of a set, in the order of `indices`.
ImageSetPtr some_images(ImageSetPtr all, std::vector<int64_t> indices);

struct ImageParts {
  ImageSetPtr train;
  ImageSetPtr held_out;  // what the data themselves keep apart; null: nothing
};

// What `path` holds, told by the names that are in it:
//   train-images-idx3-ubyte, train-labels-idx1-ubyte and the same of t10k, each plain or with .gz
//   data_batch_1.bin … data_batch_5.bin, test_batch.bin        CIFAR-10
//   train.bin, test.bin                                        CIFAR-100 (fine labels)
//   folders train and val, valid, validation or test, of one folder for each class
//   one folder for each class, with PNG and JPEG files at any depth; labels count them in the order of their names
// `channels` of each picture: 1 or 3. `known` names all labels that there may be, in their order, where folders do not say it; sets
// without names have no more of them. Throws IoError that names the path and what was expected of it.
ImageParts open_images(FileSystem& files, const std::string& path, int64_t channels,
                       const std::vector<std::string>& known = {});
// The folders of `path` that are classes, in the order of their names; none where files hold all the images.
std::vector<std::string> class_folders(FileSystem& files, const std::string& path);
// Whether the folder `path` is laid out so, by a look at names: every class that there is has a picture, not far down.
bool looks_like_images(FileSystem& files, const std::string& path);
// The pictures of `path` alone, to evaluate on, with the labels of `like`: what it keeps apart, or else all.
ImageSetPtr open_held_out_images(FileSystem& files, const std::string& path, const ImageSet& like);

}  // namespace mstrain
