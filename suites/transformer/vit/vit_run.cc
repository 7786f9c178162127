#include "suites/transformer/vit/vit_run.h"

#include <algorithm>
#include <cmath>
#include <ranges>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/data/corpus_sources.h"
#include "core/data/shuffle.h"
#include "core/train/numbers.h"
#include "core/train/session.h"
#include "suites/run/stored_model.h"
#include "suites/transformer/vit/image_processor.h"
#include "suites/transformer/vit/image_task.h"

namespace mstrain::vit {
namespace {

constexpr int64_t kLeastClasses = 2;

// Which images are held out depends on their number alone.
ImageParts split_by_chance(const ImageSetPtr& all, double share) {
  const int64_t count = all->size();
  const int64_t kept =
      std::clamp<int64_t>(std::llround(share * static_cast<double>(count)), 1, count);
  if (kept == count) {
    return {all, nullptr};
  }
  const Permutation order(count, 0, random_stream("data.split", 0), 0);
  std::vector<int64_t> train;
  std::vector<int64_t> held_out;
  for (int64_t i = 0; i < count; ++i) {
    (i < kept ? train : held_out).push_back(order(i));
  }
  return {some_images(all, std::move(train)), some_images(all, std::move(held_out))};
}

std::vector<double> for_channels(std::vector<double> values, int64_t channels) {
  if (values.size() == 1) {
    values.resize(static_cast<size_t>(channels), values[0]);
  }
  return values;
}

}  // namespace

void VitRun::declare_data(ConfigFields& fields) {
  fields("data", data, "images to train and to evaluate on");
}

void VitRun::check(const YamlNode& tree) const {
  check_config(model, tree);
  check_image_data_config(data, model.num_channels, tree);
  if (model.num_channels != 1 && model.num_channels != 3) {
    config_fail(tree, "model.num_channels",
                fmt::format("{}; images have 1 channel (grey) or 3", model.num_channels));
  }
  if (!train.eval.prompts.empty()) {
    config_fail(tree, "eval.prompts", "a vit writes no text");
  }
  if (image_size() % model.patch_size != 0) {
    config_fail(
        tree, "data.image_size",
        fmt::format("{} is no multiple of model.patch_size {}", image_size(), model.patch_size));
  }
}

std::shared_ptr<const Network> VitRun::network() const {
  std::vector<std::string> names;
  if (images_.train != nullptr && !model.num_classes.is_word()) {
    names = row_names(images_.train->names(), labels_, *model.num_classes.value);
  }
  return std::make_shared<VitNetwork>(model, std::move(names));
}

void VitRun::settle(int64_t ids, const YamlNode& tree) {
  if (model.num_classes.is_word()) {
    model.num_classes = std::max(ids, kLeastClasses);
  } else if (*model.num_classes.value < ids) {
    config_fail(
        tree, "model.num_classes",
        fmt::format("{} is less than the {} labels of the data", *model.num_classes.value, ids));
  }
}

void VitRun::fail_unsettled(const YamlNode& tree) const {
  config_fail(tree, "model.num_classes",
              "auto asks the data; a plan, and --offline, need a number");
}

std::optional<int64_t> VitRun::known_ids(FileSystem&, const YamlNode&) const { return {}; }

void VitRun::open_data(FileSystem& files, const YamlNode& tree,
                       const std::optional<std::string>& folder) {
  folders_ = for_key(tree, "data.train", [&] { return class_folders(files, data.train); });
  const std::vector<std::string> known = known_labels(files, tree, folder);
  images_ = for_key(tree, "data.train",
                    [&] { return open_images(files, data.train, model.num_channels, known); });
  if (data.valid) {
    images_.held_out = for_key(tree, "data.valid", [&] {
      return open_held_out_images(files, *data.valid, *images_.train);
    });
  } else if (images_.held_out == nullptr) {
    images_ = split_by_chance(images_.train, data.split);
  }
}

// Where the head that a run begins with names every folder, labels are its rows; else those of a head that is kept are
// numbered, and named, by the folders.
std::vector<std::string> VitRun::known_labels(FileSystem& files, const YamlNode& tree,
                                              const std::optional<std::string>& folder) {
  if (folder) {
    labels_ = named_labels(open_model(files, *folder).description);
    return labels_;
  }
  labels_.clear();
  const std::optional<std::string> from = begins_with(tree);
  if (!from) {
    return {};
  }
  const StoredModel begun = open_model(files, *from);
  const int64_t classes =
      model.num_classes.value_or(std::max<int64_t>(std::ssize(folders_), kLeastClasses));
  if (begun.network->ids() == classes && stored_names(files, begun).contains("classifier.weight")) {
    labels_ = named_labels(begun.description);
  }
  if (labels_.empty() || folders_.empty()) {
    return {};
  }
  const auto named = std::ranges::count_if(folders_, [&](const std::string& name) {
    return std::find(labels_.begin(), labels_.end(), name) != labels_.end();
  });
  if (named == std::ssize(folders_)) {
    log_info("{}: its head, which is kept, names every folder of {}: labels are its rows",
             begun.folder, data.train);
    return labels_;
  }
  log_info(
      "{}: its head, which is kept, names {} of the {} folders of {}: labels count the folders, "
      "and the first rows are named so",
      begun.folder, named, folders_.size(), data.train);
  return {};
}

bool VitRun::holds_out() const {
  return images_.train != nullptr ? images_.held_out != nullptr : data.valid || data.split < 1;
}

void VitRun::find_oddities_of(int64_t ids, const YamlNode& tree, Findings& findings) const {
  find_unused_split(data.valid.has_value(), data.split, decltype(data){}.split, tree, findings);
  if (!folders_.empty()) {
    ids = std::ssize(folders_);  // a head may know more
  }
  if (model.num_classes.value_or(ids) > ids) {
    findings.push_back(fmt::format(
        "{}: {} labels, but the data have {}: the others are never trained; say auto",
        config_where(tree, "model.num_classes"), grouped(*model.num_classes.value), grouped(ids)));
  }
}

TrainTask VitRun::task() const {
  const auto any = static_cast<int>(data.workers.value_or(1));  // how many threads changes nothing
  return image_task(Vit(model, train.memory.recompute), *network(), image_size(),
                    data.augment.mixes(), BatchQueue::slots_for({.workers = any}));
}

TrainData VitRun::samples(const Json& source) const {
  const ImageView view{.size = image_size(),
                       .center_crop = data.center_crop,
                       .mean = for_channels(data.mean, model.num_channels),
                       .std = for_channels(data.std, model.num_channels),
                       .augment = data.augment};
  TrainData out;
  Hasher identity;
  for (const ImageSetPtr& set : {images_.train, images_.held_out}) {
    identity.add(set == nullptr ? Hash128() : set->identity());
  }
  const std::vector<std::string>& names = images_.train->names();
  if (!std::ranges::equal(folders_, names | std::views::take(folders_.size()))) {
    for (const std::string& name : names) {  // the same images under other numbers
      identity.add(name);
    }
  }
  out.identity = to_string(identity.finish());
  out.checkpoint_files = {{"config.json", config_json(source)},
                          {kProcessorFile, processor_config(view)}};
  const int workers = static_cast<int>(data.workers.value_or(make_context(train).num_threads()));
  add_images(images_, view, data.shuffle, workers, out);
  return out;
}

// Nearly: biases and norms are left out.
LeastSize VitRun::least_size() const {
  const auto hidden = static_cast<double>(model.hidden_size);
  const auto inner = model.ffn_hidden_size ? static_cast<double>(*model.ffn_hidden_size)
                                           : 4 * hidden;  // what may be no int64_t
  const auto side = static_cast<double>(model.image_size / model.patch_size);
  const auto patch = static_cast<double>(model.patch_size) * static_cast<double>(model.patch_size) *
                     static_cast<double>(model.num_channels);
  const double rows = side * side + patch + static_cast<double>(model.num_classes.value_or(2));
  const double parameters = rows * hidden + static_cast<double>(model.num_layers) *
                                                (4 * hidden * hidden + 2 * hidden * inner);
  const auto images = static_cast<double>(train.batch.global);
  const auto size = static_cast<double>(image_size());
  return {parameters,
          images * size * size * static_cast<double>(model.num_channels) * sizeof(float),
          fmt::format("the {:.3g} images of a step", images),
          "model.hidden_size, model.num_layers and model.num_classes"};
}

std::vector<Overrides> VitRun::smaller_samples() const {
  std::vector<Overrides> out;
  for (int64_t grid = image_size() / model.patch_size / 2; grid >= 4; grid /= 2) {
    out.push_back({fmt::format("data.image_size={}", grid * model.patch_size)});
  }
  return out;
}

ModelEntry entry() {
  ModelEntry entry = entry_of<VitRun, VitNetwork, config_from_hf>("vit", {"vit"});
  entry.data_keys = processor_keys;
  return entry;
}

}  // namespace mstrain::vit
