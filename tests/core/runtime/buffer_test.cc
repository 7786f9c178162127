#include "core/runtime/buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/runtime/context.h"
#include "tests/amount.h"

namespace mstrain {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(Allocator, BlocksAreAlignedAndCountedAsTheyAreRounded) {
  Allocator allocator;
  for (const int64_t bytes : {int64_t{1}, int64_t{64}, int64_t{100}, 5 * kMiB + 1}) {
    void* data = allocator.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0U) << bytes;
    EXPECT_GE(Allocator::rounded(bytes), bytes);
    EXPECT_EQ(allocator.stats().live_bytes, Allocator::rounded(bytes));
    std::memset(data, 1, static_cast<size_t>(bytes));
    allocator.release(data, bytes);
    EXPECT_EQ(allocator.stats().live_bytes, 0);
  }
}

TEST(Allocator, AFreedBlockServesTheNextRequestOfItsSize) {
  Allocator allocator;
  void* first = allocator.allocate(1000);
  allocator.release(first, 1000);
  EXPECT_EQ(allocator.stats().cached_bytes, Allocator::rounded(1000));
  void* second = allocator.allocate(1001);  // rounds to the same size
  EXPECT_EQ(second, first);
  EXPECT_EQ(allocator.stats().cached_bytes, 0);
  allocator.release(second, 1001);
  EXPECT_EQ(allocator.stats().allocations, 2);
}

TEST(Allocator, KeepsNoMoreThanItsLimit) {
  Allocator allocator(3 * kMiB);
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) {
    blocks.push_back(allocator.allocate(kMiB));
  }
  for (void* block : blocks) {
    allocator.release(block, kMiB);
  }
  EXPECT_EQ(allocator.stats().cached_bytes, 3 * kMiB);
  EXPECT_EQ(allocator.stats().peak_bytes, 8 * kMiB);
  allocator.trim();
  EXPECT_EQ(allocator.stats().cached_bytes, 0);
}

TEST(Allocator, SaysHowMuchCouldNotBeHad) {
  if (kSanitized) {
    GTEST_SKIP() << "the address sanitizer ends a program that asks for so much";
  }
  Allocator allocator;
  constexpr int64_t kTooMuch = int64_t{1} << 60;
  EXPECT_THAT([&] { allocator.allocate(kTooMuch); },
              ThrowsMessage<Error>(HasSubstr("1152921504606846976 bytes")));
  EXPECT_EQ(allocator.stats().live_bytes, 0);
}

// The host's memory, but for so much of it at a time.
class SmallMemory : public Device {
 public:
  explicit SmallMemory(int64_t bytes) : left_(bytes) {}
  std::string name() const override { return "small"; }
  bool is_host() const override { return true; }
  void* allocate(int64_t bytes) override {
    check(bytes <= left_, "out of memory: {} bytes, and {} are left", bytes, left_);
    left_ -= bytes;
    return host_device()->allocate(bytes);
  }
  void release(void* data, int64_t bytes) override {
    left_ += bytes;
    host_device()->release(data, bytes);
  }
  Queue& queue(Use use) override { return host_device()->queue(use); }
  std::shared_ptr<Allocator> staging() override { return host_device()->staging(); }

 private:
  int64_t left_;
};

TEST(Allocator, GivesBackWhatItKeepsWhereNothingElseIsLeft) {
  Allocator allocator(Allocator::kCacheLimit, std::make_shared<SmallMemory>(3 * kMiB));
  allocator.release(allocator.allocate(kMiB), kMiB);
  void* const large = allocator.allocate(3 * kMiB);
  EXPECT_EQ(allocator.stats().cached_bytes, 0);
  EXPECT_THAT([&] { allocator.allocate(kMiB); },
              ThrowsMessage<Error>(HasSubstr("1048576 bytes, and 0 are left")));
  EXPECT_EQ(allocator.stats().live_bytes, 3 * kMiB);
  allocator.release(large, 3 * kMiB);
}

TEST(Allocator, ThreadsGetBlocksOfTheirOwn) {
  Allocator allocator;
  std::vector<std::thread> threads;
  std::vector<int> spoilt(4);
  for (size_t t = 0; t < spoilt.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 500; ++round) {
        auto* data = static_cast<unsigned char*>(allocator.allocate(256));
        std::memset(data, static_cast<int>(t), 256);
        for (int i = 0; i < 256; ++i) {
          spoilt[t] += data[i] != t;
        }
        allocator.release(data, 256);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(spoilt, std::vector<int>(4));
  EXPECT_EQ(allocator.stats().live_bytes, 0);
  EXPECT_EQ(allocator.stats().allocations, 2000);
}

TEST(Buffer, TheLastCopyGivesTheMemoryBack) {
  const auto allocator = std::make_shared<Allocator>();
  Buffer first = Buffer::allocate(allocator, 100);
  EXPECT_TRUE(first.unique());
  {
    const Buffer second = first;
    EXPECT_FALSE(first.unique());
    EXPECT_EQ(first, second);
  }
  EXPECT_TRUE(first.unique());
  EXPECT_GT(allocator->stats().live_bytes, 0);
  first = Buffer();
  EXPECT_FALSE(first);
  EXPECT_EQ(allocator->stats().live_bytes, 0);
}

TEST(Buffer, KeepsItsAllocatorAlive) {
  auto allocator = std::make_shared<Allocator>();
  const std::weak_ptr<Allocator> seen = allocator;
  Buffer buffer = Buffer::allocate(std::move(allocator), 100);
  EXPECT_FALSE(seen.expired());
  buffer = Buffer();
  EXPECT_TRUE(seen.expired());
}

TEST(Context, AScopeBindsItsThreadAlone) {
  Context outer, inner;
  outer.threads = 3;
  inner.threads = 5;
  const Context* before = &current_context();
  {
    const ContextScope outer_scope(outer);
    {
      const ContextScope inner_scope(inner);
      EXPECT_EQ(current_context().num_threads(), 5);
      const Context* elsewhere = nullptr;
      std::thread([&] { elsewhere = &current_context(); }).join();
      EXPECT_NE(elsewhere, &inner);
    }
    EXPECT_EQ(current_context().num_threads(), 3);
    const ContextScope own({.threads = 7});  // keeps what nobody else does
    EXPECT_EQ(current_context().num_threads(), 7);
  }
  EXPECT_EQ(&current_context(), before);
}

}  // namespace
}  // namespace mstrain
