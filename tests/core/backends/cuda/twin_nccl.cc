// NCCL (nccl.h) among cards that are none (twin.cc), of several processes: each message is a file of MSTRAIN_TWIN_FOLDER, which its
// receiver removes. Everything runs in its stream; a connection is in progress until all of its ranks have asked for it.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "core/ops/scalar_convert.h"
#include "tests/core/backends/cuda/twin_stream.h"

namespace {

using mstrain::twin::Stream;

constexpr int kDone = 0, kSystemError = 2, kInvalidUsage = 5, kInProgress = 7;

struct Id {
  char bytes[128];
};

struct Comm {
  std::string name;
  int ranks = 0, rank = 0;
  std::vector<int64_t> sent, received;  // messages, by peer
  std::atomic<bool> aborted = false;

  static std::string folder() { return std::getenv("MSTRAIN_TWIN_FOLDER"); }
  std::string message(int from, int to, int64_t number) const {
    return fmt::format("{}/nccl-{}-{}-{}-{}", folder(), name, from, to, number);
  }
  std::string presence(int who) const {
    return fmt::format("{}/nccl-{}-here-{}", folder(), name, who);
  }
};

void put(const std::string& path, const void* data, size_t bytes) {
  const std::string whole = path + ".part";
  std::ofstream(whole, std::ios::binary)
      .write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  std::filesystem::rename(whole, path);
}

// Waits until it is there, or the connection ends.
int take(const Comm& comm, const std::string& path, void* data, size_t bytes) {
  while (!std::filesystem::exists(path)) {
    if (comm.aborted) {
      return kDone;  // as a card that goes on with what it has
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  if (std::filesystem::file_size(path) != bytes) {
    fmt::print(stderr, "{}: {} bytes came, and {} are received\n", path,
               std::filesystem::file_size(path), bytes);
    return kSystemError;
  }
  std::ifstream(path, std::ios::binary)
      .read(static_cast<char*>(data), static_cast<std::streamsize>(bytes));
  std::filesystem::remove(path);
  return kDone;
}

size_t size_of(int type) {
  constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return kSizes[type];
}

template <class T>
void add(void* to, const void* x, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    auto* const sum = static_cast<T*>(to) + i;
    *sum = static_cast<T>(*sum + static_cast<const T*>(x)[i]);
  }
}
template <float (*load)(uint16_t), uint16_t (*store)(float)>
void add_short(void* to, const void* x, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    auto* const sum = static_cast<uint16_t*>(to) + i;
    *sum = store(load(*sum) + load(static_cast<const uint16_t*>(x)[i]));
  }
}
float from_f16(uint16_t x) { return mstrain::scalar::from_f16(x); }
uint16_t to_f16(float x) { return mstrain::scalar::to_f16(x); }
float from_bf16(uint16_t x) { return mstrain::scalar::from_bf16(x); }
uint16_t to_bf16(float x) { return mstrain::scalar::to_bf16(x); }

void add(int type, void* to, const void* x, size_t count) {
  switch (type) {
    case 0: add<int8_t>(to, x, count); break;
    case 1: add<uint8_t>(to, x, count); break;
    case 2: add<int32_t>(to, x, count); break;
    case 3: add<uint32_t>(to, x, count); break;
    case 4: add<int64_t>(to, x, count); break;
    case 5: add<uint64_t>(to, x, count); break;
    case 6: add_short<from_f16, to_f16>(to, x, count); break;
    case 7: add<float>(to, x, count); break;
    case 8: add<double>(to, x, count); break;
    default: add_short<from_bf16, to_bf16>(to, x, count);
  }
}

// What a group asks for: all is sent before anything is received.
struct Group {
  int depth = 0;
  std::map<void*, std::pair<std::vector<std::function<int()>>, std::vector<std::function<int()>>>>
      calls;  // by stream: sends, receives
};
Group& group() {
  thread_local Group it;
  return it;
}

int start_group() {
  ++group().depth;
  return kDone;
}

int end_group() {
  if (--group().depth > 0) {
    return kDone;
  }
  for (auto& [stream, calls] : group().calls) {
    static_cast<Stream*>(stream)->give([calls = std::move(calls)] {
      int result = kDone;
      for (const auto* list : {&calls.first, &calls.second}) {
        for (const auto& call : *list) {
          result = result == kDone ? call() : result;
        }
      }
      return result;
    });
  }
  group().calls.clear();
  return kDone;
}

void send(const void* in, size_t bytes, int peer, Comm& comm, void* stream) {
  const std::string path = comm.message(comm.rank, peer, comm.sent[static_cast<size_t>(peer)]++);
  group().calls[stream].first.emplace_back([in, bytes, path] {
    put(path, in, bytes);
    return kDone;
  });
}

void receive(int peer, Comm& comm, void* stream,
             const std::function<int(const std::string& path)>& then) {
  const std::string path =
      comm.message(peer, comm.rank, comm.received[static_cast<size_t>(peer)]++);
  group().calls[stream].second.emplace_back([path, then] { return then(path); });
}

void receive(void* out, size_t bytes, int peer, Comm& comm, void* stream) {
  receive(peer, comm, stream,
          [&comm, out, bytes](const std::string& path) { return take(comm, path, out, bytes); });
}

// The sum of every rank's piece, in the order of ranks.
void reduce(void* out, size_t count, int type, Comm& comm, void* stream) {
  for (int r = 0; r < comm.ranks; ++r) {
    const size_t bytes = count * size_of(type);
    receive(r, comm, stream, [&comm, out, bytes, count, type, r](const std::string& path) {
      std::vector<std::byte> piece(bytes);
      const int result = take(comm, path, piece.data(), bytes);
      if (r == 0) {
        std::memcpy(out, piece.data(), bytes);
      } else {
        add(type, out, piece.data(), count);
      }
      return result;
    });
  }
}

template <class F>
int as_group(const F& calls) {
  start_group();
  calls();
  return end_group();
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = 22703;
  return kDone;
}
const char* ncclGetErrorString(int) { return "an error of the twin"; }
int ncclGetUniqueId(Id* id) {
  static std::atomic<int> made = 0;
  std::memset(id, 0, sizeof *id);
  const std::string name = fmt::format("{}-{}", getpid(), made++);
  std::memcpy(id->bytes, name.data(), name.size());
  return kDone;
}
int ncclCommInitRankConfig(void** comm, int ranks, Id id, int rank, void*) {
  if (rank < 0 || rank >= ranks) {
    return kInvalidUsage;
  }
  auto* const it = new Comm();
  it->name = id.bytes;
  it->ranks = ranks;
  it->rank = rank;
  it->sent.resize(static_cast<size_t>(ranks));
  it->received.resize(static_cast<size_t>(ranks));
  put(it->presence(rank), "", 0);
  *comm = it;
  return kInProgress;
}
int ncclCommGetAsyncError(void* comm, int* result) {
  const auto& it = *static_cast<const Comm*>(comm);
  *result = kDone;
  for (int r = 0; r < it.ranks; ++r) {
    if (!std::filesystem::exists(it.presence(r))) {
      *result = kInProgress;
    }
  }
  return kDone;
}
int ncclCommFinalize(void*) { return kDone; }
int ncclCommDestroy(void*) {
  Stream::settle_all();
  return kDone;
}
int ncclCommAbort(void* comm) {
  static_cast<Comm*>(comm)->aborted = true;
  return kDone;
}
int ncclGroupStart() { return start_group(); }
int ncclGroupEnd() { return end_group(); }
int ncclAllReduce(const void* in, void* out, size_t count, int type, int reduction, void* comm,
                  void* stream) {
  auto& it = *static_cast<Comm*>(comm);
  return reduction != 0 ? kInvalidUsage : as_group([&] {
    for (int r = 0; r < it.ranks; ++r) {
      send(in, count * size_of(type), r, it, stream);
    }
    reduce(out, count, type, it, stream);
  });
}
int ncclReduceScatter(const void* in, void* out, size_t count, int type, int reduction, void* comm,
                      void* stream) {
  auto& it = *static_cast<Comm*>(comm);
  return reduction != 0 ? kInvalidUsage : as_group([&] {
    const size_t bytes = count * size_of(type);
    for (int r = 0; r < it.ranks; ++r) {
      send(static_cast<const std::byte*>(in) + static_cast<size_t>(r) * bytes, bytes, r, it,
           stream);
    }
    reduce(out, count, type, it, stream);
  });
}
int ncclAllGather(const void* in, void* out, size_t count, int type, void* comm, void* stream) {
  auto& it = *static_cast<Comm*>(comm);
  return as_group([&] {
    const size_t bytes = count * size_of(type);
    for (int r = 0; r < it.ranks; ++r) {
      send(in, bytes, r, it, stream);
      receive(static_cast<std::byte*>(out) + static_cast<size_t>(r) * bytes, bytes, r, it, stream);
    }
  });
}
int ncclSend(const void* in, size_t count, int type, int peer, void* comm, void* stream) {
  return as_group(
      [&] { send(in, count * size_of(type), peer, *static_cast<Comm*>(comm), stream); });
}
int ncclRecv(void* out, size_t count, int type, int peer, void* comm, void* stream) {
  return as_group(
      [&] { receive(out, count * size_of(type), peer, *static_cast<Comm*>(comm), stream); });
}

}  // extern "C"
