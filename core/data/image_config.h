// The `data` section of a run on images.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/config.h"

namespace mstrain {

enum class CropType { kNone, kPadded, kResized };

struct RandAugmentConfig {
  int64_t ops = 2;
  double magnitude = 9;

  template <class V>
  void fields(V& v) {
    v("ops", ops, "changes of one image",
      rule::at_least(1).at_most(16).elsewhere_called({"num_ops", "n"}));
    v("magnitude", magnitude, "how strong they are",
      rule::at_least(0).at_most(30).elsewhere_called({"m"}));
  }
};

// What training does to images; each draw is a function of run.seed and of the sample's number.
struct AugmentConfig {
  CropType crop = CropType::kNone;
  int64_t padding = 4;
  std::array<double, 2> scale{0.08, 1};
  std::array<double, 2> ratio{0.75, 4.0 / 3};
  double flip = 0;
  std::optional<RandAugmentConfig> rand_augment;
  double erase = 0;
  double mixup = 0;
  double cutmix = 0;

  template <class V>
  void fields(V& v) {
    v("crop", crop,
      "resized: a part of random place, size and shape; padded: the image, moved by up to "
      "`padding` pixels",
      rule::one_of({"none", "padded", "resized"}));
    v("padding", padding, "black pixels around the image, where crop is padded", rule::at_least(0));
    v("scale", scale, "least and greatest share of the image's area, where crop is resized",
      rule::above(0).at_most(1));
    v("ratio", ratio, "least and greatest width / height, where crop is resized", rule::positive());
    v("flip", flip, "probability of changing left and right",
      rule::at_least(0).at_most(1).elsewhere_called({"hflip", "horizontal_flip"}));
    v("rand_augment", rand_augment,
      "random changes of colour and shape (Cubuk et al. 2020); null: none",
      rule::elsewhere_called({"randaugment", "auto_augment", "aa"}));
    v("erase", erase, "probability of erasing a rectangle (Zhong et al. 2020)",
      rule::at_least(0).at_most(1).elsewhere_called({"reprob", "random_erasing"}));
    v("mixup", mixup,
      "an image is mixed with the next one of its batch in a share drawn from Beta(mixup, mixup) "
      "(Zhang et al. 2018); 0: not; where cutmix is on too, either is drawn",
      rule::at_least(0).elsewhere_called({"mixup_alpha"}));
    v("cutmix", cutmix,
      "a rectangle comes from the next image of the batch, its share of the area drawn from "
      "Beta(cutmix, cutmix) (Yun et al. 2019); 0: not",
      rule::at_least(0).elsewhere_called({"cutmix_alpha"}));
  }

  bool mixes() const { return mixup > 0 || cutmix > 0; }
};

struct ImageDataConfig {
  std::string train;
  std::optional<std::string> valid;
  double split = 0.9;
  AutoOr<int64_t> image_size;
  std::optional<double> center_crop;
  std::vector<double> mean{0.5};
  std::vector<double> std{0.5};
  AugmentConfig augment;
  bool shuffle = true;
  AutoOr<int64_t> workers;

  template <class V>
  void fields(V& v) {
    v("train", train,
      "a folder: of one folder of PNG or JPEG files for each class, with train and val beside each "
      "other or not; of MNIST's files; of CIFAR's binary files",
      rule::required().path().elsewhere_called(
          {"dataset", "dataset_name", "data_path", "data_dir", "train_dir"}));
    v("valid", valid,
      "such a folder to evaluate on; null: what the other one keeps apart, else what split leaves",
      rule::path().elsewhere_called({"validation_dir", "val_dir", "valid_dir", "test_dir"}));
    v("split", split,
      "part of the images to train on, where valid is null and nothing is kept apart; 1: hold out "
      "nothing",
      rule::above(0).at_most(1));
    v("image_size", image_size,
      "height and width of the images that the model sees; auto: model.image_size",
      rule::at_least(1).at_most(1 << 14).elsewhere_called({"img_size", "resolution", "crop_size"}));
    v("center_crop", center_crop,
      "evaluation sees the square in the middle, of this part of the shorter side; null: all, made "
      "a square",
      rule::above(0).at_most(1).elsewhere_called({"crop_pct"}));
    v("mean", mean,
      "subtracted from values from 0 to 1: one number, or one for each channel; left out: as "
      "preprocessor_config.json of the directory that the model comes from says",
      rule::elsewhere_called({"image_mean"}));
    v("std", std, "what they are divided by then; left out: likewise",
      rule::positive().elsewhere_called({"image_std"}));
    v("augment", augment, "what training does to images");
    v("shuffle", shuffle, "take images in a new random order in every pass over them");
    v("workers", workers, "threads that read and change images; auto: one for each processor",
      rule::at_least(0).at_most(1024).elsewhere_called({"num_workers", "dataloader_num_workers"}));
  }
};

// What one key alone cannot tell, for images of `channels`. Throws ConfigError, with the line where `tree` is what `config`
// was read from.
void check_image_data_config(const ImageDataConfig& config, int64_t channels, const YamlNode& tree);

}  // namespace mstrain
