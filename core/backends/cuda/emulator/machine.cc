#include "core/backends/cuda/emulator/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "core/backends/cuda/emulator/fiber.h"
#include "core/base/error.h"

namespace mstrain::cuda::emulator {
namespace {

constexpr int kWarp = 32;
constexpr size_t kSharedAlignment = 1024;  // where swizzles repeat; addresses begin there, not at 0

// Who touched a byte last: threads are counted over the whole launch, from 1. Epochs are spans between barriers.
struct Touch {
  static constexpr uint32_t kSeveral = ~0U;

  uint32_t writer = 0, write_epoch = 0;
  uint32_t reader = 0, read_epoch = 0;  // kSeveral: of one block
  uint32_t reader_block = 0;            // from 1; kSeveral
  uint32_t write_time = 0;
};

struct Tracked {
  Region region;
  std::vector<Touch> bytes;
  bool shared = false;
};

struct Copy {
  void (*run)(const void* what) = nullptr;
  std::vector<std::byte> what;
};

// Of a block.
struct Thread {
  enum class State : uint8_t { kReady, kAtBarrier, kAtPhase, kAtShuffle, kDone };

  State state = State::kReady;
  int line = 0;            // where it waits
  uint64_t value = 0;      // that others read, or the barrier that it waits for
  uint32_t show_time = 0;  // when it last showed shared memory to the units that multiply
  std::vector<std::vector<Copy>> groups{1};  // of copies on their way; the last one is not ended
};

// Stacks of a block's threads, for one launch after another.
Fiber& fiber(size_t thread) {
  thread_local std::vector<std::unique_ptr<Fiber>> all;
  while (all.size() <= thread) {
    all.push_back(std::make_unique<Fiber>());
  }
  return *all[thread];
}

// Of an mbarrier.
struct Phases {
  int count = 0, pending = 0;
  unsigned parity = 0;
};

class Machine final : public Hardware {
 public:
  Machine(const Launch& launch, std::span<const Region> regions,
          const std::function<void()>& kernel)
      : launch_(launch), work_([this, &kernel] {
          kernel();
          threads_[here.thread.x].state = Thread::State::kDone;
        }) {
    for (const Region& region : regions) {
      tracked_.push_back({region, std::vector<Touch>(region.bytes)});
    }
    here.threads.x = launch.threads;
    here.blocks = {launch.blocks, launch.rows};
  }

  void run() {
    for (unsigned block = 0; block < launch_.blocks * launch_.rows; ++block) {
      here.block = {block % launch_.blocks, block / launch_.blocks};
      run_block();
    }
  }

  void access(const void* at, size_t bytes, bool writes) override {
    access(at, bytes, writes, false);
  }
  void multiplier_reads(const void* at, size_t bytes) override { access(at, bytes, false, true); }
  void show_to_multipliers() override { threads_[here.thread.x].show_time = ++time_; }

  void access(const void* at, size_t bytes, bool writes, bool by_multiplier) {
    if (!launch_.checked) {
      return;
    }
    ++time_;
    const auto* const byte = static_cast<const std::byte*>(at);
    for (Tracked& tracked : tracked_) {
      const auto* const begin = static_cast<const std::byte*>(tracked.region.data);
      if (byte < begin || byte + bytes > begin + tracked.region.bytes) {
        continue;
      }
      if (writes && !tracked.region.writable) {
        fail(fmt::format("writes to {}, which is read alone", tracked.region.name));
      }
      const auto first = static_cast<size_t>(byte - begin);
      for (size_t i = first; i < first + bytes; ++i) {
        touch(tracked, i, writes, by_multiplier);
      }
      return;
    }
    fail(outside(byte, bytes, writes));
  }

  void barrier(int line) override { wait(Thread::State::kAtBarrier, line); }

  uint64_t exchange(uint64_t value, int mask, int line) override {
    const unsigned mine = here.thread.x;
    threads_[mine].value = value;
    wait(Thread::State::kAtShuffle, line);
    const uint64_t result = threads_[mine ^ static_cast<unsigned>(mask)].value;
    wait(Thread::State::kAtShuffle, line);  // before anybody gives the next one
    return result;
  }

  void gather(const void* value, void* all, size_t bytes, int line) override {
    const unsigned mine = here.thread.x;
    threads_[mine].value = reinterpret_cast<uintptr_t>(value);  // which stays until all have read
    wait(Thread::State::kAtShuffle, line);
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      const auto from = threads_[mine / kWarp * kWarp + lane].value;
      std::memcpy(static_cast<std::byte*>(all) + lane * bytes, reinterpret_cast<const void*>(from),
                  bytes);
    }
    wait(Thread::State::kAtShuffle, line);
  }

  void* shared(const void* declaration, size_t bytes) override {
    std::vector<std::byte>& memory = shared_[declaration];
    if (memory.empty()) {
      memory.resize(bytes);
      track_shared(memory.data(), bytes);
    }
    return memory.data();
  }

  void* shared_block(size_t bytes) override {
    if (bytes > launch_.shared_bytes) {
      fail(fmt::format("needs {} bytes of shared memory, and the launch gives it {}", bytes,
                       launch_.shared_bytes));
    }
    if (asked_.empty()) {
      asked_.resize(launch_.shared_bytes + kSharedAlignment, std::byte{0xff});
      track_shared(asked_begin(), launch_.shared_bytes);
    }
    return asked_begin();
  }
  uint32_t shared_address(const void* at) override {
    return static_cast<uint32_t>(static_cast<const std::byte*>(at) - asked_begin()) +
           kSharedAlignment;
  }
  const std::byte* at_shared_address(uint32_t address, size_t bytes) override {
    if (address < kSharedAlignment || address + bytes > launch_.shared_bytes + kSharedAlignment) {
      fail(fmt::format("multiplies {} bytes at address {} of {} of shared memory", bytes,
                       address - kSharedAlignment, launch_.shared_bytes));
    }
    return asked_begin() + (address - kSharedAlignment);
  }

  void init_phases(uint32_t barrier, int count) override {
    phases_[barrier] = {.count = count, .pending = count};
  }
  void arrive(uint32_t barrier) override {
    Phases& phases = known(barrier);
    if (--phases.pending == 0) {
      phases.pending = phases.count;
      phases.parity ^= 1U;
      release_waiting(barrier);
      if (is_backward()) {
        wait(Thread::State::kReady, 0);  // who waited goes on before this thread does more
      }
    }
  }
  void wait_for_phase(uint32_t barrier, unsigned parity, int line) override {
    while (known(barrier).parity == parity) {
      threads_[here.thread.x].value = barrier;
      wait(Thread::State::kAtPhase, line);
    }
  }
  void begin_copy(void (*copy)(const void* what), const void* what, size_t bytes) override {
    const auto* const begin = static_cast<const std::byte*>(what);
    threads_[here.thread.x].groups.back().push_back({copy, {begin, begin + bytes}});
  }
  void end_group() override { threads_[here.thread.x].groups.emplace_back(); }
  void finish_copies(int left) override {
    auto& groups = threads_[here.thread.x].groups;
    for (; groups.size() > static_cast<size_t>(left) + 1; groups.erase(groups.begin())) {
      for (const Copy& copy : groups.front()) {
        copy.run(copy.what.data());
      }
    }
  }
  void mistake(const char* what) override { fail(what); }

 private:
  std::byte* asked_begin() {
    const auto at = reinterpret_cast<uintptr_t>(asked_.data());
    return asked_.data() + (kSharedAlignment - at % kSharedAlignment) % kSharedAlignment;
  }
  void track_shared(const void* data, size_t bytes) {
    tracked_.push_back({{"shared memory", data, bytes, true}, std::vector<Touch>(bytes), true});
  }
  Phases& known(uint32_t barrier) {
    const auto it = phases_.find(barrier);
    if (it == phases_.end()) {
      fail("uses a barrier in shared memory that nobody has initialised");
    }
    return it->second;
  }
  // What happened before a phase ended is taken to be known to all.
  void release_waiting(uint64_t barrier) {
    ++epoch_;
    for (Thread& thread : threads_) {
      if (thread.state == Thread::State::kAtPhase && thread.value == barrier) {
        thread.state = Thread::State::kReady;
      }
    }
  }

  // Every other block runs from its last thread on.
  bool is_backward() const { return here.block.x % 2 == 1; }

  void run_block() {
    ++epoch_;
    static uint64_t blocks = 0;
    block_number = ++blocks;
    shared_.clear();
    asked_.clear();
    phases_.clear();
    std::erase_if(tracked_, [](const Tracked& tracked) { return tracked.shared; });
    threads_.assign(launch_.threads, {});
    for (unsigned t = 0; t < launch_.threads; ++t) {
      fiber(t).begin(work_);
    }
    while (!is_done()) {
      bool any = false;
      for (unsigned i = 0; i < launch_.threads; ++i) {
        const unsigned t = is_backward() ? launch_.threads - 1 - i : i;
        if (threads_[t].state == Thread::State::kReady) {
          here.thread.x = t;
          fiber(t).enter();
          any = true;
          if (!error_.empty()) {
            throw Error(error_);
          }
        }
      }
      any = release_shuffles() || any;
      any = release_barrier() || any;
      if (!any) {
        throw Error(stuck());
      }
    }
  }

  bool is_done() const {
    return std::ranges::all_of(
        threads_, [](const Thread& thread) { return thread.state == Thread::State::kDone; });
  }

  bool are_all_at(unsigned begin, unsigned end, Thread::State state) const {
    return std::all_of(threads_.begin() + begin, threads_.begin() + end, [&](const Thread& thread) {
      return thread.state == state && thread.line == threads_[begin].line;
    });
  }
  void release(unsigned begin, unsigned end) {
    for (unsigned t = begin; t < end; ++t) {
      threads_[t].state = Thread::State::kReady;
    }
  }
  bool release_shuffles() {
    bool any = false;
    for (unsigned begin = 0; begin < launch_.threads; begin += kWarp) {
      if (are_all_at(begin, begin + kWarp, Thread::State::kAtShuffle)) {
        release(begin, begin + kWarp);
        any = true;
      }
    }
    return any;
  }
  bool release_barrier() {
    if (!are_all_at(0, launch_.threads, Thread::State::kAtBarrier)) {
      return false;
    }
    ++epoch_;
    release(0, launch_.threads);
    return true;
  }

  unsigned own_block() const { return here.block.y * launch_.blocks + here.block.x; }

  void wait(Thread::State state, int line) {
    const unsigned mine = here.thread.x;
    threads_[mine].state = state;
    threads_[mine].line = line;
    fiber(mine).leave();
  }

  // Leaves the thread for good: nothing on its stack is destroyed, so that `what` is emptied.
  void fail(std::string&& what) {
    {
      const std::string said = std::move(what);
      error_ = fmt::format("{}: thread {} of block {} {}", launch_.name, here.thread.x, own_block(),
                           said);
    }
    wait(Thread::State::kDone, 0);
  }

  void touch(Tracked& tracked, size_t i, bool writes, bool by_multiplier) {
    Touch& touch = tracked.bytes[i];
    const uint32_t my_block = own_block() + 1;
    const uint32_t me = own_block() * launch_.threads + here.thread.x + 1;
    const auto block_of = [&](uint32_t thread) { return (thread - 1) / launch_.threads + 1; };
    const auto meets = [&](uint32_t block, uint32_t epoch) {
      return block != my_block || epoch == epoch_;
    };
    if (tracked.shared && !writes && touch.writer == 0) {
      fail("reads shared memory that nobody has written");
    }
    if (by_multiplier && touch.write_time > threads_[here.thread.x].show_time &&
        touch.write_time > threads_[(touch.writer - 1) % launch_.threads].show_time) {
      fail(fmt::format("multiplies byte {} of shared memory, which was not shown to products", i));
    }
    if (touch.writer != 0 && touch.writer != me &&
        meets(block_of(touch.writer), touch.write_epoch)) {
      fail(fmt::format(
          "{} byte {} of {}, which thread {} of block {} writes without a barrier between",
          writes ? "writes" : "reads", i, tracked.region.name, (touch.writer - 1) % launch_.threads,
          block_of(touch.writer) - 1));
    }
    if (writes) {
      if (touch.reader != 0 && touch.reader != me &&
          (touch.reader_block != my_block || touch.read_epoch == epoch_)) {
        fail(fmt::format(
            "writes byte {} of {}, which another thread reads without a barrier between", i,
            tracked.region.name));
      }
      touch.writer = me;
      touch.write_epoch = epoch_;
      touch.write_time = time_;
      return;
    }
    const bool joins = touch.reader != 0 && touch.reader != me && touch.reader_block == my_block &&
                       touch.read_epoch == epoch_;
    touch.reader = joins ? Touch::kSeveral : me;
    touch.reader_block =
        touch.reader_block == 0 || touch.reader_block == my_block ? my_block : Touch::kSeveral;
    touch.read_epoch = epoch_;
  }

  // The nearest region says what was meant.
  std::string outside(const std::byte* at, size_t bytes, bool writes) const {
    std::string result =
        fmt::format("{} {} bytes outside all memory", writes ? "writes" : "reads", bytes);
    int64_t nearest = INT64_MAX;
    for (const Tracked& tracked : tracked_) {
      const auto* const begin = static_cast<const std::byte*>(tracked.region.data);
      const int64_t before = begin - at;
      const int64_t after = at - (begin + tracked.region.bytes);
      const int64_t distance = std::max(before, after);
      if (distance < nearest) {
        nearest = distance;
        result = fmt::format(
            "{} {} bytes {} {} {}", writes ? "writes" : "reads", bytes, before > 0 ? before : after,
            before > 0 ? "before the start of" : "past the end of", tracked.region.name);
      }
    }
    return result;
  }

  std::string stuck() const {
    const auto waits = std::ranges::find_if(
        threads_, [](const Thread& thread) { return thread.state != Thread::State::kDone; });
    const bool barrier = waits->state != Thread::State::kAtShuffle;
    return fmt::format(
        "{}: thread {} of block {} waits in line {} at a {} that others of its {} do not reach",
        launch_.name, waits - threads_.begin(), here.block.x, waits->line,
        barrier ? "barrier" : "shuffle", barrier ? "block" : "warp");
  }

  const Launch& launch_;
  const std::function<void()> work_;  // of a thread
  std::vector<Thread> threads_;
  std::vector<Tracked> tracked_;
  std::map<const void*, std::vector<std::byte>> shared_;  // by declaration, of the block
  std::vector<std::byte>
      asked_;  // the block's shared memory beside declarations, and room to align it
  std::map<uint32_t, Phases> phases_;
  uint32_t epoch_ = 0;
  uint32_t time_ = 0;  // counts accesses
  std::string error_;
};

}  // namespace

void run(const Launch& launch, std::span<const Region> regions, void (*run_on)(Hardware*),
         const std::function<void()>& kernel) {
  if (launch.threads == 0 || launch.threads % kWarp != 0 || launch.threads > 1024) {
    throw Error(
        fmt::format("{}: a block of {} threads; whole warps of {}, at most 1024, were expected",
                    launch.name, launch.threads, kWarp));
  }
  Machine machine(launch, regions, kernel);
  run_on(&machine);
  machine.run();
  run_on(nullptr);
}

}  // namespace mstrain::cuda::emulator
