#include "core/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "core/base/json.h"
#include "core/io/json_place.h"
#include "core/io/refuse.h"
#include "core/io/safetensors_dtype.h"

namespace mstrain {

static_assert(std::endian::native == std::endian::little, "tensor files are little-endian");

namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr uint64_t kLargestExact = uint64_t{1}
                                   << 53;  // JSON readers elsewhere hold numbers as doubles
constexpr size_t kHeaderBegin = 8;

uint64_t load_u64(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) {
    value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  }
  return value;
}

// One header entry on the way to a TensorEntry.
class EntryReader {
 public:
  EntryReader(const std::string& file, std::string_view header, const std::string& name,
              const Json& json)
      : file_(file), header_(header), name_(name), json_(json) {}

  TensorEntry read() const {
    if (!json_.is_object() || json_.size() != 3 || !json_.contains("dtype") ||
        !json_.contains("shape") || !json_.contains("data_offsets")) {
      fail("expected exactly the keys dtype, shape and data_offsets");
    }
    TensorEntry entry;
    entry.name = name_;
    const int element_bytes = read_dtype(entry);
    const Json& shape = json_["shape"];
    if (!shape.is_array()) {
      fail("shape is no list");
    }
    // A zero anywhere makes the size zero, but the other factors must not overflow either.
    uint64_t count = 1;
    bool empty = false;
    for (const Json& dim : shape) {
      const uint64_t size = number(dim, "shape");
      entry.shape.push_back(static_cast<int64_t>(size));
      empty = empty || size == 0;
      if (size != 0 && __builtin_mul_overflow(count, size, &count)) {
        fail("the shape overflows");
      }
    }
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(element_bytes), &bytes)) {
      fail("the shape overflows");
    }
    bytes = empty ? 0 : bytes;
    const Json& offsets = json_["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2) {
      fail("data_offsets are no pair");
    }
    entry.offset = number(offsets[0], "data_offsets");
    const uint64_t end = number(offsets[1], "data_offsets");
    if (end < entry.offset || end - entry.offset != bytes) {
      fail(fmt::format("data_offsets [{}, {}] do not hold {} bytes of {} {}", entry.offset, end,
                       bytes, entry.dtype_name, shape.dump()));
    }
    entry.bytes = bytes;
    return entry;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    refuse(file_, kHeaderBegin + place_of_key(header_, name_),
           fmt::format("tensor \"{}\": {}", name_, message));
  }
  int read_dtype(TensorEntry& entry) const {
    if (!json_["dtype"].is_string()) {
      fail("dtype is no text");
    }
    entry.dtype_name = json_["dtype"].get<std::string>();
    for (const SafetensorsType& type : kSafetensorsTypes) {
      if (type.name == entry.dtype_name) {
        entry.dtype = type.dtype;
        return type.bytes;
      }
    }
    fail(fmt::format("unknown dtype {}", OrderedJson(entry.dtype_name).dump()));
  }
  uint64_t number(const Json& value, const char* what) const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > kLargestExact) {
      fail(fmt::format("{} holds {}, expected an integer from 0 to 2^53", what, value.dump()));
    }
    return value.get<uint64_t>();
  }

  const std::string& file_;
  std::string_view header_;
  const std::string& name_;
  const Json& json_;
};

}  // namespace

std::string_view safetensors_name(Dtype dtype) {
  return kSafetensorsTypes[safetensors_rank(dtype)].name;
}

std::optional<Dtype> parse_safetensors_dtype(std::string_view name) {
  for (const SafetensorsType& type : kSafetensorsTypes) {
    if (type.name == name) {
      return type.dtype;
    }
  }
  return std::nullopt;
}

SafetensorsFile::SafetensorsFile(FileSystem& files, const std::string& path)
    : name_(path), mapped_(files.map(path)), file_(mapped_->bytes()) {
  parse();
}

SafetensorsFile::SafetensorsFile(std::span<const std::byte> file, std::string name)
    : name_(std::move(name)), file_(file) {
  parse();
}

void SafetensorsFile::parse() {
  if (file_.size() < kHeaderBegin) {
    refuse(name_, 0, fmt::format("{} bytes are too few for a safetensors file", file_.size()));
  }
  const uint64_t header_bytes = load_u64(file_);
  if (header_bytes == 0 || header_bytes > kMaxHeaderBytes) {
    refuse(name_, 0, fmt::format("not a safetensors file: a header of {} bytes", header_bytes));
  }
  if (header_bytes > file_.size() - kHeaderBegin) {
    refuse(
        name_, 0,
        fmt::format("cut short: a header of {} bytes in a file of {}", header_bytes, file_.size()));
  }
  const std::string_view header = as_text(file_.subspan(kHeaderBegin, header_bytes));
  if (header.front() != '{') {
    refuse(name_, kHeaderBegin, "not a safetensors file: the header does not begin with {");
  }
  const uint64_t data_begin = kHeaderBegin + header_bytes;
  data_ = file_.subspan(data_begin);
  const Json json = parse_json(header, name_ + ": header at offset 8", 4);
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") {
      const auto refuse_metadata = [&](const std::string& message) {
        refuse(name_, kHeaderBegin + place_of_key(header, name), "__metadata__" + message);
      };
      if (!value.is_object()) {
        refuse_metadata(" is no map");
      }
      for (const auto& [key, text] : value.items()) {
        if (!text.is_string()) {
          refuse_metadata(fmt::format(": {} is no text", key));
        }
        metadata_[key] = text.get<std::string>();
      }
      continue;
    }
    entries_.push_back(EntryReader(name_, header, name, value).read());
  }
  std::sort(entries_.begin(), entries_.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tuple(a.offset, a.bytes, std::string_view(a.name)) <
           std::tuple(b.offset, b.bytes, std::string_view(b.name));
  });
  uint64_t end = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const TensorEntry& entry = entries_[i];
    if (entry.offset != end) {
      refuse(name_, data_begin + end,
             fmt::format("tensor \"{}\" begins at {}, where {} was expected ({})", entry.name,
                         entry.offset, end, entry.offset < end ? "overlap" : "hole"));
    }
    end += entry.bytes;
    by_name_[entry.name] = i;
  }
  if (end != data_.size()) {
    refuse(name_, data_begin + std::min<uint64_t>(end, data_.size()),
           fmt::format("tensors fill {} bytes, the file holds {}{}", end, data_.size(),
                       end > data_.size() ? ": cut short" : ""));
  }
}

const TensorEntry& SafetensorsFile::at(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    std::vector<std::string> names;
    for (const TensorEntry& entry : entries_) {
      names.push_back(entry.name);
    }
    refuse(name_, fmt::format("has no tensor \"{}\"{}", name, did_you_mean(name, names)));
  }
  return entries_[found->second];
}

std::span<const std::byte> SafetensorsFile::data(const TensorEntry& entry) const {
  if (!entry.dtype) {
    refuse(name_, fmt::format("tensor \"{}\" has dtype {}, which is not supported", entry.name,
                              entry.dtype_name));
  }
  return data_.subspan(entry.offset, entry.bytes);
}

}  // namespace mstrain
