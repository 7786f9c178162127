#include "core/io/events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "core/base/error.h"
#include "core/base/files_fault.h"
#include "core/base/rng.h"
#include "core/io/protobuf.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    out += fmt::format("{:02x}", static_cast<uint8_t>(c));
  }
  return out;
}

TEST(Events, BytesAreTensorBoards) {
  const TemporaryFolder folder;
  EventsWriter writer(real_files(), folder / "e", 1.0);
  writer.scalar("loss", 0.5, 5, 2.0);
  EXPECT_EQ(hex(real_files().read(folder / "e")),
            "1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a3286bf577a"
            "1a00000000000000129bd82d09000000000000004010052a0d0a0b0a046c6f7373150000003fdb81a714");
}

TEST(Events, WhatIsWrittenIsRead) {
  const TemporaryFolder folder;
  EventsWriter writer(real_files(), folder / "e", 100.5);
  writer.scalar("train/loss", 2.25, 10, 101);
  writer.text("config", "run: {}\n", 0, 102);
  writer.histogram("w", std::vector<float>{1, 2, 3, std::numeric_limits<float>::quiet_NaN()}, 7,
                   103);
  writer.histogram("none", {}, 7, 103);
  writer.restart(11, 104);
  writer.sync();
  const EventsContent content = read_events(real_files(), folder / "e");
  EXPECT_FALSE(content.incomplete_tail);
  ASSERT_EQ(content.events.size(), 6U);
  EXPECT_EQ(content.events[0].file_version, "brain.Event:2");
  EXPECT_EQ(content.events[0].wall_time, 100.5);
  EXPECT_EQ(content.events[1].step, 10);
  ASSERT_EQ(content.events[1].values.size(), 1U);
  EXPECT_EQ(content.events[1].values[0].tag, "train/loss");
  EXPECT_EQ(content.events[1].values[0].scalar, 2.25F);
  EXPECT_EQ(content.events[2].values[0].tag, "config");
  EXPECT_FALSE(content.events[2].values[0].scalar.has_value());
  EXPECT_EQ(content.events[3].values[0].tag, "w");
  EXPECT_EQ(content.events[5].step, 11);
}

TEST(Events, HistogramCountsEveryFiniteValueOnce) {
  const TemporaryFolder folder;
  EventsWriter writer(real_files(), folder / "e", 0);
  const size_t before = real_files().file_size(folder / "e");
  writer.histogram("w", std::vector<float>{-1, 0, 0.5, 2, 2}, 1, 1);
  std::string message = real_files().read(folder / "e").substr(before + 12);
  message.resize(message.size() - 4);
  double buckets = 0;
  double sum = 0;
  for (ProtobufReader event(message); event.next();) {
    if (event.field() != 5) {
      continue;
    }
    for (ProtobufReader summary(event.bytes()); summary.next();) {
      for (ProtobufReader value(summary.bytes()); value.next();) {
        if (value.field() != 5) {
          continue;
        }
        for (ProtobufReader histogram(value.bytes()); histogram.next();) {
          if (histogram.field() == 4) {
            sum = histogram.fixed64();
          } else if (histogram.field() == 7) {
            EXPECT_EQ(histogram.bytes().size(), 240U);
            for (size_t i = 0; i < histogram.bytes().size(); i += 8) {
              double count = 0;
              std::memcpy(&count, histogram.bytes().data() + i, 8);
              buckets += count;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(buckets, 5);
  EXPECT_EQ(sum, 3.5);
}

std::string sample() {
  const TemporaryFolder folder;
  EventsWriter writer(real_files(), folder / "e", 1);
  writer.scalar("a", 1, 1, 1);
  writer.text("b", "x", 2, 1);
  return real_files().read(folder / "e");
}

TEST(Events, ShortTailIsStillBeingWritten) {
  const std::string file = sample();
  const size_t first = 40;
  const size_t second = first + 12 + static_cast<uint8_t>(file[first]) + 4;
  for (size_t size = 0; size <= file.size(); ++size) {
    const EventsContent content =
        parse_events(as_bytes(std::string_view(file).substr(0, size)), "e");
    EXPECT_EQ(content.events.size(),
              static_cast<size_t>((size >= first ? 1 : 0) + (size >= second ? 1 : 0) +
                                  (size == file.size() ? 1 : 0)));
    EXPECT_EQ(content.incomplete_tail,
              size != 0 && size != first && size != second && size != file.size());
  }
}

TEST(Events, DamageIsFound) {
  const std::string file = sample();
  for (size_t at = 0; at < file.size(); ++at) {
    std::string bad = file;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    EXPECT_THROW(parse_events(as_bytes(bad), "e"), IoError) << at;
  }
}

TEST(Events, NamesAreWhatTensorBoardLooksFor) {
  const std::string name = events_file_name(1234567.8);
  EXPECT_THAT(name, testing::StartsWith("events.out.tfevents.0001234567."));
  EXPECT_NE(name, events_file_name(1234567.8));
}

TEST(Events, FullDiskIsAnError) {
  const TemporaryFolder folder;
  FaultyFiles files(real_files(), {.enospc_after_bytes = 50});
  EventsWriter writer(files, folder / "e", 1.0);
  EXPECT_THROW(writer.scalar("loss", 0.5, 5, 2.0), IoError);
}

TEST(Protobuf, RefusesMalformedMessages) {
  const auto read_all = [](std::string_view message) {
    ProtobufReader reader(message);
    while (reader.next()) {
    }
  };
  read_all(std::string_view("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11));
  EXPECT_THROW(read_all(std::string_view("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11)),
               Error);
  EXPECT_THROW(read_all(std::string_view("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12)),
               Error);
  EXPECT_THROW(read_all("\x08\x80"), Error);
  EXPECT_THROW(read_all("\x0a\x05hi"), Error);
  EXPECT_THROW(read_all("\x0b"), Error);
  EXPECT_THROW(read_all(std::string_view("\0\0", 2)), Error);
  EXPECT_THROW(read_all("\x09\x01"), Error);
  ProtobufReader reader("\x08\x01");
  ASSERT_TRUE(reader.next());
  EXPECT_THROW(reader.bytes(), Error);
}

// CRCs guard the records, so the messages inside are fuzzed by themselves.
TEST(Events, FuzzedMessagesNeverCrash) {
  Rng rng(80);
  const std::string file = sample();
  const std::string seed = file.substr(40 + 12, file.size() - 40 - 16);
  for (int i = 0; i < 20000; ++i) {
    std::string message = seed.substr(rng.below(20), rng.below(seed.size()));
    for (uint64_t edits = rng.below(4); edits > 0 && !message.empty(); --edits) {
      message[rng.below(message.size())] = static_cast<char>(rng.below(256));
    }
    try {
      for (ProtobufReader reader(message); reader.next();) {
        ASSERT_GT(reader.field(), 0);
      }
    } catch (const Error&) {
    }
    std::string damaged = file;
    damaged[rng.below(damaged.size())] = static_cast<char>(rng.below(256));
    damaged.resize(rng.below(damaged.size() + 1));
    try {
      parse_events(as_bytes(damaged), "fuzz");
    } catch (const IoError&) {
    }
  }
}

}  // namespace
}  // namespace mstrain
