#include "core/backends/cuda/nccl_library.h"

#include <fmt/format.h>

#include "core/backends/cuda/libraries.h"
#include "core/comm/communicator.h"

namespace mstrain::cuda {
namespace {

std::string text_of_version(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

NcclLibrary find_nccl() {
  NcclLibrary f{};
  try {
    const SharedLibrary library = nvidia_library("nccl", {"2"});
    library.find("ncclGetVersion", f.get_version);
    check(f.get_version(&f.version) == NcclLibrary::kDone, "ncclGetVersion fails");
    check(f.version >= NcclLibrary::kOldest, "NCCL {} is too old; {} or newer is needed",
          text_of_version(f.version), text_of_version(NcclLibrary::kOldest));
    library.find("ncclGetErrorString", f.error_string);
    library.find("ncclGetUniqueId", f.make_id);
    library.find("ncclCommInitRankConfig", f.connect);
    library.find("ncclCommGetAsyncError", f.state);
    library.find("ncclCommFinalize", f.finalize);
    library.find("ncclCommDestroy", f.destroy);
    library.find("ncclCommAbort", f.abort);
    library.find("ncclGroupStart", f.group_start);
    library.find("ncclGroupEnd", f.group_end);
    library.find("ncclAllReduce", f.all_reduce);
    library.find("ncclReduceScatter", f.reduce_scatter);
    library.find("ncclAllGather", f.all_gather);
    library.find("ncclSend", f.send);
    library.find("ncclRecv", f.receive);
  } catch (const Error& error) {
    f.missing = error.what();
  }
  return f;
}

}  // namespace

const NcclLibrary& nccl() {
  static const NcclLibrary it = find_nccl();
  return it;
}

std::string describe_nccl() {
  return nccl().missing.empty() ? "NCCL " + text_of_version(nccl().version)
                                : "no NCCL: " + nccl().missing;
}

std::optional<int> nccl_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::kI8: return 0;
    case Dtype::kU8: return 1;
    case Dtype::kI32: return 2;
    case Dtype::kU32: return 3;
    case Dtype::kI64: return 4;
    case Dtype::kF16: return 6;
    case Dtype::kF32: return 7;
    case Dtype::kF64: return 8;
    case Dtype::kBF16: return 9;
    case Dtype::kU16:
    case Dtype::kBool: break;
  }
  return std::nullopt;
}

void check_nccl(int result, const char* function) {
  if (result != NcclLibrary::kDone && result != NcclLibrary::kInProgress) {
    throw CommError(fmt::format("{} says {} ({})", function, nccl().error_string(result), result));
  }
}

}  // namespace mstrain::cuda
