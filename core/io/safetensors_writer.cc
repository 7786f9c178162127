#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/io/safetensors.h"
#include "core/io/safetensors_dtype.h"

namespace mstrain {
namespace {

// Sorted, with offsets; refuses what no reader would accept.
std::vector<TensorEntry> lay_out(const std::vector<SafetensorsLayout::Tensor>& tensors) {
  std::vector<SafetensorsLayout::Tensor> sorted = tensors;
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    const int rank_a = safetensors_rank(a.dtype);
    const int rank_b = safetensors_rank(b.dtype);
    return rank_a != rank_b ? rank_a > rank_b : a.name < b.name;
  });
  std::vector<TensorEntry> entries;
  std::map<std::string_view, int> names;
  uint64_t offset = 0;
  for (const SafetensorsLayout::Tensor& tensor : sorted) {
    check(tensor.name != "__metadata__" && ++names[tensor.name] == 1,
          "safetensors: tensor name \"{}\" is given twice or reserved", tensor.name);
    TensorEntry entry{tensor.name,  std::string(safetensors_name(tensor.dtype)),
                      tensor.dtype, tensor.shape,
                      offset,       static_cast<uint64_t>(size_of(tensor.dtype))};
    for (const int64_t dim : tensor.shape) {
      check(dim >= 0 &&
                !__builtin_mul_overflow(entry.bytes, static_cast<uint64_t>(dim), &entry.bytes),
            "safetensors: tensor \"{}\" has an impossible shape", tensor.name);
    }
    offset += entry.bytes;
    entries.push_back(std::move(entry));
  }
  return entries;
}

// As the reference writer spells it: no spaces, metadata first, padded with spaces to a multiple of eight.
std::string print_header(const std::vector<TensorEntry>& entries,
                         const std::map<std::string, std::string>& metadata) {
  std::vector<std::string> parts;
  const auto quote = [](const std::string& text) {
    try {
      return Json(text).dump();
    } catch (const Json::exception&) {
      fail("safetensors: a name or metadata text is not UTF-8");
    }
  };
  if (!metadata.empty()) {
    std::vector<std::string> texts;
    for (const auto& [key, value] : metadata) {
      texts.push_back(fmt::format("{}:{}", quote(key), quote(value)));
    }
    parts.push_back(fmt::format("\"__metadata__\":{{{}}}", fmt::join(texts, ",")));
  }
  for (const TensorEntry& entry : entries) {
    parts.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                quote(entry.name), entry.dtype_name, fmt::join(entry.shape, ","),
                                entry.offset, entry.offset + entry.bytes));
  }
  std::string header = fmt::format("{{{}}}", fmt::join(parts, ","));
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

}  // namespace

SafetensorsLayout::SafetensorsLayout(const std::vector<Tensor>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : entries(lay_out(tensors)) {
  const std::string text = print_header(entries, metadata);
  for (int i = 0; i < 8; ++i) {
    header += static_cast<char>(text.size() >> (8 * i));
  }
  header += text;
}

uint64_t SafetensorsLayout::size() const {
  return header.size() + (entries.empty() ? 0 : entries.back().offset + entries.back().bytes);
}

SafetensorsWriter::SafetensorsWriter(WritableFile& out, SafetensorsLayout layout)
    : out_(out), layout_(std::move(layout)) {
  out_.append(layout_.header);
}

SafetensorsWriter::SafetensorsWriter(WritableFile& out, const std::vector<Tensor>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : SafetensorsWriter(out, SafetensorsLayout(tensors, metadata)) {}

SafetensorsWriter::SafetensorsWriter(FileSystem& files, const std::string& path,
                                     const std::vector<Tensor>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : own_(std::make_unique<AtomicFile>(files, path)), out_(*own_), layout_(tensors, metadata) {
  out_.append(layout_.header);
}

void SafetensorsWriter::append(std::string_view name, std::span<const std::byte> bytes) {
  // Complete tensors, empty ones among them, are left behind until `name` comes up.
  while (current_ < layout_.entries.size() && written_ == layout_.entries[current_].bytes &&
         layout_.entries[current_].name != name) {
    ++current_;
    written_ = 0;
  }
  check(current_ < layout_.entries.size(), "safetensors: no tensor \"{}\" is left to write", name);
  const TensorEntry& entry = layout_.entries[current_];
  check(entry.name == name, "safetensors: data of \"{}\" where \"{}\" is expected", name,
        entry.name);
  check(bytes.size() <= entry.bytes - written_,
        "safetensors: tensor \"{}\" takes {} bytes, {} were written and {} more given", name,
        entry.bytes, written_, bytes.size());
  out_.append(bytes);
  written_ += bytes.size();
}

void SafetensorsWriter::finish() {
  for (size_t i = current_; i < layout_.entries.size(); ++i) {
    check((i == current_ ? written_ : 0) == layout_.entries[i].bytes,
          "safetensors: tensor \"{}\" is incomplete", layout_.entries[i].name);
  }
  if (own_) {
    own_->commit();
  }
}

}  // namespace mstrain
