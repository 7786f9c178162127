// TensorBoard event files (tensorflow/tensorboard: record_writer.py, event.proto, summary.proto). A record is
//   u64 little-endian length | u32 masked CRC-32C of the length | data | u32 masked CRC-32C of the data
// and its data one Event message. The first record names the version "brain.Event:2".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/files.h"

namespace mstrain {

inline constexpr std::string_view kEventsPrefix = "events.out.tfevents.";

// "events.out.tfevents.<seconds>.<host>.<pid>.<number>": TensorBoard orders files by name, and takes only such names.
std::string events_file_name(double wall_time);

// Appends to a new file; each call writes one whole record, so a reader beside it never sees half of one for long.
// Times are seconds since 1970. Not thread-safe. Throws IoError.
class EventsWriter {
 public:
  EventsWriter(FileSystem& files, const std::string& path, double wall_time);

  void scalar(std::string_view tag, double value, int64_t step, double wall_time);
  void text(std::string_view tag, std::string_view value, int64_t step, double wall_time);
  // Counts `values` (finite ones) in 30 equal buckets.
  void histogram(std::string_view tag, std::span<const float> values, int64_t step,
                 double wall_time);
  // What a run was configured with, for TensorBoard's HPARAMS tab: numbers and booleans as such, anything else as text.
  void hyperparameters(std::span<const std::pair<std::string, std::string>> values,
                       double wall_time);
  // Tells TensorBoard to drop what earlier files of the directory hold for `step` and later: a run resumes here.
  void restart(int64_t step, double wall_time);
  void sync();

 private:
  void record(std::string_view message);
  std::unique_ptr<WritableFile> file_;
};

struct EventValue {
  std::string tag;
  std::optional<float> scalar;  // other kinds of values are listed by their tag alone
};
struct EventRecord {
  double wall_time = 0;
  int64_t step = 0;
  std::string file_version;
  std::vector<EventValue> values;
};
struct EventsContent {
  std::vector<EventRecord> events;
  bool incomplete_tail = false;  // the last record is still being written, or was cut
};

// Throws IoError with name and offset for a wrong CRC or a malformed message; unknown fields are skipped.
EventsContent parse_events(std::span<const std::byte> file, const std::string& name);
EventsContent read_events(FileSystem& files, const std::string& path);

}  // namespace mstrain
