#include "core/train/machine.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>

#include "core/base/error.h"
#include "core/base/processors.h"
#include "core/base/version.h"

namespace mstrain {
namespace {

// Of this process, before the system was told to forget it.
std::atomic<int64_t> earlier_peak = 0;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      const size_t value = line.find_first_not_of(" \t:", line.find(':'));
      return value == std::string::npos ? "" : line.substr(value);
    }
  }
  return "unknown";
}

// The limit that `file` of a control group states; "max" and missing files are none.
int64_t limit_in(const std::string& file) {
  const std::string line = first_line(file);
  if (line.empty() || line.size() > 18 ||
      line.find_first_not_of("0123456789") != std::string::npos) {
    return std::numeric_limits<int64_t>::max();
  }
  return std::stoll(line);
}

// Of the control group that this process is in and of all above it (version 2, then version 1).
int64_t control_group_limit() {
  int64_t limit = std::numeric_limits<int64_t>::max();
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && controllers.find("memory") == std::string::npos) {
      continue;
    }
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const char* file = unified ? "/memory.max" : "/memory.limit_in_bytes";
    // A container may see its own group as the root, so that the path leads nowhere; the root itself counts too.
    std::string group = line.substr(second + 1);
    while (true) {
      limit = std::min(limit, limit_in(root + group + file));
      if (group.empty()) {
        break;
      }
      group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
    }
  }
  return limit;
}

// In bytes; zeros where the system does not say.
struct MemoryNow {
  int64_t resident = 0;
  int64_t mapped = 0;  // of it: files
};

MemoryNow memory_now() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  int64_t mapped = 0;
  const int64_t page = sysconf(_SC_PAGE_SIZE);
  return file >> size >> resident >> mapped ? MemoryNow{resident * page, mapped * page}
                                            : MemoryNow();
}

// What getrusage() says begins with the peak of whoever started this program, which may be a large Python.
int64_t peak_now() {
  constexpr std::string_view kName = "VmHWM:";
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kName)) {
      return std::stoll(line.substr(kName.size())) * 1024;
    }
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

Machine this_machine() {
  Machine out;
  out.processor = processor_name();
  out.processors = processors_here();
  const int64_t physical = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  out.memory_bytes = std::min(physical, control_group_limit());
  utsname name{};
  if (uname(&name) == 0) {
    out.system = fmt::format("{} {} {}", name.sysname, name.release, name.machine);
  }
#if defined(__clang__)
  out.compiler =
      fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  out.compiler = fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
  out.version = std::string(mstrain::version());
  return out;
}

OrderedJson to_json(const Machine& machine) {
  return {{"processor", machine.processor},       {"processors", machine.processors},
          {"memory_bytes", machine.memory_bytes}, {"system", machine.system},
          {"compiler", machine.compiler},         {"version", machine.version}};
}

int64_t peak_memory_bytes() { return std::max(earlier_peak.load(), peak_now()); }

int64_t resident_memory_bytes() { return memory_now().resident; }

int64_t own_memory_bytes() {
  const MemoryNow now = memory_now();
  return now.resident - now.mapped;
}

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Files come and go meanwhile: what is gone counts nothing.
int64_t folder_bytes(const std::string& folder) {
  namespace fs = std::filesystem;
  int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error); !error && at != fs::end(at);
       at.increment(error)) {
    std::error_code gone;
    const auto size = at->is_regular_file(gone) ? at->file_size(gone) : 0;
    bytes += gone ? 0 : static_cast<int64_t>(size);
  }
  return bytes;
}

int64_t free_disk_bytes(const std::string& folder) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  return error ? 0 : static_cast<int64_t>(space.available);
}

UncountedMemory::~UncountedMemory() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;  // forgets the peak: proc(5)
  if (file) {
    earlier_peak = std::max(earlier_peak.load(), peak_);
  }
}

}  // namespace mstrain
