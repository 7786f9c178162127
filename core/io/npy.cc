#include "core/io/npy.h"

#include <fmt/ranges.h>

#include <array>
#include <cstring>
#include <optional>

#include "core/base/error.h"

namespace mstrain {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxNpyHeaderBytes = 10'000;  // NumPy's own limit for files that are not trusted
constexpr size_t kMaxRank = 64;

struct Descr {
  std::string_view text;
  Dtype dtype;
};
constexpr Descr kDescrs[] = {{"<f8", Dtype::kF64}, {"<f4", Dtype::kF32}, {"<f2", Dtype::kF16},
                             {"<i8", Dtype::kI64}, {"<i4", Dtype::kI32}, {"|i1", Dtype::kI8},
                             {"<u4", Dtype::kU32}, {"<u2", Dtype::kU16}, {"|u1", Dtype::kU8},
                             {"|b1", Dtype::kBool}};

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
};

// The header is a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } with keys in any order.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Header parse() {
    Header header;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !header.descr) {
        if (peek() == '[') {
          fail("structured element types are not supported");
        }
        header.descr = quoted();
      } else if (key == "fortran_order" && !header.fortran_order) {
        header.fortran_order = boolean();
      } else if (key == "shape" && !header.shape) {
        header.shape = tuple();
      } else {
        fail("unexpected key '" + key + "'");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size() || !header.descr || !header.fortran_order || !header.shape) {
      fail("expected descr, fortran_order and shape");
    }
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw IoError(fmt::format("{}: header: {}", name_, message));
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) {
      return false;
    }
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) {
      fail(fmt::format("expected '{}' at offset {}", c, at_));
    }
  }
  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') {
      fail(fmt::format("expected text at offset {}", at_));
    }
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) {
      fail("text without end");
    }
    std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }
  bool boolean() {
    skip_space();
    for (const std::string_view word : {std::string_view("True"), std::string_view("False")}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    }
    fail("fortran_order is neither True nor False");
  }
  int64_t integer() {
    skip_space();
    const size_t begin = at_;
    int64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
          __builtin_add_overflow(value, int64_t{text_[at_] - '0'}, &value)) {
        fail("the shape overflows");
      }
      ++at_;
    }
    if (at_ == begin) {
      fail(fmt::format("expected a size at offset {}", at_));
    }
    return value;
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> out;
    expect('(');
    while (!accept(')')) {
      out.push_back(integer());
      if (out.size() > kMaxRank) {
        fail("too many dimensions");
      }
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return out;
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
};

// Column-major to row-major.
std::vector<std::byte> reordered(std::span<const std::byte> data, std::span<const int64_t> shape,
                                 size_t element) {
  std::vector<std::byte> out(data.size());
  std::vector<int64_t> index(shape.size(), 0);
  for (size_t row_major = 0; row_major < data.size(); row_major += element) {
    size_t column_major = 0;
    for (size_t d = shape.size(); d-- > 0;) {
      column_major = column_major * static_cast<size_t>(shape[d]) + static_cast<size_t>(index[d]);
    }
    std::memcpy(out.data() + row_major, data.data() + column_major * element, element);
    for (size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) {
      index[d] = 0;
    }
  }
  return out;
}

struct Parsed {
  NpyView view;
  bool by_column = false;
};

Parsed parse(std::span<const std::byte> file, const std::string& name) {
  const auto refuse = [&](const std::string& message) {
    throw IoError(fmt::format("{}: {}", name, message));
  };
  const std::string_view text = as_text(file);
  if (!text.starts_with(kMagic) || text.size() < 10) {
    refuse("not a NumPy file");
  }
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(text[i])); };
  const size_t version = byte(6);
  if (version < 1 || version > 3 || byte(7) != 0) {
    refuse(fmt::format("NumPy format {}.{} is not supported", version, byte(7)));
  }
  const size_t length_bytes = version == 1 ? 2 : 4;
  const size_t begin = 8 + length_bytes;
  if (text.size() < begin) {
    refuse("cut short in its header");
  }
  size_t header_bytes = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    header_bytes |= byte(8 + i) << (8 * i);
  }
  if (header_bytes > kMaxNpyHeaderBytes) {
    refuse(
        fmt::format("a header of {} bytes, at most {} are read", header_bytes, kMaxNpyHeaderBytes));
  }
  if (header_bytes > text.size() - begin) {
    refuse("cut short in its header");
  }
  const Header header = HeaderParser(text.substr(begin, header_bytes), name).parse();

  NpyView array;
  array.shape = *header.shape;
  bool known = false;
  for (const Descr& descr : kDescrs) {
    if (descr.text == *header.descr) {
      array.dtype = descr.dtype;
      known = true;
    }
  }
  if (!known) {
    const bool object = header.descr->find('O') != std::string::npos;
    refuse(fmt::format("element type '{}' is not supported{}", header.descr->substr(0, 40),
                       object                      ? ": Python objects can run code when loaded"
                       : (*header.descr)[0] == '>' ? ": big-endian; save it with astype('<...')"
                                                   : ""));
  }
  const std::span<const std::byte> data = file.subspan(begin + header_bytes);
  uint64_t bytes = static_cast<uint64_t>(size_of(array.dtype));
  for (const int64_t dim : array.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes)) {
      refuse("the shape overflows");
    }
  }
  if (bytes != data.size()) {
    refuse(fmt::format("the shape takes {} bytes, the file holds {}", bytes, data.size()));
  }
  array.data = data;
  return {array, *header.fortran_order && array.shape.size() > 1};
}

}  // namespace

NpyArray parse_npy(std::span<const std::byte> file, const std::string& name) {
  const auto [view, by_column] = parse(file, name);
  NpyArray array{view.dtype, view.shape, {}};
  if (by_column) {
    array.data = reordered(view.data, view.shape, static_cast<size_t>(size_of(view.dtype)));
  } else {
    array.data.assign(view.data.begin(), view.data.end());
  }
  return array;
}

NpyView view_npy(std::span<const std::byte> file, const std::string& name) {
  const auto [view, by_column] = parse(file, name);
  if (by_column) {
    throw IoError(fmt::format("{}: lies column by column; save it with order='C'", name));
  }
  return view;
}

NpyArray read_npy(FileSystem& files, const std::string& path, uint64_t max_bytes) {
  return parse_npy(as_bytes(files.read(path, max_bytes)), path);
}

std::string npy_header(Dtype dtype, std::span<const int64_t> shape) {
  std::string_view descr;
  for (const Descr& candidate : kDescrs) {
    if (candidate.dtype == dtype) {
      descr = candidate.text;
    }
  }
  check(!descr.empty(), "NumPy has no element type for {}", name_of(dtype));
  const std::string tuple =
      fmt::format("{}{}", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, tuple);
  header.resize((header.size() + 1 + 10 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  check(header.size() <= 65535, "npy: {} dimensions are too many", shape.size());
  std::string out(kMagic);
  out += {'\1', '\0', static_cast<char>(header.size() & 0xffU),
          static_cast<char>(header.size() >> 8U)};
  return out + header;
}

std::string print_npy(Dtype dtype, std::span<const int64_t> shape,
                      std::span<const std::byte> data) {
  std::string out = npy_header(dtype, shape);
  size_t bytes = static_cast<size_t>(size_of(dtype));
  for (const int64_t dim : shape) {
    bytes *= static_cast<size_t>(dim);
  }
  check(bytes == data.size(), "npy: the shape takes {} bytes, {} are given", bytes, data.size());
  return out + std::string(as_text(data));
}

void write_npy(FileSystem& files, const std::string& path, Dtype dtype,
               std::span<const int64_t> shape, std::span<const std::byte> data) {
  write_file_atomic(files, path, print_npy(dtype, shape, data));
}

}  // namespace mstrain
