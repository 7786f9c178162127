#ifdef MSTRAIN_HAS_ROCKSDB

#include "embedding_cache/rocksdb_facts.h"

#include <fmt/format.h>
#include <rocksdb/file_checksum.h>

#include <charconv>

#include "core/io/digest.h"
#include "embedding_cache/row.h"

namespace mstrain::embedding_cache {
namespace {

// RocksDB computes this as it writes a file; its own CRC-32C is slow where the library was built for any processor.
class FileCrc final : public rocksdb::FileChecksumGenerator {
 public:
  void Update(const char* data, size_t count) override {
    crc_ = crc32c(as_bytes(std::string_view(data, count)), crc_);
  }
  void Finalize() override { text_ = fmt::format("crc32c:{:08x}", crc_); }
  std::string GetChecksum() const override { return text_; }
  const char* Name() const override { return "mstrain_crc32c"; }

 private:
  uint32_t crc_ = 0;
  std::string text_;
};

class FileCrcs final : public rocksdb::FileChecksumGenFactory {
 public:
  std::unique_ptr<rocksdb::FileChecksumGenerator> CreateFileChecksumGenerator(
      const rocksdb::FileChecksumGenContext&) override {
    return std::make_unique<FileCrc>();
  }
  const char* Name() const override { return "mstrain_crc32c"; }
};

constexpr const char* kNewestStep = "mstrain.newest_step";
constexpr uint64_t kUnknownStep = ~uint64_t{0};

class NewestStep final : public rocksdb::TablePropertiesCollector {
 public:
  rocksdb::Status AddUserKey(const rocksdb::Slice&, const rocksdb::Slice& value,
                             rocksdb::EntryType type, rocksdb::SequenceNumber, uint64_t) override {
    const bool is_row = type == rocksdb::kEntryPut && value.size() >= kHeaderBytes;
    newest_ = std::max<uint64_t>(
        newest_,
        is_row ? load_header(reinterpret_cast<const std::byte*>(value.data())).step : kUnknownStep);
    return rocksdb::Status::OK();
  }
  rocksdb::Status Finish(rocksdb::UserCollectedProperties* out) override {
    *out = GetReadableProperties();
    return rocksdb::Status::OK();
  }
  rocksdb::UserCollectedProperties GetReadableProperties() const override {
    return {{kNewestStep, std::to_string(newest_)}};
  }
  const char* Name() const override { return "mstrain_newest_step"; }

 private:
  uint64_t newest_ = 0;
};

class NewestSteps final : public rocksdb::TablePropertiesCollectorFactory {
 public:
  rocksdb::TablePropertiesCollector* CreateTablePropertiesCollector(Context) override {
    return new NewestStep();  // RocksDB deletes it
  }
  const char* Name() const override { return "mstrain_newest_step"; }
};

}  // namespace

void state_facts(rocksdb::Options& options) {
  options.file_checksum_gen_factory = std::make_shared<FileCrcs>();
  options.table_properties_collector_factories = {std::make_shared<NewestSteps>()};
}

uint64_t newest_step(const rocksdb::TableProperties& properties) {
  const auto found = properties.user_collected_properties.find(kNewestStep);
  uint64_t step = kUnknownStep;
  if (found != properties.user_collected_properties.end()) {
    const std::string& text = found->second;
    std::from_chars(text.data(), text.data() + text.size(), step);
  }
  return step;
}

}  // namespace mstrain::embedding_cache

#endif
