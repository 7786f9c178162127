#include "core/train/pretrained.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "core/base/error.h"
#include "core/tensor/host.h"

namespace mstrain {
namespace {

constexpr size_t kNamed = 4;  // of each kind of error

template <class From, class To>
void convert(std::span<const std::byte> from, void* to) {
  constexpr size_t kBlock = 1024;  // files align nothing
  std::array<From, kBlock> block;
  To* out = static_cast<To*>(to);
  while (!from.empty()) {
    const size_t count = std::min(kBlock, from.size() / sizeof(From));
    std::memcpy(static_cast<void*>(block.data()), from.data(), count * sizeof(From));
    for (size_t i = 0; i < count; ++i) {
      if constexpr (std::is_floating_point_v<To> || std::is_same_v<From, To>) {
        out[i] = static_cast<To>(block[i]);
      } else {
        out[i] = To(static_cast<float>(block[i]));
      }
    }
    out += count;
    from = from.subspan(count * sizeof(From));
  }
}

template <class To>
void convert_to(Dtype from, std::span<const std::byte> bytes, void* to) {
  switch (from) {
    case Dtype::kF64: convert<double, To>(bytes, to); break;
    case Dtype::kF32: convert<float, To>(bytes, to); break;
    case Dtype::kBF16: convert<BFloat16, To>(bytes, to); break;
    default: convert<Float16, To>(bytes, to); break;
  }
}

void copy_bytes(std::span<const std::byte> bytes, void* to) {
  std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(to));
}

void copy_elements(const TensorEntry& entry, std::span<const std::byte> bytes,
                   const HostWrite& write, Dtype to) {
  void* const data = write.bytes().data();
  if (*entry.dtype == to) {
    copy_bytes(bytes, data);
  } else if (to == Dtype::kF32) {
    convert_to<float>(*entry.dtype, bytes, data);
  } else if (to == Dtype::kF64) {
    convert_to<double>(*entry.dtype, bytes, data);
  } else if (to == Dtype::kBF16) {
    convert_to<BFloat16>(*entry.dtype, bytes, data);
  } else if (to == Dtype::kF16) {
    convert_to<Float16>(*entry.dtype, bytes, data);
  } else {
    fail("parameters are read as floating numbers, not as {}", name_of(to));
  }
}

// One kind of error, told of at most kNamed tensors.
class Complaint {
 public:
  explicit Complaint(std::string_view what) : what_(what) {}
  void add(std::string name) { names_.push_back(std::move(name)); }
  // "2 parameters are missing: a, b"
  void append_to(std::string& text) const {
    if (names_.empty()) {
      return;
    }
    const size_t shown = std::min(kNamed, names_.size());
    text += fmt::format(
        "{}{}: {}", text.empty() ? "" : "; ", what_,
        fmt::join(names_.begin(), names_.begin() + static_cast<ptrdiff_t>(shown), ", "));
    if (shown < names_.size()) {
      text += fmt::format(" and {} more", names_.size() - shown);
    }
  }

 private:
  std::string_view what_;
  std::vector<std::string> names_;
};

class Loader {
 public:
  Loader(const SafetensorsFolder& weights, std::span<const ParamSpec> specs,
         std::span<const Shape> stored_shapes)
      : weights_(weights), specs_(specs) {
    for (size_t i = 0; i < specs.size(); ++i) {
      by_name_[specs[i].name] = {&stored_shapes[i], nullptr};
    }
  }

  void assign(const Meaning& meaning) {
    for (const SafetensorsFolder::Item& item : weights_.items()) {
      const std::string& stored = item.entry->name;
      const StoredMeaning is = meaning(stored);
      const auto found = by_name_.find(is.name);
      if (is.kind == StoredMeaning::Kind::kBuffer) {
        continue;
      }
      if (is.kind == StoredMeaning::Kind::kUnknown || found == by_name_.end()) {
        unused_.add(stored);
      } else if (is.kind == StoredMeaning::Kind::kCopy) {
        copies_.push_back({&item, is.name});
      } else if (Slot& slot = found->second; slot.item != nullptr) {
        twice_.add(fmt::format("{} and {}", slot.item->entry->name, stored));
      } else {
        slot.item = &item;
      }
    }
  }

  void compare() {
    for (const auto& [name, slot] : by_name_) {
      if (slot.item == nullptr) {
        missing_.add(name);
      } else {
        compare_type(*slot.item->entry, *slot.shape);
      }
    }
    for (const auto& [item, name] : copies_) {
      const SafetensorsFolder::Item* original = by_name_.at(name).item;
      if (original != nullptr && !same(*item, *original)) {
        differs_.add(item->entry->name);
      }
    }
  }

  Params read(const std::string& folder, std::optional<WeightCode> code) const {
    Params params;
    for (const ParamSpec& spec : specs_) {
      const SafetensorsFolder::Item& item = *by_name_.at(spec.name).item;
      if (code && spec.matrix) {
        params.set(coded_name(spec.name, *code), encoded(spec, item, folder, *code));
        continue;
      }
      HostWrite value(spec.type);
      copy_elements(*item.entry, weights_.data(item), value, spec.type.dtype);
      params.set(spec.name, value.finish());
    }
    return params;
  }

  void complain(const std::string& folder) const {
    std::string text;
    for (const Complaint* each : {&missing_, &wrong_, &unused_, &twice_, &differs_}) {
      each->append_to(text);
    }
    if (!text.empty()) {
      throw IoError(fmt::format("{}: {}", folder, text));
    }
  }

 private:
  struct Slot {
    const Shape* shape = nullptr;
    const SafetensorsFolder::Item* item = nullptr;
  };

  Tensor encoded(const ParamSpec& spec, const SafetensorsFolder::Item& item,
                 const std::string& folder, WeightCode code) const {
    const Dtype dtype = *item.entry->dtype;
    const auto size = static_cast<size_t>(size_of(dtype));
    const std::span<const std::byte> bytes = weights_.data(item);
    return encode_weight(
        code, fmt::format("{}: {}", folder, item.entry->name), spec.type.shape, *spec.matrix,
        [&](int64_t first, int64_t count, float* to) {
          const auto numbers =
              bytes.subspan(static_cast<size_t>(first) * size, static_cast<size_t>(count) * size);
          dtype == Dtype::kF32 ? copy_bytes(numbers, to) : convert_to<float>(dtype, numbers, to);
        });
  }

  void compare_type(const TensorEntry& entry, const Shape& shape) {
    const bool is_number = entry.dtype && is_floating(*entry.dtype);
    if (!is_number || !std::ranges::equal(entry.shape, shape)) {
      wrong_.add(fmt::format("{} is {} [{}], expected {}[{}]", entry.name, entry.dtype_name,
                             fmt::join(entry.shape, ", "), is_number ? "" : "F32, BF16 or F16 ",
                             fmt::join(shape, ", ")));
    }
  }

  bool same(const SafetensorsFolder::Item& a, const SafetensorsFolder::Item& b) const {
    return a.entry->dtype && a.entry->dtype_name == b.entry->dtype_name &&
           a.entry->shape == b.entry->shape &&
           std::ranges::equal(weights_.data(a), weights_.data(b));
  }

  const SafetensorsFolder& weights_;
  std::span<const ParamSpec> specs_;
  std::map<std::string, Slot> by_name_;
  std::vector<std::pair<const SafetensorsFolder::Item*, std::string>> copies_;
  Complaint missing_{"parameters that the weights lack"};
  Complaint wrong_{"tensors that do not fit"};
  Complaint unused_{"tensors that belong to no parameter"};
  Complaint twice_{"parameters that are stored twice"};
  Complaint differs_{"tensors that differ from the weight they stand for"};
};

Loader checked(const SafetensorsFolder& weights, const std::string& folder,
               std::span<const ParamSpec> specs, std::span<const Shape> stored_shapes,
               const Meaning& meaning) {
  Loader loader(weights, specs, stored_shapes);
  loader.assign(meaning);
  loader.compare();
  loader.complain(folder);
  return loader;
}

}  // namespace

Params load_pretrained(const SafetensorsFolder& weights, const std::string& folder,
                       std::span<const ParamSpec> specs, std::span<const Shape> stored_shapes,
                       const Meaning& meaning, std::optional<WeightCode> code) {
  return checked(weights, folder, specs, stored_shapes, meaning).read(folder, code);
}

void check_pretrained(const SafetensorsFolder& weights, const std::string& folder,
                      std::span<const ParamSpec> specs, std::span<const Shape> stored_shapes,
                      const Meaning& meaning) {
  checked(weights, folder, specs, stored_shapes, meaning);
}

}  // namespace mstrain
