#include "core/backends/cuda/group_layout.h"

#include <algorithm>
#include <bit>

#include "core/backends/cuda/text.h"

namespace mstrain::cuda {
namespace {

using Kind = Term::Kind;

constexpr int64_t kThreadsOfElements = 256;
constexpr int64_t kMostWarps = 32;  // of a block
constexpr int64_t kMostBlocks = 65535;
// Each block leaves its sums to a second kernel: so many blocks for each that a processor has at a time.
constexpr int64_t kProcessors = 128;
constexpr int64_t kMostResident = 3;
constexpr int64_t kTotalBlocks = 1024;
constexpr int64_t kRegisters = 512;  // that the warps of a quarter of a processor share
// Bytes of registers for what a thread has of a row: packs as they were read, sums of columns, and what later passes need.
constexpr int64_t kKept = 192;
// Elements of a row that a thread has.
constexpr int64_t kMostElements = 32;
// Numbers of the teams of a block that are in shared memory together when their sums of columns are added up.
constexpr int64_t kShared = 6144;
// Bytes that a thread reads ahead.
constexpr int64_t kBytesAhead = 64;

// What a group reads and writes for each element, in bytes.
struct Traffic {
  int64_t read = 0;
  int64_t widest = 1;  // of one tensor
};

Traffic traffic_of(const GroupTerms& terms) {
  Traffic result;
  for (const Term& it : terms.terms) {
    if (it.needed && it.unit > 0) {
      const int64_t bytes = size_of(terms.inputs[static_cast<size_t>(it.input)].type.dtype);
      result.widest = std::max(result.widest, bytes);
      result.read += it.is_parameter ? 0 : bytes;
    }
  }
  for (const Sink& sink : terms.sinks) {
    if (sink.kind == Sink::Kind::kStore && terms.term(sink.term).kind == Kind::kFull) {
      const ViewType& output = terms.outputs[static_cast<size_t>(sink.output)];
      result.widest = std::max<int64_t>(result.widest, size_of(output.type.dtype));
    }
  }
  return result;
}

int64_t power_of_two(int64_t at_most) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(at_most, 1))));
}

int64_t read_ahead(const Traffic& traffic, int64_t pack, int64_t work) {
  const int64_t ahead = kBytesAhead / std::max<int64_t>(traffic.read * pack, 1);
  return power_of_two(std::min(std::clamp<int64_t>(ahead, 1, 4), work));
}

}  // namespace

GroupLayout layout_of(const GroupTerms& terms) {
  const auto [rows, n] = terms.extent;
  const int64_t columns = terms.count(Sink::Kind::kSumColumns);
  const int64_t totals = terms.count(Sink::Kind::kSumAll);
  const Traffic traffic = traffic_of(terms);
  GroupLayout it;
  // One row of which nothing is known before its elements is as if there were none.
  it.by_rows = terms.by_rows && (rows > 1 || terms.levels > 1 || columns > 0);
  const int64_t walked = it.by_rows ? n : rows * n;
  it.pack = traffic.widest <= 2 ? 8 : 4;
  while (walked % it.pack != 0) {
    it.pack /= 2;
  }
  const int64_t all = walked / it.pack;  // packs
  if (!it.by_rows) {
    it.threads = kThreadsOfElements;
    // Where there are few elements, more threads read what one would read ahead.
    it.ahead = read_ahead(traffic, it.pack, all / (it.threads * kProcessors));
    it.blocks =
        std::min(ceil_div(all, it.threads * it.ahead), totals > 0 ? kTotalBlocks : kMostBlocks);
    return it;
  }
  int64_t kept = columns;
  for (size_t i = 0; i < terms.terms.size(); ++i) {
    kept += terms.terms[i].needed && terms.keeps(static_cast<int>(i), it.pack) ? 1 : 0;
  }
  const bool waits = terms.levels > 1;  // for sums of rows
  const int64_t bytes = it.pack * (traffic.read + 4 * kept);
  const int64_t most =
      std::max<int64_t>(std::min(kMostElements / it.pack, kKept / std::max<int64_t>(bytes, 1)), 1);
  // Where nothing is waited for, a thread has two packs of a row rather than that a block has more than 256 threads.
  const int64_t own = waits ? most : all > kThreadsOfElements ? 2 : 1;
  const int64_t least = ceil_div(all, 32 * own);
  it.warps = std::min(least, kMostWarps);
  const auto lanes = [&](int64_t warps) { return ceil_div(all, warps * 32) * warps * 32; };
  for (int64_t warps = it.warps; warps <= std::min(2 * least, kThreadsOfElements / 32); ++warps) {
    it.warps = lanes(warps) < lanes(it.warps) ? warps : it.warps;  // of which fewer are idle
  }
  it.packs = ceil_div(all, it.team());
  it.teams = std::min(power_of_two(8 / it.warps),
                      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows))));
  if (columns > 0) {
    it.teams = std::min(it.teams, power_of_two(kShared / n));
  }
  it.threads = it.teams * it.team();
  it.ahead = waits ? 1
                   : read_ahead(traffic, it.pack * it.packs,
                                ceil_div(rows, it.teams * kProcessors * kMostResident));
  it.blocks = std::min(ceil_div(rows, it.rows()), kMostBlocks);
  if (columns + totals > 0) {
    // Registers of a thread, about: what it has of a row, the next one's packs, and all else.
    const int64_t registers =
        48 + it.pack * it.packs * (2 * it.ahead * traffic.read + 4 * kept) / 4;
    const auto fits = [&](int64_t blocks) {  // on the four parts of a processor
      return registers * ceil_div(blocks * it.threads / 32, 4) <= kRegisters;
    };
    it.resident = fits(3) ? 3 : fits(2) ? 2 : 1;
    it.blocks = std::min(it.blocks, it.resident * kProcessors);
  }
  return it;
}

}  // namespace mstrain::cuda
