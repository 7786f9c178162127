// Cards that are none, MSTRAIN_TWIN_CARDS of them, or one: what the back end asks of NVIDIA's driver, of NVRTC and of cuBLASLt
// (cuda.h, nvrtc.h, cublasLt.h), done by this machine's processors. Memory is the host's; a text is compiled by the compiler of
// the build, and its kernels run on the emulator; products are made by their definition. Streams are threads that do what they
// are given later than it is given (twin_stream.h). One library, with NCCL (twin_nccl.cc), under four names.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <string>

#include "core/backends/cuda/emulator/machine.h"
#include "core/backends/cuda/matmul_library.h"
#include "core/ops/float8_code.h"
#include "core/ops/scalar_convert.h"
#include "tests/core/backends/cuda/twin_stream.h"

namespace {

using mstrain::cuda::MatmulLibrary;
using mstrain::cuda::emulator::Hardware;
using mstrain::twin::Event;
using mstrain::twin::Graph;
using mstrain::twin::Stream;

// How often the driver was asked to launch, and cuBLASLt for products by which algorithm, and with a second matrix: told when the process ends, where there is
// a file for it.
struct Counts {
  std::atomic<int64_t> kernels = 0, graphs = 0, slow = 0, fast = 0, aux = 0, float8 = 0;
  ~Counts() {
    if (const char* const file = std::getenv("MSTRAIN_TWIN_COUNTS")) {
      std::ofstream(file) << fmt::format("{} kernels {} graphs {} slow {} fast {} aux {} float8\n",
                                         kernels.load(), graphs.load(), slow.load(), fast.load(),
                                         aux.load(), float8.load());
    }
  }
};
Counts counts;

// What a card that failed says to everything from then on, and for how long its clock has run: as tests say.
std::atomic<int> failure = 0;
std::atomic<int64_t> passed = 0;

int cards() {
  const char* const said = std::getenv("MSTRAIN_TWIN_CARDS");
  return said == nullptr ? 1 : std::atoi(said);
}

struct Program {
  std::string text, library;
};

struct Function {
  void* library;
  std::string name;
};

struct Arguments {
  void* at[160];
};

struct Desc {
  int turned[2] = {0, 0};
  uint32_t epilogue = 1;
  const void* bias = nullptr;
  void* aux = nullptr;  // what an activation is of, or its derivative is taken at
  int64_t aux_leading = 0, aux_stride = 0;
  const float* units[2] = {nullptr, nullptr};
};

struct Layout {
  int type = 0;
  int64_t rows = 0, columns = 0, leading = 0;
  int32_t count = 1;
  int64_t stride = 0;
};

double load(int type, const void* from, int64_t i) {
  switch (type) {
    case 0: return static_cast<const float*>(from)[i];
    case 1: return static_cast<const double*>(from)[i];
    case 2: return mstrain::scalar::from_f16(static_cast<const uint16_t*>(from)[i]);
    case 28:
      return mstrain::Float8Code<mstrain::E4M3>::decode(static_cast<const uint8_t*>(from)[i]);
    case 29:
      return mstrain::Float8Code<mstrain::E5M2>::decode(static_cast<const uint8_t*>(from)[i]);
    default: return mstrain::scalar::from_bf16(static_cast<const uint16_t*>(from)[i]);
  }
}

void store(int type, void* to, int64_t i, double value) {
  switch (type) {
    case 0: static_cast<float*>(to)[i] = static_cast<float>(value); break;
    case 1: static_cast<double*>(to)[i] = value; break;
    case 2:
      static_cast<uint16_t*>(to)[i] = mstrain::scalar::to_f16(static_cast<float>(value));
      break;
    default: static_cast<uint16_t*>(to)[i] = mstrain::scalar::to_bf16(static_cast<float>(value));
  }
}

struct Product {
  Desc how;
  Layout x, y, to;
  double alpha = 1, beta = 0;
  const void *a = nullptr, *b = nullptr, *c = nullptr;
  void* d = nullptr;
};

// Of the library's GELU.
double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

double activated(uint32_t epilogue, double x) {
  if ((epilogue & 2U) != 0) {
    return x > 0 ? x : 0;
  }
  if ((epilogue & 32U) != 0) {
    return gelu(x);
  }
  return x;
}

// Columns are dense, as the library has matrices.
double element(const Layout& x, const void* data, bool turned, int64_t row, int64_t column,
               int64_t which) {
  const int64_t at = turned ? column + row * x.leading : row + column * x.leading;
  return load(x.type, data, which * x.stride + at);
}

bool is_float8(const Layout& x) { return x.type == 28 || x.type == 29; }

// Of 8 bits the library has what is summed over dense in both, sizes that are multiples of 16, and not two of E5M2.
bool is_served(const Product& p) {
  if (!is_float8(p.x) && !is_float8(p.y)) {
    return true;
  }
  bool fits = is_float8(p.x) && is_float8(p.y) && p.x.type + p.y.type < 58 && p.to.type == 14 &&
              p.how.turned[0] == 1 && p.how.turned[1] == 0;
  for (const int64_t size : {p.x.rows, p.x.columns, p.y.columns}) {
    fits = fits && size % 16 == 0;
  }
  for (const void* at : {p.a, p.b, const_cast<const void*>(p.d)}) {
    fits = fits && reinterpret_cast<uintptr_t>(at) % 16 == 0;
  }
  return fits && p.how.units[0] != nullptr && p.how.units[1] != nullptr;
}

void multiply(const Product& p) {
  const int64_t summed = p.how.turned[0] != 0 ? p.x.rows : p.x.columns;
  for (int64_t which = 0; which < p.to.count; ++which) {
    for (int64_t j = 0; j < p.to.columns; ++j) {
      for (int64_t i = 0; i < p.to.rows; ++i) {
        double sum = 0;
        for (int64_t k = 0; k < summed; ++k) {
          sum += element(p.x, p.a, p.how.turned[0] != 0, i, k, which) *
                 element(p.y, p.b, p.how.turned[1] != 0, k, j, which);
        }
        const int64_t at = which * p.to.stride + i + j * p.to.leading;
        sum *= p.alpha;
        for (const float* unit : p.how.units) {
          sum *= unit == nullptr ? 1 : *unit;
        }
        if (p.beta != 0) {
          sum += p.beta * load(p.to.type, p.c, at);
        }
        if ((p.how.epilogue & 4U) != 0) {
          sum += load(p.to.type, p.how.bias, i);
        }
        const int64_t aux = which * p.how.aux_stride + i + j * p.how.aux_leading;
        if ((p.how.epilogue & 64U) != 0) {
          constexpr double kStep = 1e-6;
          const double x = load(p.to.type, p.how.aux, aux);
          sum *= (gelu(x + kStep) - gelu(x - kStep)) / (2 * kStep);
        } else if ((p.how.epilogue & 128U) != 0) {
          store(p.to.type, p.how.aux, aux, sum);
        }
        store(p.to.type, p.d, at, activated(p.how.epilogue, sum));
      }
    }
  }
}

constexpr int kOk = 0, kFailed = 1, kUnjoined = 904, kRefused = 15;

}  // namespace

extern "C" {

void twin_fail(int result) { failure = result; }
void twin_pass(int64_t nanoseconds) { passed = nanoseconds; }

// The driver.
int cuInit(unsigned) { return kOk; }
int cuGetErrorName(int, const char** name) {
  *name = "an error of the twin";
  return kOk;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return kOk;
}
int cuDeviceGetCount(int* count) {
  *count = cards();
  return kOk;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return kOk;
}
int cuDeviceGetName(char* name, int length, int) {
  std::strncpy(name, "twin", static_cast<size_t>(length));
  return kOk;
}
int cuDeviceGetUuid_v2(char* uuid, int device) {
  std::memset(uuid, device, 16);
  return kOk;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{1} << 34;
  return kOk;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  const char* const major = std::getenv("MSTRAIN_TWIN_MAJOR");  // of its compute capability
  *value = attribute == 75 ? (major == nullptr ? 9 : std::atoi(major)) : attribute == 16 ? 3 : 0;
  return kOk;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  static int it = 0;
  *context = &it;
  return kOk;
}
int cuCtxSetCurrent(void*) { return failure; }
int cuMemAlloc_v2(unsigned long long* at, size_t bytes) {
  *at = reinterpret_cast<unsigned long long>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  // What nobody wrote is no number.
  std::memset(reinterpret_cast<void*>(*at), 0xff, bytes);
  return kOk;
}
int cuMemFree_v2(unsigned long long at) {
  Stream::settle_all();
  if (failure == kOk) {
    std::free(reinterpret_cast<void*>(at));
  }
  return failure;
}
int cuMemHostAlloc(void** at, size_t bytes, unsigned) {
  *at = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return kOk;
}
int cuMemFreeHost(void* at) {
  Stream::settle_all();
  if (failure == kOk) {
    std::free(at);
  }
  return failure;
}
int cuMemGetInfo_v2(size_t* free, size_t* all) {
  *free = *all = size_t{1} << 34;
  return kOk;
}
int cuStreamCreate(void** stream, unsigned) {
  *stream = new Stream();
  return kOk;
}
int cuStreamSynchronize(void* stream) { return static_cast<Stream*>(stream)->settle(); }
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  return static_cast<Stream*>(stream)->wait_for(*static_cast<Event*>(event));
}
int cuStreamBeginCapture_v2(void* stream, int) {
  static_cast<Stream*>(stream)->begin_capture();
  return kOk;
}
int cuStreamEndCapture(void* stream, void** graph) {
  const std::shared_ptr<Graph> made = static_cast<Stream*>(stream)->end_capture();
  *graph = made == nullptr ? nullptr : new std::shared_ptr<Graph>(made);
  return made == nullptr ? kUnjoined : kOk;
}
int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  *executable = new std::shared_ptr<Graph>(*static_cast<std::shared_ptr<Graph>*>(graph));
  return kOk;
}
int cuGraphLaunch(void* executable, void* stream) {
  ++counts.graphs;
  static_cast<Stream*>(stream)->give(
      [graph = *static_cast<std::shared_ptr<Graph>*>(executable)] { return graph->run(); });
  return kOk;
}
int cuGraphExecDestroy(void* executable) {
  delete static_cast<std::shared_ptr<Graph>*>(executable);
  return kOk;
}
int cuGraphDestroy(void* graph) {
  delete static_cast<std::shared_ptr<Graph>*>(graph);
  return kOk;
}
int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t bytes, void* stream) {
  static_cast<Stream*>(stream)->give([=] {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    return kOk;
  });
  return kOk;
}
int cuEventCreate(void** event, unsigned) {
  *event = new Event();
  return kOk;
}
int cuEventDestroy_v2(void* event) {
  delete static_cast<Event*>(event);
  return kOk;
}
int cuEventRecord(void* event, void* stream) {
  static_cast<Event*>(event)->set_passed(passed);
  if (stream != nullptr && failure == kOk) {
    static_cast<Stream*>(stream)->record(*static_cast<Event*>(event));
  }
  return failure;
}
int cuEventQuery(void* event) {
  return failure == kOk ? static_cast<Event*>(event)->query() : failure.load();
}
int cuEventSynchronize(void* event) {
  const int result = static_cast<Event*>(event)->wait();
  return failure == kOk ? result : failure.load();
}
int cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  *milliseconds = 1e-6F * static_cast<float>(static_cast<Event*>(end)->spent() -
                                             static_cast<Event*>(begin)->spent());
  return kOk;
}
// An image is the path of a library.
int cuModuleLoadData(void** module, const void* image) {
  *module = dlopen(static_cast<const char*>(image), RTLD_NOW | RTLD_LOCAL);
  return *module == nullptr ? kFailed : kOk;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  if (dlsym(module, name) == nullptr) {
    return kFailed;
  }
  *function = new Function{module, name};
  return kOk;
}
int cuFuncSetAttribute(void*, int, int) { return kOk; }
int cuLaunchKernel(void* function, unsigned blocks, unsigned rows, unsigned, unsigned threads,
                   unsigned, unsigned, unsigned shared_bytes, void* stream, void** parameters,
                   void**) {
  ++counts.kernels;
  const auto& it = *static_cast<const Function*>(function);
  const auto& arguments = *static_cast<const Arguments*>(parameters[0]);
  static_cast<Stream*>(stream)->give([it, arguments, blocks, rows, threads, shared_bytes] {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    const auto run_on = reinterpret_cast<void (*)(Hardware*)>(dlsym(it.library, "mstrain_run_on"));
    const auto kernel = reinterpret_cast<void (*)(Arguments)>(dlsym(it.library, it.name.c_str()));
    try {
      mstrain::cuda::emulator::run(
          {it.name, blocks, threads, shared_bytes, /*checked=*/false, rows}, {}, run_on,
          [&] { kernel(arguments); });
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
      return kFailed;
    }
    return kOk;
  });
  return kOk;
}

// The compiler.
int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return kOk;
}
const char* nvrtcGetErrorString(int) { return "the compiler of the build refuses it"; }
int nvrtcCreateProgram(void** program, const char* text, const char*, int, const char* const*,
                       const char* const*) {
  *program = new Program{text, {}};
  return kOk;
}
int nvrtcCompileProgram(void* program, int, const char* const*) {
  static std::atomic<int> made = 0;
  auto& it = *static_cast<Program*>(program);
  const std::string name =
      fmt::format("{}/kernel_{}_{}", std::getenv("MSTRAIN_TWIN_FOLDER"), getpid(), made++);
  std::ofstream(name + ".cc") << it.text;
  it.library = name + ".so";
  return std::system(fmt::format("'{}' {} "
                                 "-I'{}' -o '{}' '{}.cc'",
                                 MSTRAIN_TEST_COMPILER, MSTRAIN_TEST_OPTIONS, MSTRAIN_SOURCE_DIR,
                                 it.library, name)
                         .c_str()) == 0
             ? kOk
             : kFailed;
}
int nvrtcGetProgramLogSize(void*, size_t* bytes) {
  *bytes = 0;
  return kOk;
}
int nvrtcGetProgramLog(void*, char*) { return kOk; }
int nvrtcGetCUBINSize(void* program, size_t* bytes) {
  *bytes = static_cast<Program*>(program)->library.size() + 1;
  return kOk;
}
int nvrtcGetCUBIN(void* program, char* code) {
  std::strcpy(code, static_cast<Program*>(program)->library.c_str());
  return kOk;
}
int nvrtcDestroyProgram(void** program) {
  delete static_cast<Program*>(*program);
  return kOk;
}

// Products. Of what is proposed the first is slow, the second refused, the third fast.
size_t cublasLtGetVersion() { return 1; }
int cublasLtCreate(void** handle) {
  *handle = new char;
  return kOk;
}
int cublasLtMatmulDescCreate(void** desc, int, int) {
  *desc = new Desc();
  return kOk;
}
int cublasLtMatmulDescSetAttribute(void* desc, int attribute, const void* value, size_t bytes) {
  auto& it = *static_cast<Desc*>(desc);
  const std::map<int, void*> places = {
      {3, &it.turned[0]},   {4, &it.turned[1]}, {7, &it.epilogue},
      {8, &it.bias},        {11, &it.aux},      {12, &it.aux_leading},
      {13, &it.aux_stride}, {17, &it.units[0]}, {18, &it.units[1]}};
  std::memcpy(places.at(attribute), value, bytes);
  return kOk;
}
int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t columns,
                               int64_t leading) {
  *layout = new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading};
  return leading < static_cast<int64_t>(rows) ? kFailed : kOk;
}
int cublasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value, size_t bytes) {
  auto& it = *static_cast<Layout*>(layout);
  std::memcpy(attribute == 5 ? static_cast<void*>(&it.count) : static_cast<void*>(&it.stride),
              value, bytes);
  return kOk;
}
int cublasLtMatmulPreferenceCreate(void** preference) {
  *preference = new char;
  return kOk;
}
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return kOk; }
int cublasLtMatmulPreferenceDestroy(void* preference) {
  delete static_cast<char*>(preference);
  return kOk;
}
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int wanted,
                                   void* choices, int* found) {
  *found = std::min(wanted, 3);
  for (int i = 0; i < *found; ++i) {
    static_cast<MatmulLibrary::Choice*>(choices)[i] = {.algorithm = {{static_cast<uint64_t>(i)}}};
  }
  return kOk;
}
int cublasLtMatmul(void*, void* desc, const void* alpha, const void* a, void* a_layout,
                   const void* b, void* b_layout, const void* beta, const void* c, void*, void* d,
                   void* d_layout, const void* algorithm, void* workspace, size_t, void* stream) {
  const uint64_t which = static_cast<const MatmulLibrary::Algorithm*>(algorithm)->data[0];
  if (which == 1 || reinterpret_cast<uintptr_t>(workspace) % 256 != 0) {
    return kRefused;
  }
  ++(which == 0 ? counts.slow : counts.fast);
  counts.aux += (static_cast<const Desc*>(desc)->epilogue & 128U) != 0 ? 1 : 0;
  Product p{*static_cast<const Desc*>(desc), *static_cast<const Layout*>(a_layout),
            *static_cast<const Layout*>(b_layout), *static_cast<const Layout*>(d_layout)};
  const int scalars = p.to.type == 1 ? 1 : 0;
  p.alpha = load(scalars, alpha, 0);
  p.beta = load(scalars, beta, 0);
  p.a = a;
  p.b = b;
  p.c = c;
  p.d = d;
  if (!is_served(p)) {
    return kRefused;
  }
  counts.float8 += is_float8(p.x) ? 1 : 0;
  auto* const on = static_cast<Stream*>(stream);
  on->give([p, on, which] {
    multiply(p);
    on->spend(which == 0 ? 1'000'000 : 500'000);
    return kOk;
  });
  return kOk;
}

}  // extern "C"
