#include "suites/recommender/data/prepared.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/io/atomic_file.h"
#include "core/io/safetensors.h"

namespace mstrain::recommender {
namespace {

constexpr uint64_t kLargestJson = 64 << 20;
constexpr int kVersion = 1;

class PreparedSamples final : public SampleSource {
 public:
  PreparedSamples(FileSystem& files, const std::string& folder)
      : prepared_(read_prepared(files, folder)) {
    for (size_t part = 0; part < prepared_.parts.size(); ++part) {
      parts_.emplace_back(files, join_path(folder, part_name(part)), prepared_.parts[part],
                          prepared_.schema);
      starts_.push_back(starts_.back() + prepared_.parts[part]);
    }
  }

  const SampleSchema& schema() const override { return prepared_.schema; }
  int64_t samples() const override { return starts_.back(); }
  std::string identity() const override { return prepared_.columns + prepared_.input; }
  void read(std::span<const int64_t> samples, SampleBatch& out) const override {
    const size_t fields = prepared_.schema.fields.size();
    out = {};
    out.samples = std::ssize(samples);
    out.labels.resize(samples.size());
    out.numeric.resize(samples.size() * prepared_.schema.numeric.size());
    out.fields.resize(fields);
    for (SampleBatch::Field& field : out.fields) {
      field.ids.resize(samples.size());
    }
    for (size_t i = 0; i < samples.size(); ++i) {
      const int64_t sample = samples[i];
      check(sample >= 0 && sample < starts_.back(), "sample {} of {}", sample, starts_.back());
      const auto part = static_cast<size_t>(
          std::upper_bound(starts_.begin(), starts_.end(), sample) - starts_.begin() - 1);
      parts_[part].read(sample - starts_[part], i, prepared_.schema, out);
    }
  }

 private:
  class Part {
   public:
    Part(FileSystem& files, const std::string& path, int64_t samples, const SampleSchema& schema)
        : file_(std::make_unique<SafetensorsFile>(files, path)) {
      const auto tensor = [&](const char* name, std::vector<int64_t> shape, auto is_type) {
        const TensorEntry& entry = file_->at(name);
        if (entry.shape != shape || !entry.dtype || !is_type(*entry.dtype)) {
          throw IoError(fmt::format("{}: {} is no tensor of {} samples as {} describes them", path,
                                    name, samples, kPreparedFile));
        }
        return file_->data(entry).data();
      };
      const auto is = [](Dtype wanted) { return [=](Dtype dtype) { return dtype == wanted; }; };
      labels_ = tensor("label", {samples}, is(Dtype::kU8));
      numeric_ = tensor("numeric", {samples, std::ssize(schema.numeric)}, is(Dtype::kF32));
      ids_ = tensor("ids", {samples, std::ssize(schema.fields)},
                    [](Dtype dtype) { return dtype == Dtype::kI32 || dtype == Dtype::kI64; });
      id_bytes_ = static_cast<size_t>(size_of(*file_->at("ids").dtype));
    }

    void read(int64_t sample, size_t to, const SampleSchema& schema, SampleBatch& out) const {
      const auto s = static_cast<size_t>(sample);
      const size_t columns = schema.numeric.size();
      const auto label = static_cast<unsigned>(labels_[s]);
      if (label > 1) {
        throw IoError(
            fmt::format("{}: is damaged: sample {} has label {}, expected 0 or 1; "
                        "preprocess again into another folder",
                        file_->name(), sample, label));
      }
      out.labels[to] = static_cast<float>(label);
      if (columns > 0) {
        std::memcpy(out.numeric.data() + to * columns, numeric_ + s * columns * sizeof(float),
                    columns * sizeof(float));
      }
      for (size_t f = 0; f < schema.fields.size(); ++f) {
        uint64_t id = 0;
        std::memcpy(&id, ids_ + (s * schema.fields.size() + f) * id_bytes_, id_bytes_);
        if (schema.fields[f].rows != 0 && id >= schema.fields[f].rows) {
          throw IoError(
              fmt::format("{}: is damaged: sample {} has id {} of field {}, which has {} "
                          "rows; preprocess again into another folder",
                          file_->name(), sample, id, schema.fields[f].name, schema.fields[f].rows));
        }
        out.fields[f].ids[to] = id;
      }
    }

   private:
    std::unique_ptr<SafetensorsFile> file_;
    const std::byte* labels_ = nullptr;
    const std::byte* numeric_ = nullptr;
    const std::byte* ids_ = nullptr;
    size_t id_bytes_ = 0;
  };

  Prepared prepared_;
  std::vector<Part> parts_;
  std::vector<int64_t> starts_{0};
};

}  // namespace

std::string part_name(size_t part) { return fmt::format("part-{:05}.safetensors", part); }

void write_prepared(FileSystem& files, const std::string& folder, const Prepared& prepared) {
  Json json = {{"version", kVersion},
               {"columns", prepared.columns},
               {"keys", prepared.keys},
               {"input", prepared.input},
               {"train", prepared.train},
               {"files", Json::array()},
               {"numeric", prepared.schema.numeric},
               {"dictionary", prepared.has_dictionary},
               {"buckets", prepared.buckets},
               {"parts", prepared.parts},
               {"lines", prepared.lines},
               {"malformed", prepared.malformed},
               {"other_label", nullptr},
               {"fields", Json::array()}};
  if (prepared.other_label) {  // as bytes: text is of any encoding
    json["other_label"] =
        std::vector<uint8_t>(prepared.other_label->begin(), prepared.other_label->end());
  }
  for (const SourceFile& file : prepared.files) {
    json["files"].push_back({file.name, file.bytes, file.modified});
  }
  for (const FieldSpec& field : prepared.schema.fields) {
    json["fields"].push_back({{"name", field.name}, {"rows", field.rows}});
  }
  write_file_atomic(files, join_path(folder, kPreparedFile), json.dump(2) + "\n");
}

Prepared read_prepared(FileSystem& files, const std::string& folder) {
  const std::string path = join_path(folder, kPreparedFile);
  if (!files.exists(path)) {
    throw IoError(fmt::format(
        "{}: is missing; mstrain preprocess --config FILE makes it of data.train", path));
  }
  Prepared out;
  try {
    const Json json = parse_json(files.read(path, kLargestJson), path);
    if (json.at("version").get<int>() != kVersion) {
      throw IoError(fmt::format("{}: is of another version; preprocess again", path));
    }
    out.columns = json.at("columns").get<std::string>();
    out.input = json.at("input").get<std::string>();
    // Earlier versions did not note these.
    out.keys = json.value("keys", decltype(out.keys)());
    out.train = json.value("train", "");
    for (const Json& file : json.value("files", Json::array())) {
      out.files.push_back(
          {file.at(0).get<std::string>(), file.at(1).get<uint64_t>(), file.at(2).get<int64_t>()});
    }
    out.schema.numeric = json.at("numeric").get<std::vector<std::string>>();
    out.has_dictionary = json.at("dictionary").get<bool>();
    out.buckets = json.at("buckets").get<uint64_t>();
    out.parts = json.at("parts").get<std::vector<int64_t>>();
    out.lines = json.at("lines").get<int64_t>();
    out.malformed = json.at("malformed").get<int64_t>();
    if (const Json& label = json.value("other_label", Json()); !label.is_null()) {
      const auto bytes = label.get<std::vector<uint8_t>>();
      out.other_label.emplace(bytes.begin(), bytes.end());
    }
    for (const Json& field : json.at("fields")) {
      out.schema.fields.push_back(
          {.name = field.at("name").get<std::string>(), .rows = field.at("rows").get<uint64_t>()});
    }
  } catch (const Json::exception& error) {
    throw IoError(fmt::format("{}: {}", path, error.what()));
  }
  if (std::any_of(out.parts.begin(), out.parts.end(), [](int64_t n) { return n < 0; })) {
    throw IoError(fmt::format("{}: a part of less than no samples", path));
  }
  return out;
}

std::shared_ptr<const SampleSource> open_prepared(FileSystem& files, const std::string& folder) {
  return std::make_shared<const PreparedSamples>(files, folder);
}

std::shared_ptr<const FieldIds> ids_of_prepared(FileSystem& files, const std::string& folder,
                                                const Prepared& prepared) {
  return prepared.has_dictionary ? read_dictionary(files, join_path(folder, kDictionaryFile),
                                                   prepared.schema.fields.size())
                                 : hashed_ids(prepared.buckets);
}

}  // namespace mstrain::recommender
