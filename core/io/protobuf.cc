#include "core/io/protobuf.h"

#include "core/base/error.h"

namespace mstrain {

uint64_t ProtobufReader::take_varint() {
  uint64_t value = 0;
  for (int i = 0; i < 10; ++i) {
    check(!rest_.empty(), "protobuf: a number is cut short");
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    check(i < 9 || byte <= 1, "protobuf: a number exceeds 64 bits");
    value |= static_cast<uint64_t>(byte & 0x7fU) << (7 * i);
    if (byte < 0x80) {
      return value;
    }
  }
  fail("protobuf: a number exceeds 64 bits");
}

uint64_t ProtobufReader::take_little_endian(size_t count) {
  check(rest_.size() >= count, "protobuf: a field is cut short");
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) {
    value |= static_cast<uint64_t>(static_cast<uint8_t>(rest_[i])) << (8 * i);
  }
  rest_.remove_prefix(count);
  return value;
}

bool ProtobufReader::next() {
  if (rest_.empty()) {
    return false;
  }
  const uint64_t key = take_varint();
  check(key >> 3 != 0 && key >> 3 < (uint64_t{1} << 29), "protobuf: field number {}", key >> 3);
  field_ = static_cast<int>(key >> 3);
  type_ = static_cast<int>(key & 7U);
  switch (type_) {
    case 0: number_ = take_varint(); break;
    case 1: number_ = take_little_endian(8); break;
    case 5: number_ = take_little_endian(4); break;
    case 2: {
      const uint64_t size = take_varint();
      check(size <= rest_.size(), "protobuf: field {} is cut short", field_);
      bytes_ = rest_.substr(0, size);
      rest_.remove_prefix(size);
      break;
    }
    default: fail("protobuf: field {} has wire type {}", field_, type_);
  }
  return true;
}

void ProtobufReader::expect_type(int type) const {
  check(type_ == type, "protobuf: field {} has wire type {} instead of {}", field_, type_, type);
}
uint64_t ProtobufReader::varint() const {
  expect_type(0);
  return number_;
}
double ProtobufReader::fixed64() const {
  expect_type(1);
  return std::bit_cast<double>(number_);
}
float ProtobufReader::fixed32() const {
  expect_type(5);
  return std::bit_cast<float>(static_cast<uint32_t>(number_));
}
std::string_view ProtobufReader::bytes() const {
  expect_type(2);
  return bytes_;
}

}  // namespace mstrain
