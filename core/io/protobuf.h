// The wire format of protocol buffers (protobuf.dev/programming-guides/encoding), as far as files of ours need it.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mstrain {

class ProtobufWriter {
 public:
  ProtobufWriter& varint(int field, uint64_t value) {
    raw_varint(static_cast<uint64_t>(field) << 3);
    raw_varint(value);
    return *this;
  }
  ProtobufWriter& fixed64(int field, double value) {
    raw_varint((static_cast<uint64_t>(field) << 3) | 1);
    little_endian(std::bit_cast<uint64_t>(value), 8);
    return *this;
  }
  ProtobufWriter& fixed32(int field, float value) {
    raw_varint((static_cast<uint64_t>(field) << 3) | 5);
    little_endian(std::bit_cast<uint32_t>(value), 4);
    return *this;
  }
  ProtobufWriter& bytes(int field, std::string_view value) {
    raw_varint((static_cast<uint64_t>(field) << 3) | 2);
    raw_varint(value.size());
    out_ += value;
    return *this;
  }
  ProtobufWriter& message(int field, const ProtobufWriter& value) {
    return bytes(field, value.out_);
  }

  const std::string& text() const { return out_; }

 private:
  void raw_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
      out_ += static_cast<char>(value | 0x80);
    }
    out_ += static_cast<char>(value);
  }
  void little_endian(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) {
      out_ += static_cast<char>(value >> (8 * i));
    }
  }
  std::string out_;
};

// One field after the other of a message that nobody has checked.
class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  // The next field, false at the end. Throws Error where the message is malformed.
  bool next();

  int field() const { return field_; }
  // The value of the field; an error where it has another wire type.
  uint64_t varint() const;
  double fixed64() const;
  float fixed32() const;
  std::string_view bytes() const;

 private:
  uint64_t take_varint();
  uint64_t take_little_endian(size_t count);
  void expect_type(int type) const;

  std::string_view rest_;
  int field_ = 0;
  int type_ = 0;
  uint64_t number_ = 0;
  std::string_view bytes_;
};

}  // namespace mstrain
