#include "tests/core/backends/cuda/emulated.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>

#include "core/backends/cuda/group.h"
#include "core/base/files.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain::cuda {
namespace {

struct Arguments {
  void* at[kMostPointers];
};

// The texts of the back end by their kernels' names, and the libraries that hold them.
class Texts {
 public:
  void add(const std::string& name, const std::string& text) {
    if (texts_.try_emplace(name, text).second) {
      pending_.push_back(name);
    }
  }
  const KernelLibrary& library_of(const std::string& name) {
    if (!libraries_.contains(name)) {
      std::string source;
      for (const std::string& pending : pending_) {
        source += texts_.at(pending);
      }
      const auto library = std::make_shared<const KernelLibrary>(source);
      for (const std::string& pending : pending_) {
        libraries_[pending] = library;
      }
      pending_.clear();
    }
    return *libraries_.at(name);
  }

 private:
  std::map<std::string, std::string> texts_;
  std::vector<std::string> pending_;
  std::map<std::string, std::shared_ptr<const KernelLibrary>> libraries_;
};
int64_t launched = 0;
bool only_prepared = false;
constexpr int64_t kAnyBlocks = std::numeric_limits<int64_t>::max();
int64_t most_blocks = kAnyBlocks;

Texts& texts() {
  static Texts it;
  return it;
}

// Where a kernel of this process reports what it finds wrong.
Report report;

constexpr const char* kArchitectures[] = {"sm_80", "sm_90a"};

template <int which>
bool supports(const KernelRequest& request) {
  return entry_for(request, kArchitectures[which]) != nullptr;
}

Kernel kernel_of(const KernelRequest& request, const char* architecture) {
  const KernelText text = named(entry_for(request, architecture)->print(request));
  if (text.launches.empty()) {
    return {.run = [](const KernelMemory&) { ++launched; }};
  }
  const std::string library_name = text.launches[0].name;
  texts().add(library_name, text.text);
  std::vector<Reach> inputs, outputs;
  for (const ViewType& view : request.inputs) {
    inputs.push_back(reach_of(view));
  }
  for (const ViewType& view : request.outputs) {
    outputs.push_back(reach_of(view));
  }
  const auto run = [=](const KernelMemory& memory) {
    if (only_prepared) {
      for (size_t i = 0; i < outputs.size(); ++i) {
        std::memset(memory.outputs[i], 0, static_cast<size_t>(outputs[i].end));
      }
      return;
    }
    std::vector<emulator::Region> regions;
    std::vector<void*> pointers;
    const auto add = [&](const char* what, std::span<void* const> addresses,
                         const std::vector<Reach>& reaches, bool writable) {
      for (size_t i = 0; i < addresses.size(); ++i) {
        pointers.push_back(addresses[i]);
        // An input that a result lies over is written there; one that begins where another does is read as far as either.
        const auto known = std::ranges::find(regions, addresses[i], &emulator::Region::data);
        if (known != regions.end()) {
          known->bytes = std::max(
              known->bytes, writable ? 0 : static_cast<size_t>(reaches[i].end - reaches[i].first));
          continue;
        }
        regions.push_back({fmt::format("{} {}", what, i),
                           static_cast<std::byte*>(addresses[i]) + reaches[i].first,
                           static_cast<size_t>(reaches[i].end - reaches[i].first), writable});
      }
    };
    add("output", memory.outputs, outputs, true);
    std::vector<void*> out = std::move(pointers);
    pointers = {};
    add("input", memory.inputs, inputs, false);
    pointers.insert(pointers.end(), out.begin(), out.end());
    pointers.push_back(memory.workspace);
    regions.push_back(
        {"workspace", memory.workspace, static_cast<size_t>(text.workspace_bytes), true});
    pointers.push_back(&report);
    pointers.push_back(reinterpret_cast<void*>(text.number));  // NOLINT(performance-no-int-to-ptr)
    regions.push_back({"report", &report, sizeof(report), true});
    report = {};
    const KernelLibrary& library = texts().library_of(library_name);
    for (const KernelLaunch& launch : text.launches) {
      constexpr int64_t kProcessors = 3;
      const int64_t blocks = std::min(launch.blocks, launch.shares ? kProcessors : most_blocks);
      library.run({launch.name, static_cast<unsigned>(blocks),
                   static_cast<unsigned>(launch.threads), static_cast<size_t>(launch.shared_bytes)},
                  regions, pointers);
      ++launched;
    }
    if (report.operation != 0) {
      throw Error(message_of(report));
    }
  };
  return {.run = run, .workspace_bytes = text.workspace_bytes, .in_place = text.in_place};
}

template <int which>
Kernel prepare(const KernelRequest& request) {
  return kernel_of(request, kArchitectures[which]);
}

template <int which>
const Backend* add() {
  Backend& table = add_backend({.name = std::string(kArchitectures[which]) + " on the cpu",
                                .fallback = backend_named("reference"),
                                .limits = {.fused_row = kLongestRow}});
  for (const TextEntry& entry : text_entries()) {
    if (entry.architecture.empty()) {
      register_kernel(table, entry.op,
                      {.prepare = prepare<which>,
                       .supports = supports<which>,
                       .strided_inputs = entry.strided_inputs});
    }
  }
  return &table;
}

}  // namespace

KernelLibrary::KernelLibrary(const std::string& source) {
  const TemporaryFolder folder;
  const std::string text = folder / "kernels.cc", library = folder / "kernels.so",
                    messages = folder / "messages";
  write_file_atomic(real_files(), text, source);
  // Bounds and races are the emulator's; what it compiles for is all one.
  const std::string command = fmt::format(
      "'{}' {} -I'{}' -o '{}' '{}' "
      ">'{}' 2>&1",
      MSTRAIN_TEST_COMPILER, MSTRAIN_TEST_OPTIONS, MSTRAIN_SOURCE_DIR, library, text, messages);
  if (std::system(command.c_str()) != 0) {
    throw Error(
        fmt::format("a kernel does not compile:\n{}", real_files().read(messages).substr(0, 4000)));
  }
  library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    throw Error(fmt::format("a library of kernels cannot be loaded: {}", dlerror()));
  }
}

void KernelLibrary::run(const emulator::Launch& launch, std::span<const emulator::Region> regions,
                        std::span<void* const> pointers) const {
  const auto run_on =
      reinterpret_cast<void (*)(emulator::Hardware*)>(dlsym(library_, "mstrain_run_on"));
  const auto kernel = reinterpret_cast<void (*)(Arguments)>(dlsym(library_, launch.name.c_str()));
  if (run_on == nullptr || kernel == nullptr) {
    throw Error(fmt::format("there is no kernel called {} in its library", launch.name));
  }
  Arguments arguments{};
  std::copy(pointers.begin(), pointers.end(), arguments.at);
  emulator::run(launch, regions, run_on, [&] { kernel(arguments); });
}

const Backend* emulated_backend() {
  static const Backend* const it = add<0>();
  return it;
}
const Backend* emulated_backend_of_sm_90a() {
  static const Backend* const it = add<1>();
  return it;
}

OnlyPrepared::OnlyPrepared() { only_prepared = true; }
OnlyPrepared::~OnlyPrepared() { only_prepared = false; }

MostBlocks::MostBlocks(int64_t blocks) { most_blocks = blocks; }
MostBlocks::~MostBlocks() { most_blocks = kAnyBlocks; }

int64_t launches() { return launched; }

}  // namespace mstrain::cuda
