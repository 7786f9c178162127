#include "core/comm/mpi_operations.h"

#include <algorithm>
#include <numeric>

#include "core/comm/sums.h"

namespace mstrain {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;  // of a message: MPI counts in int
constexpr size_t kUnderWay = 8;                   // messages, in each direction
constexpr int64_t kBlockBytes = int64_t{512} << 10;
constexpr int64_t kLandingBytes = int64_t{16} << 20;
// What travels without being asked for first, as by Open MPI on one machine with the message's own words: what is little more goes
// faster in two.
constexpr int64_t kUnaskedBytes = 4032;
bool is_little_more(int64_t bytes) { return bytes > kUnaskedBytes && bytes <= 2 * kUnaskedBytes; }

// The ranks in the order in which this one begins with them: those after it, or before it.
std::vector<MpiTransfer> in_turn(const MpiGroup& group, std::span<const MpiTransfer> transfers,
                                 bool sends, bool is_point,
                                 std::vector<NearMemory::Message>& near) {
  const int step = sends ? 1 : -1;
  std::vector<MpiTransfer> out;
  out.reserve(transfers.size());
  const auto size = static_cast<int>(transfers.size());
  for (int i = 1; i < size; ++i) {
    const MpiTransfer& whole =
        transfers[static_cast<size_t>((group.rank + i * step + size * i) % size)];
    if (group.near != nullptr && whole.bytes > 0 && whole.bytes <= NearMemory::kMostSent) {
      near.push_back({whole.peer, whole.data, whole.bytes, sends, is_point});
      continue;
    }
    const int64_t most = is_little_more(whole.bytes) ? kUnaskedBytes : kMostBytes;
    for (int64_t at = 0; at < whole.bytes; at += most) {
      out.push_back({whole.peer, whole.data + at, std::min(most, whole.bytes - at)});
    }
  }
  return out;
}

MPI_Datatype mpi_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64: return MPI_DOUBLE;
    case Dtype::kF32: return MPI_FLOAT;
    case Dtype::kI64: return MPI_INT64_T;
    case Dtype::kI32: return MPI_INT32_T;
    case Dtype::kI8: return MPI_INT8_T;
    case Dtype::kU32: return MPI_UINT32_T;
    case Dtype::kU16: return MPI_UINT16_T;
    case Dtype::kU8: return MPI_UINT8_T;
    case Dtype::kBF16:
    case Dtype::kF16:
    case Dtype::kBool: return MPI_DATATYPE_NULL;
  }
  __builtin_unreachable();
}

}  // namespace

MpiExchange::MpiExchange(MpiEngine& engine, std::shared_ptr<MpiGroup> group, std::string what,
                         std::span<const MpiTransfer> sends, std::span<const MpiTransfer> receives,
                         Kind kind)
    : MpiOperation(engine, std::move(group), std::move(what), kind),
      sends_(in_turn(*group_, sends, /*sends=*/true, is_point(), near_)),
      receives_(in_turn(*group_, receives, /*sends=*/false, is_point(), near_)) {}

void MpiExchange::begin() {
  for (NearMemory::Message& message : near_) {
    group_->near->begin(message);
  }
  if (!near_.empty()) {
    look_on();
    look();
  }
  // All parts of a point at once: those of the next one would overtake what begins later.
  const size_t first = is_point() ? sends_.size() + receives_.size() : kUnderWay;
  // Receives of what is there already copy it, for which the peer is not to wait.
  for (size_t i = 0; i < first; ++i) {
    send_next();
  }
  for (size_t i = 0; i < first; ++i) {
    receive_next();
  }
}

bool MpiExchange::look() {
  const auto moved = std::erase_if(
      near_, [&](const NearMemory::Message& message) { return group_->near->move_on(message); });
  if (moved > 0 && near_.empty()) {
    look_no_more();
  }
  return moved > 0;
}

void MpiExchange::await(std::set<int>& ranks) const {
  for (const NearMemory::Message& message : near_) {
    ranks.insert(message.peer);
  }
}

void MpiExchange::advance(int token) { token == kSent ? send_next() : receive_next(); }

void MpiExchange::send_next() {
  if (sent_ < sends_.size()) {
    const MpiTransfer& next = sends_[sent_++];
    send(next.data, next.bytes, next.peer, tag(0), kSent);
  }
}

void MpiExchange::receive_next() {
  if (received_ < receives_.size()) {
    const MpiTransfer& next = receives_[received_++];
    receive(next.data, next.bytes, next.peer, tag(0), kReceived);
  }
}

MpiReduce::MpiReduce(MpiEngine& engine, std::shared_ptr<MpiGroup> group, std::string what,
                     Elements in, Elements out, std::vector<int64_t> counts, Reduction reduction,
                     bool gathers)
    : MpiOperation(engine, std::move(group), std::move(what)),
      in_(in),
      out_(out),
      counts_(std::move(counts)),
      starts_(counts_.size()),
      reduction_(reduction),
      gathers_(gathers),
      lanes_(counts_.size()) {
  std::exclusive_scan(counts_.begin(), counts_.end(), starts_.begin(), int64_t{0});
}

MpiReduce::MpiReduce(MpiEngine& engine, std::shared_ptr<MpiGroup> group, std::string what,
                     Elements in, Elements out, Reduction reduction)
    : MpiOperation(engine, std::move(group), std::move(what)),
      in_(in),
      out_(out),
      counts_(static_cast<size_t>(group_->size()), in.count),
      starts_(counts_.size()),
      reduction_(reduction),
      gathers_(false),
      lanes_(counts_.size()) {
  if (in.data == out.data) {
    const auto* const data = static_cast<const std::byte*>(in.data);
    sent_.assign(data, data + in.bytes());
    in_.data = sent_.data();
  }
}

void MpiReduce::make_landing() {
  const int64_t others = group_->size() - 1;
  const int64_t whole = *std::max_element(counts_.begin(), counts_.end()) * size_of(in_.dtype);
  const int64_t bytes = is_little_more(whole)
                            ? kUnaskedBytes
                            : std::clamp(kLandingBytes / (2 * others), kUnaskedBytes, kBlockBytes);
  block_ = bytes / 64 * 64 / size_of(in_.dtype);
  const int64_t most = std::min(block_, counts_[static_cast<size_t>(group_->rank)]);
  landing_ = engine_.borrow(2 * others * most * size_of(in_.dtype));
}

int64_t MpiReduce::blocks(int rank) const {
  return (counts_[static_cast<size_t>(rank)] + block_ - 1) / block_;
}

int64_t MpiReduce::elements(int rank, int64_t block) const {
  return std::min(block_, counts_[static_cast<size_t>(rank)] - block * block_);
}

int64_t MpiReduce::offset(int rank, int64_t block) const {
  return starts_[static_cast<size_t>(rank)] + block * block_;
}

std::byte* MpiReduce::landing(int peer, int64_t block) {
  const int me = group_->rank;
  const int64_t others = group_->size() - 1;
  const int64_t place = (block % 2) * others + (peer < me ? peer : peer - 1);
  const int64_t most = std::min(block_, counts_[static_cast<size_t>(me)]);
  return landing_.data() + place * most * size_of(in_.dtype);
}

int MpiReduce::token(Step step, int peer, int64_t block) {
  return peer * 8 + step * 2 + static_cast<int>(block % 2);
}

void MpiReduce::begin() {
  make_landing();
  for (int64_t block = 0; block < 2; ++block) {
    for (int i = 1; i < group_->size(); ++i) {
      send_block((group_->rank + i) % group_->size());
    }
  }
  receive_block(0);
  receive_block(1);
}

void MpiReduce::send_block(int peer) {
  Lane& lane = lanes_[static_cast<size_t>(peer)];
  if (lane.posted < blocks(peer)) {
    const int64_t block = lane.posted++;
    send(element(in_, offset(peer, block)), elements(peer, block) * size_of(in_.dtype), peer,
         tag(0), token(kSend, peer, block));
  }
}

void MpiReduce::receive_block(int64_t block) {
  const int me = group_->rank;
  if (block >= blocks(me)) {
    return;
  }
  missing_[block % 2] = group_->size() - 1;
  for (int i = 1; i < group_->size(); ++i) {
    const int peer = (me + group_->size() - i) % group_->size();
    receive(landing(peer, block), elements(me, block) * size_of(in_.dtype), peer, tag(0),
            token(kReceive, peer, block));
  }
}

void MpiReduce::advance(int token) {
  const auto step = static_cast<Step>(token / 2 % 4);
  const int peer = token / 8;
  const int parity = token % 2;
  if (step == kReceive) {
    --missing_[parity];
    while (summed_ < blocks(group_->rank) && missing_[summed_ % 2] == 0) {
      add_up(summed_++);
      receive_block(summed_ + 1);
    }
    if (summed_ == blocks(group_->rank)) {
      engine_.give_back(std::move(landing_));
    }
  } else if (step == kSend) {
    Lane& lane = lanes_[static_cast<size_t>(peer)];
    lane.complete[parity] = true;
    while (std::exchange(lane.complete[lane.sent % 2], false)) {
      const int64_t block = lane.sent++;
      if (gathers_) {  // over what was sent, where `out` is `in`
        receive(element(out_, offset(peer, block)), elements(peer, block) * size_of(in_.dtype),
                peer, tag(1), MpiReduce::token(kReceiveSum, peer, block));
      }
      send_block(peer);
    }
  }
}

void MpiReduce::add_up(int64_t block) {
  const int me = group_->rank;
  std::vector<const void*> pieces;
  pieces.reserve(counts_.size());
  for (int rank = 0; rank < group_->size(); ++rank) {
    pieces.push_back(rank == me ? element(in_, offset(me, block)) : landing(rank, block));
  }
  Elements sum = out_;
  sum.data = element(out_, gathers_ ? offset(me, block) : block * block_);
  sum.count = elements(me, block);
  reduce_in_order(reduction_, in_.dtype, pieces, /*initial=*/{}, sum);
  if (gathers_) {
    for (int i = 1; i < group_->size(); ++i) {
      const int peer = (me + i) % group_->size();
      send(sum.data, sum.bytes(), peer, tag(1), token(kSendSum, peer, block));
    }
  }
}

MpiBroadcast::MpiBroadcast(MpiEngine& engine, std::shared_ptr<MpiGroup> group, std::string what,
                           Elements inout, int root)
    : MpiOperation(engine, std::move(group), std::move(what)),
      inout_(inout),
      block_(group_->size() == 2 ? kMostBytes : kBlockBytes),  // nobody sends it on
      blocks_((inout.bytes() + block_ - 1) / block_) {
  const int size = group_->size();
  const int place =
      (group_->rank - root + size) % size;  // 0: the root; its parent lacks its lowest bit
  int bit = 1;
  for (; place + bit < size && (place & bit) == 0; bit *= 2) {
    children_.push_back((place + bit + root) % size);
  }
  std::reverse(children_.begin(), children_.end());  // the one with most ranks below it first
  if (place > 0) {
    parent_ = ((place & (place - 1)) + root) % size;
  }
  sent_.resize(children_.size());
  here_.assign(static_cast<size_t>(blocks_), parent_ < 0);
}

void MpiBroadcast::begin() {
  for (size_t i = 0; i < kUnderWay; ++i) {
    receive_next();
    for (size_t child = 0; parent_ < 0 && child < children_.size(); ++child) {
      send_next(child);
    }
  }
}

// Tokens: blocks that came, then, below zero, the children to which one has gone.
void MpiBroadcast::advance(int token) {
  if (token < 0) {
    send_next(static_cast<size_t>(-1 - token));
    return;
  }
  here_[static_cast<size_t>(token)] = true;
  receive_next();
  for (size_t child = 0; child < children_.size(); ++child) {
    send_next(child);
  }
}

int64_t MpiBroadcast::bytes(int64_t block) const {
  return std::min(block_, inout_.bytes() - block * block_);
}

void MpiBroadcast::receive_next() {
  if (parent_ >= 0 && received_ < blocks_) {
    const int64_t block = received_++;
    receive(static_cast<std::byte*>(inout_.data) + block * block_, bytes(block), parent_, tag(0),
            static_cast<int>(block));
  }
}

void MpiBroadcast::send_next(size_t child) {
  if (sent_[child] < blocks_ && here_[static_cast<size_t>(sent_[child])]) {
    const int64_t block = sent_[child]++;
    send(static_cast<std::byte*>(inout_.data) + block * block_, bytes(block), children_[child],
         tag(0), -1 - static_cast<int>(child));
  }
}

void MpiBarrier::begin() { begin_round(); }

void MpiBarrier::advance(int) {
  if (--missing_ == 0) {
    distance_ *= 2;
    begin_round();
  }
}

void MpiBarrier::begin_round() {
  const int size = group_->size();
  if (distance_ < size) {
    missing_ = 2;
    receive(nullptr, 0, (group_->rank + size - distance_) % size, tag(0), 0);
    send(nullptr, 0, (group_->rank + distance_) % size, tag(0), 0);
  }
}

bool MpiFastSum::has(Dtype dtype) { return mpi_type(dtype) != MPI_DATATYPE_NULL; }

MpiFastSum::MpiFastSum(MpiEngine& engine, std::shared_ptr<MpiGroup> group, std::string what,
                       Elements in, Elements out)
    : MpiOperation(engine, std::move(group), std::move(what)), in_(in), out_(out) {}

void MpiFastSum::begin() {
  for (int64_t done = 0; done < in_.count; done += kMostBytes) {
    const auto count = static_cast<int>(std::min(kMostBytes, in_.count - done));
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallreduce(in_.data == out_.data ? MPI_IN_PLACE : element(in_, done),
                             element(out_, done), count, mpi_type(in_.dtype), MPI_SUM, group_->comm,
                             &request),
              "MPI_Iallreduce");
    collective(request, 0);
  }
}

}  // namespace mstrain
