#include "core/io/events.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>

#include "core/base/error.h"
#include "core/base/yaml_scalar.h"
#include "core/io/digest.h"
#include "core/io/protobuf.h"

namespace mstrain {
namespace {

uint32_t masked_crc(std::string_view data) {
  return std::rotr(crc32c(as_bytes(data)), 15) + 0xa282ead8U;
}

std::string little_endian(uint64_t value, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    out += static_cast<char>(value >> (8 * i));
  }
  return out;
}

uint64_t load(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  }
  return value;
}

ProtobufWriter event(double wall_time, int64_t step) {
  ProtobufWriter out;
  out.fixed64(1, wall_time);
  if (step != 0) {
    out.varint(2, static_cast<uint64_t>(step));
  }
  return out;
}

// SummaryMetadata that names the plugin which shows the value.
ProtobufWriter plugin(std::string_view name, uint64_t data_class, std::string_view content = "") {
  ProtobufWriter out;
  out.message(1, ProtobufWriter().bytes(1, name).bytes(2, content));
  out.varint(4, data_class);
  return out;
}

std::string packed(std::span<const double> values) {
  std::string out;
  for (const double value : values) {
    out += little_endian(std::bit_cast<uint64_t>(value), 8);
  }
  return out;
}

EventValue parse_value(std::string_view message) {
  EventValue value;
  for (ProtobufReader reader(message); reader.next();) {
    if (reader.field() == 1) {
      value.tag = reader.bytes();
    } else if (reader.field() == 2) {
      value.scalar = reader.fixed32();
    }
  }
  return value;
}

EventRecord parse_event(std::string_view message) {
  EventRecord event;
  for (ProtobufReader reader(message); reader.next();) {
    switch (reader.field()) {
      case 1: event.wall_time = reader.fixed64(); break;
      case 2: event.step = static_cast<int64_t>(reader.varint()); break;
      case 3: event.file_version = reader.bytes(); break;
      case 5:
        for (ProtobufReader summary(reader.bytes()); summary.next();) {
          if (summary.field() == 1) {
            event.values.push_back(parse_value(summary.bytes()));
          }
        }
        break;
      default: break;
    }
  }
  return event;
}

}  // namespace

std::string events_file_name(double wall_time) {
  static std::atomic<int> counter{0};
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') {
    host = {'h', 'o', 's', 't'};
  }
  return fmt::format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<int64_t>(wall_time),
                     host.data(), ::getpid(), counter++);
}

EventsWriter::EventsWriter(FileSystem& files, const std::string& path, double wall_time)
    : file_(files.open(path, WriteMode::kTruncate)) {
  record(event(wall_time, 0).bytes(3, "brain.Event:2").text());
}

void EventsWriter::record(std::string_view message) {
  const std::string length = little_endian(message.size(), 8);
  std::string out = length + little_endian(masked_crc(length), 4);
  out += message;
  file_->append(out + little_endian(masked_crc(message), 4));
}

void EventsWriter::scalar(std::string_view tag, double value, int64_t step, double wall_time) {
  const auto entry = ProtobufWriter().bytes(1, tag).fixed32(2, static_cast<float>(value));
  record(event(wall_time, step).message(5, ProtobufWriter().message(1, entry)).text());
}

void EventsWriter::text(std::string_view tag, std::string_view value, int64_t step,
                        double wall_time) {
  constexpr uint64_t kStringType = 7;
  constexpr uint64_t kTensorClass = 2;
  const auto shape = ProtobufWriter().message(2, ProtobufWriter().varint(1, 1));
  const auto tensor = ProtobufWriter().varint(1, kStringType).message(2, shape).bytes(8, value);
  const auto entry =
      ProtobufWriter().bytes(1, tag).message(8, tensor).message(9, plugin("text", kTensorClass));
  record(event(wall_time, step).message(5, ProtobufWriter().message(1, entry)).text());
}

// tensorboard/plugins/hparams/plugin_data.proto: HParamsPluginData{session_start_info = 3}, SessionStartInfo{hparams = 1: a
// map to google.protobuf.Value, start_time_secs = 5}.
void EventsWriter::hyperparameters(std::span<const std::pair<std::string, std::string>> values,
                                   double wall_time) {
  ProtobufWriter info;
  for (const auto& [name, text] : values) {
    ProtobufWriter value;
    if (const auto number = yaml_scalar::parse_double(text)) {
      value.fixed64(2, *number);
    } else if (text == "true" || text == "false") {
      value.varint(4, text == "true" ? 1 : 0);
    } else {
      value.bytes(3, text);
    }
    info.message(1, ProtobufWriter().bytes(1, name).message(2, value));
  }
  info.fixed64(5, wall_time);
  const auto data = ProtobufWriter().message(3, info);
  const auto entry = ProtobufWriter()
                         .bytes(1, "_hparams_/session_start_info")
                         .message(9, plugin("hparams", /*data_class=*/0, data.text()));
  record(event(wall_time, 0).message(5, ProtobufWriter().message(1, entry)).text());
}

void EventsWriter::histogram(std::string_view tag, std::span<const float> values, int64_t step,
                             double wall_time) {
  double low = 0;
  double high = 0;
  double sum = 0;
  double squares = 0;
  int64_t count = 0;
  for (const float value : values) {
    if (std::isfinite(value)) {
      low = count == 0 ? value : std::min<double>(low, value);
      high = count == 0 ? value : std::max<double>(high, value);
      sum += value;
      squares += static_cast<double>(value) * value;
      ++count;
    }
  }
  constexpr size_t kBuckets = 30;
  std::array<double, kBuckets> limits{};
  std::array<double, kBuckets> buckets{};
  const double width = (high - low) / kBuckets;
  for (size_t i = 0; i < kBuckets; ++i) {
    limits[i] = i + 1 == kBuckets ? high : low + width * static_cast<double>(i + 1);
  }
  for (const float value : values) {
    if (std::isfinite(value)) {
      const double bucket = width > 0 ? (value - low) / width : 0;
      buckets[std::min(static_cast<size_t>(bucket), kBuckets - 1)] += 1;
    }
  }
  const auto proto = ProtobufWriter()
                         .fixed64(1, low)
                         .fixed64(2, high)
                         .fixed64(3, static_cast<double>(count))
                         .fixed64(4, sum)
                         .fixed64(5, squares)
                         .bytes(6, packed(limits))
                         .bytes(7, packed(buckets));
  const auto entry = ProtobufWriter().bytes(1, tag).message(5, proto);
  record(event(wall_time, step).message(5, ProtobufWriter().message(1, entry)).text());
}

void EventsWriter::restart(int64_t step, double wall_time) {
  constexpr uint64_t kStart = 1;
  record(event(wall_time, step).message(7, ProtobufWriter().varint(1, kStart)).text());
}

void EventsWriter::sync() { file_->sync(); }

EventsContent parse_events(std::span<const std::byte> file, const std::string& name) {
  constexpr size_t kHead = 12;
  constexpr size_t kTail = 4;
  const std::string_view text = as_text(file);
  EventsContent content;
  size_t at = 0;
  const auto refuse = [&](std::string_view message) {
    throw IoError(fmt::format("{}: record at offset {}: {}", name, at, message));
  };
  while (at < text.size()) {
    const size_t left = text.size() - at;
    if (left < kHead) {
      content.incomplete_tail = true;
      break;
    }
    const std::string_view length_bytes = text.substr(at, 8);
    if (load(text.substr(at + 8, 4)) != masked_crc(length_bytes)) {
      refuse("the CRC of its length is wrong");
    }
    const uint64_t length = load(length_bytes);
    if (length > left - kHead || left - kHead - length < kTail) {
      content.incomplete_tail = true;
      break;
    }
    const std::string_view data = text.substr(at + kHead, length);
    if (load(text.substr(at + kHead + length, kTail)) != masked_crc(data)) {
      refuse("the CRC of its data is wrong");
    }
    try {
      content.events.push_back(parse_event(data));
    } catch (const Error& error) {
      refuse(error.what());
    }
    at += kHead + length + kTail;
  }
  return content;
}

EventsContent read_events(FileSystem& files, const std::string& path) {
  return parse_events(files.map(path)->bytes(), path);
}

}  // namespace mstrain
