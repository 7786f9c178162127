// The machine that a run finds itself on.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/json.h"

namespace mstrain {

struct Machine {
  std::string processor;     // "Intel(R) Xeon(R) …"
  int processors = 0;        // that this process may use
  int64_t memory_bytes = 0;  // of the machine, or of the control group where that is less
  std::string system;        // "Linux 6.1.0 x86_64"
  std::string compiler;      // that built this program
  std::string version;       // of mstrain
};

Machine this_machine();
OrderedJson to_json(const Machine& machine);

// Largest resident size of this process so far, in bytes.
int64_t peak_memory_bytes();

// Resident size of this process now, in bytes; 0 where the system does not say.
int64_t resident_memory_bytes();
// The same without files that it maps, which the system may drop and read again.
int64_t own_memory_bytes();
// Time that processors have worked for this process.
double processor_seconds();
// What the files in `folder` and below it hold, and what this user may still write there; 0 where that cannot be told.
int64_t folder_bytes(const std::string& folder);
int64_t free_disk_bytes(const std::string& folder);

// Memory that comes and goes during its life does not count in peak_memory_bytes(), where the system can forget a peak
// (Linux with /proc).
class UncountedMemory {
 public:
  UncountedMemory() : peak_(peak_memory_bytes()) {}
  ~UncountedMemory();
  UncountedMemory(const UncountedMemory&) = delete;
  UncountedMemory& operator=(const UncountedMemory&) = delete;

 private:
  int64_t peak_;
};

}  // namespace mstrain
