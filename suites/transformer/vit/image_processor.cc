#include "suites/transformer/vit/image_processor.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/data/image_config.h"
#include "suites/transformer/hf/config_reader.h"

namespace mstrain::vit {
namespace {

// The file that counts for a model; empty: there is none.
std::string processor_file(FileSystem& files, const StoredModel& model) {
  std::string path = join_path(model.folder, kProcessorFile);
  if (files.exists(path)) {
    return path;
  }
  return model.base != nullptr ? processor_file(files, *model.base) : "";
}

// A number for each channel, or one for all.
std::vector<double> numbers(const Json& value, int64_t channels, bool positive,
                            const std::string& where) {
  std::vector<double> out;
  for (const Json& each : value.is_array() ? value : Json::array({value})) {
    if (each.is_number() && (!positive || each > 0)) {
      out.push_back(each.get<double>());
    }
  }
  const size_t count = value.is_array() ? value.size() : 1;
  check(out.size() == count && (count == 1 || static_cast<int64_t>(count) == channels),
        "{} is {}, not a {}number for each of {} channels, or one for all; data.{} given in the "
        "configuration takes its place",
        where, value.dump(), positive ? "positive " : "", channels, positive ? "std" : "mean");
  return out;
}

}  // namespace

std::string processor_config(const ImageView& view) {
  OrderedJson json;
  json["image_processor_type"] = "ViTImageProcessor";
  json["do_resize"] = true;
  json["size"] = {{"height", view.size}, {"width", view.size}};
  json["resample"] = 2;  // bilinear
  json["do_rescale"] = true;
  json["rescale_factor"] = 1.0 / 255;
  json["do_normalize"] = true;
  json["image_mean"] = view.mean;
  json["image_std"] = view.std;
  return json.dump(2) + "\n";
}

YamlNode processor_keys(FileSystem& files, const StoredModel& model, const YamlNode& given) {
  YamlNode keys = YamlNode::map();
  const std::string path = processor_file(files, model);
  if (path.empty() || (given.find("mean") != nullptr && given.find("std") != nullptr)) {
    return keys;
  }
  const Json json = parse_json(files.read(path, 1 << 20), path);
  check(json.is_object(), "{}: is no map of keys", path);
  const hf::ConfigReader field(json, path);
  const bool normalizes = field.flag("do_normalize", true);
  const int64_t channels =
      hf::ConfigReader(model.description, model.folder).count("num_channels", 3);
  ImageDataConfig told;
  const auto take = [&](const char* key, const char* stored, double without,
                        std::vector<double>& value) {
    const Json* const said = field.find(stored);
    if (given.find(key) != nullptr || (normalizes && (said == nullptr || said->is_null()))) {
      return;
    }
    value = normalizes ? numbers(*said, channels, without > 0, fmt::format("{}: {}", path, stored))
                       : std::vector{without};
    keys.add(key, *write_config(told).find(key));
  };
  take("mean", "image_mean", 0, told.mean);
  take("std", "image_std", 1, told.std);
  return keys;
}

}  // namespace mstrain::vit
