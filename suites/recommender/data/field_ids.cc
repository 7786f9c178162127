#include "suites/recommender/data/field_ids.h"

#include <fmt/format.h>

#include <cstring>

#include "core/base/error.h"
#include "core/io/safetensors.h"

namespace mstrain::recommender {
namespace {

std::string values_of(size_t field) { return fmt::format("{}.value", field); }
std::string ids_of(size_t field) { return fmt::format("{}.id", field); }

class HashedIds final : public FieldIds {
 public:
  explicit HashedIds(uint64_t buckets) : buckets_(buckets) {}
  uint64_t id(size_t, uint64_t value) const override {
    return buckets_ == 0 ? value : value % buckets_;
  }
  uint64_t rows(size_t) const override { return buckets_; }

 private:
  uint64_t buckets_;
};

class DictionaryIds final : public FieldIds {
 public:
  DictionaryIds(FileSystem& files, const std::string& path, size_t fields) : maps_(fields) {
    const SafetensorsFile file(files, path);
    const auto refuse = [&](const std::string& why) {
      throw IoError(fmt::format("{}: {}", path, why));
    };
    if (file.entries().size() != 2 * fields) {
      refuse(fmt::format("{} tensors, expected {} of {} fields", file.entries().size(), 2 * fields,
                         fields));
    }
    for (size_t f = 0; f < fields; ++f) {
      const TensorEntry& values = file.at(values_of(f));
      const TensorEntry& ids = file.at(ids_of(f));
      if (values.dtype != Dtype::kI64 || ids.dtype != Dtype::kU32 || values.shape.size() != 1 ||
          values.shape != ids.shape) {
        refuse(fmt::format("{} and {} are no dictionary", values.name, ids.name));
      }
      const auto count = static_cast<size_t>(values.shape[0]);
      for (size_t i = 0; i < count; ++i) {
        uint64_t value = 0;
        uint32_t id = 0;
        std::memcpy(&value, file.data(values).data() + i * sizeof value, sizeof value);
        std::memcpy(&id, file.data(ids).data() + i * sizeof id, sizeof id);
        if (id == 0 || id > count || maps_[f].find(value) != embedding_cache::IdMap::kNone) {
          refuse(fmt::format("{}[{}] is {}: ids are 1 to {}, and every value has one", ids.name, i,
                             id, count));
        }
        maps_[f].set(value, id);
      }
    }
  }
  uint64_t id(size_t field, uint64_t value) const override {
    const uint64_t found = maps_[field].find(value);
    return found == embedding_cache::IdMap::kNone ? 0 : found;
  }
  uint64_t rows(size_t field) const override { return maps_[field].size() + 1; }

 private:
  std::vector<embedding_cache::IdMap> maps_;
};

}  // namespace

std::shared_ptr<const FieldIds> hashed_ids(uint64_t buckets) {
  return std::make_shared<const HashedIds>(buckets);
}

void write_dictionary(FileSystem& files, const std::string& path,
                      const std::vector<FieldDictionary>& fields) {
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (size_t f = 0; f < fields.size(); ++f) {
    const std::vector<int64_t> shape{std::ssize(fields[f].values)};
    tensors.push_back({values_of(f), Dtype::kI64, shape});
    tensors.push_back({ids_of(f), Dtype::kU32, shape});
  }
  SafetensorsWriter writer(files, path, tensors);
  for (const TensorEntry& entry : writer.entries()) {
    const FieldDictionary& field = fields[std::stoul(entry.name)];
    writer.append(entry.name, entry.dtype == Dtype::kI64 ? std::as_bytes(std::span(field.values))
                                                         : std::as_bytes(std::span(field.ids)));
  }
  writer.finish();
}

std::shared_ptr<const FieldIds> read_dictionary(FileSystem& files, const std::string& path,
                                                size_t fields) {
  return std::make_shared<const DictionaryIds>(files, path, fields);
}

}  // namespace mstrain::recommender
