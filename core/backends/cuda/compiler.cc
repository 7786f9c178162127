#include "core/backends/cuda/compiler.h"

#include <dlfcn.h>

#include <atomic>
#include <thread>

#include "core/backends/cuda/device_headers.h"
#include "core/backends/cuda/kept_files.h"
#include "core/backends/cuda/libraries.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/paths.h"

namespace mstrain::cuda {
namespace {

// What is asked of NVRTC (nvrtc.h).
struct Nvrtc {
  using Program = void*;
  int (*version)(int* major, int* minor);
  const char* (*error)(int result);
  int (*create)(Program* program, const char* text, const char* name, int headers,
                const char* const* contents, const char* const* names);
  int (*compile)(Program program, int options, const char* const* texts);
  int (*log_size)(Program program, size_t* bytes);
  int (*log)(Program program, char* text);
  int (*code_size)(Program program, size_t* bytes);
  int (*code)(Program program, char* bytes);
  int (*destroy)(Program* program);
};

struct Loaded {
  Nvrtc functions{};
  std::string missing;
};

const Loaded& nvrtc() {
  static const Loaded it = [] {
    Loaded loaded;
    try {
      const SharedLibrary library = nvidia_library("nvrtc", {"13", "12"});
      Nvrtc& f = loaded.functions;
      library.find("nvrtcVersion", f.version);
      library.find("nvrtcGetErrorString", f.error);
      library.find("nvrtcCreateProgram", f.create);
      library.find("nvrtcCompileProgram", f.compile);
      library.find("nvrtcGetProgramLogSize", f.log_size);
      library.find("nvrtcGetProgramLog", f.log);
      library.find("nvrtcGetCUBINSize", f.code_size);
      library.find("nvrtcGetCUBIN", f.code);
      library.find("nvrtcDestroyProgram", f.destroy);
    } catch (const Error& error) {
      loaded.missing = error.what();
    }
    return loaded;
  }();
  return it;
}

// What kernels include, by the names that they say.
struct Headers {
  std::vector<const char*> names, contents;
  Headers() {
    for (const DeviceHeader& header : device_headers()) {
      names.push_back(header.path);
      contents.push_back(header.content);
    }
    for (const char* name :
         {"array", "bit", "cmath", "cstdint", "limits", "type_traits", "utility"}) {
      names.push_back(name);
      contents.push_back("#include \"core/backends/cuda/device/standard.h\"\n");
    }
  }
};
const Headers& headers() {
  static const Headers it;
  return it;
}

constexpr const char* kOptions[] = {"--std=c++20", "-default-device"};

// The names of texts in the cache: of all that their code is made of.
std::string key_of(const std::string& text, const std::string& architecture) {
  static const std::string common = [] {
    int major = 0, minor = 0;
    nvrtc().functions.version(&major, &minor);
    std::string all = fmt::format("{}.{}", major, minor);
    for (const char* option : kOptions) {
      all += option;
    }
    for (const char* content : headers().contents) {
      all += content;
    }
    return to_string(hash_bytes(all));
  }();
  return to_string(hash_bytes(common + architecture + text));
}

}  // namespace

std::string missing_compiler() { return nvrtc().missing; }

std::string architecture_of(int major, int minor) {
  return fmt::format("sm_{}{}{}", major, minor, major == 9 && minor == 0 ? "a" : "");
}

std::string compile_text(const std::string& text, const std::string& architecture) {
  check(nvrtc().missing.empty(), "no kernel can be compiled: {}", nvrtc().missing);
  const Nvrtc& f = nvrtc().functions;
  const Headers& include = headers();
  Nvrtc::Program program = nullptr;
  int result = f.create(&program, text.c_str(), "kernel.cu", static_cast<int>(include.names.size()),
                        include.contents.data(), include.names.data());
  check(result == 0, "nvrtcCreateProgram: {}", f.error(result));
  const std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> options{target.c_str()};
  options.insert(options.end(), std::begin(kOptions), std::end(kOptions));
  result = f.compile(program, static_cast<int>(options.size()), options.data());
  std::string code;
  std::string log;
  size_t bytes = 0;
  if (result == 0 && f.code_size(program, &bytes) == 0) {
    code.resize(bytes);
    f.code(program, code.data());
  } else if (f.log_size(program, &bytes) == 0) {
    log.resize(bytes);
    f.log(program, log.data());
  }
  f.destroy(&program);
  check(!code.empty(), "a kernel does not compile for {}: {}\n{}\n{}", architecture,
        f.error(result), log.substr(0, 4000), text);
  return code;
}

std::vector<std::string> compiled(FileSystem& files, const std::string& folder,
                                  const std::vector<std::string>& texts,
                                  const std::string& architecture) {
  std::vector<std::string> codes(texts.size());
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    for (size_t i = next++; i < texts.size(); i = next++) {
      try {
        const std::string path = join_path(folder, key_of(texts[i], architecture) + ".cubin");
        codes[i] = kept_file(files, path);
        if (codes[i].empty()) {
          codes[i] = compile_text(texts[i], architecture);
          keep_file(files, path, codes[i]);
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = failure == nullptr ? std::current_exception() : failure;
      }
    }
  };
  const size_t most = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min(most, texts.size()); ++i) {
    others.emplace_back(work);
  }
  work();
  for (std::thread& other : others) {
    other.join();
  }
  if (failure != nullptr) {
    std::rethrow_exception(failure);
  }
  return codes;
}

}  // namespace mstrain::cuda
