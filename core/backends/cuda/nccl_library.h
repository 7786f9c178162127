// The part of NCCL that exchanges need (nccl.h), looked for at run time.
#pragma once

#include <climits>
#include <cstddef>
#include <optional>
#include <string>

#include "core/runtime/dtype.h"

namespace mstrain::cuda {

struct NcclLibrary {
  using Comm = void*;
  struct Id {  // ncclUniqueId
    char bytes[128];
  };
  enum Result { kDone = 0, kInProgress = 7 };  // ncclResult_t
  static constexpr int kBytes = 1;             // ncclUint8
  static constexpr int kSum = 0;               // ncclRedOp_t
  static constexpr int kOldest = 21400;        // with calls that return before they have ended
  // ncclConfig_t as that version has it; newer ones take the rest for not said.
  struct Config {
    size_t size = sizeof(Config);
    unsigned magic = 0xcafebeef;
    unsigned version = kOldest;
    int blocking = 0;
  };

  std::string missing;  // why it is not here
  int version = 0;      // 22703 for 2.27.3
  int (*get_version)(int* version);
  const char* (*error_string)(int result);
  int (*make_id)(Id* id);
  int (*connect)(Comm* comm, int ranks, Id id, int rank, Config* config);
  int (*state)(Comm comm, int* result);
  int (*finalize)(Comm comm);
  int (*destroy)(Comm comm);
  int (*abort)(Comm comm);
  int (*group_start)();
  int (*group_end)();
  int (*all_reduce)(const void* in, void* out, size_t count, int type, int reduction, Comm comm,
                    void* stream);
  int (*reduce_scatter)(const void* in, void* out, size_t count, int type, int reduction, Comm comm,
                        void* stream);
  int (*all_gather)(const void* in, void* out, size_t count, int type, Comm comm, void* stream);
  int (*send)(const void* in, size_t count, int type, int peer, Comm comm, void* stream);
  int (*receive)(void* out, size_t count, int type, int peer, Comm comm, void* stream);
};

const NcclLibrary& nccl();
// "NCCL 2.27.3", or why there is none.
std::string describe_nccl();
// What NCCL calls a type that it adds up.
std::optional<int> nccl_type(Dtype dtype);
// Throws CommError with NCCL's own words where `result` is neither done nor in progress.
void check_nccl(int result, const char* function);

}  // namespace mstrain::cuda
