// Queues, events and buffers on the device that runs late: what it promises, and that it finds what it is for.
#include "core/runtime/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/runtime/buffer.h"
#include "core/runtime/deferred_device.h"

namespace mstrain {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr uint64_t kSeeds = 20;  // each of two orders comes, but for one seed in a million

std::shared_ptr<Allocator> memory_of(uint64_t seed, int ahead = 0) {
  return std::make_shared<Allocator>(Allocator::kCacheLimit,
                                     make_deferred_device({.seed = seed, .ahead = ahead}));
}

int read_int(const Buffer& buffer) {
  int value = 0;
  buffer.read(0, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

int* opened(const Buffer& buffer) {
  return static_cast<int*>(buffer.device().kernel_address(buffer.data()));
}

// f() on a queue of kernels, which writes `to` of what it reads of `from`.
template <class F>
Event compute(const std::vector<Buffer>& from, const Buffer& to, F f) {
  Submission work(to.device());
  for (const Buffer& buffer : from) {
    work.reads(buffer);
  }
  work.writes(to);
  work.queue().submit(f);
  return work.finish();
}

TEST(HostDevice, WorkHasEndedWhenItIsGiven) {
  Queue& queue = host_device()->queue(Device::Use::kKernels);
  bool ran = false;
  queue.submit([&] { ran = true; });
  EXPECT_TRUE(ran);
  EXPECT_TRUE(queue.record().done());
  EXPECT_FALSE(queue.calls_later());
}

// A device that fails while it is given work says so to everything from then on.
class FailedDevice : public Device {
 public:
  std::string name() const override { return "failed"; }
  void* allocate(int64_t) override { fail("it has failed"); }
  void release(void*, int64_t) override {}
  Queue& queue(Use) override { return queue_; }
  std::shared_ptr<Allocator> staging() override { return host_device()->staging(); }

 private:
  struct FailedQueue : Queue {
    void submit(std::function<void()>) override { fail("it has failed"); }
    void wait(const Event&, bool) override { fail("it has failed"); }
    Event record() override { fail("it has failed"); }
    void copy(void*, const void*, int64_t, std::shared_ptr<const void>) override {}
  };
  FailedQueue queue_;
};

TEST(Submission, ToADeviceThatFailsIsAnError) {
  FailedDevice device;
  const auto give = [&] {
    Submission work(device);
    work.queue().submit([] {});
    work.finish();
  };
  EXPECT_THAT(give, ThrowsMessage<Error>(HasSubstr("it has failed")));
  EXPECT_THAT(give, ThrowsMessage<Error>(HasSubstr("it has failed"))) << "its lock is free";
}

TEST(DeferredDevice, NothingRunsBeforeSomebodyWaits) {
  const auto memory = memory_of(1);
  const Buffer x = Buffer::allocate(memory, 4);
  std::atomic<int> runs = 0;
  const Event first = compute({}, x, [&] { ++runs; });
  const Event second = compute({x}, x, [&] { ++runs; });
  std::this_thread::yield();
  EXPECT_EQ(runs, 0);
  first.wait();
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(second.done());
  second.wait();
  EXPECT_EQ(runs, 2);
}

TEST(DeferredDevice, WorkOfOneQueueKeepsItsOrder) {
  const auto device = make_deferred_device({.ahead = 3});
  Queue& queue = device->queue(Device::Use::kCopies);
  std::vector<int> order;
  for (int i = 0; i < 2000; ++i) {  // more than may wait
    queue.submit([&order, i] { order.push_back(i); });
  }
  queue.record().wait();
  ASSERT_EQ(order.size(), 2000U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(DeferredDevice, ReadsSeeTheLastWriteInWhateverOrderQueuesRun) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto memory = memory_of(seed, seed % 4);
    const Buffer x = Buffer::allocate(memory, 4);
    const Buffer y = Buffer::allocate(memory, 4);
    compute({}, x, [to = opened(x)] { *to = 1; });
    compute({x}, y, [from = opened(x), to = opened(y)] { *to = *from + 1; });
    compute({}, x, [to = opened(x)] { *to = 10; });  // after it was read
    compute({x, y}, y, [from = opened(x), to = opened(y)] { *to += *from; });
    EXPECT_EQ(read_int(y), 12) << "seed " << seed;
    EXPECT_EQ(read_int(x), 10) << "seed " << seed;
  }
}

TEST(DeferredDevice, AMissingWaitIsFound) {
  std::vector<int> seen;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto memory = memory_of(seed);
    const Buffer x = Buffer::allocate(memory, 4);
    const Buffer y = Buffer::allocate(memory, 4);
    compute({}, x, [to = opened(x)] { *to = 1; }).wait();
    compute({}, x, [to = opened(x)] { *to = 2; });
    // Reads x without saying so.
    compute({}, y, [from = opened(x), to = opened(y)] { *to = *from; });
    seen.push_back(read_int(y));
  }
  EXPECT_THAT(seen, Contains(1)) << "what was there before";
  EXPECT_THAT(seen, Contains(2)) << "a wait that the order of the queues happened to make up for";
}

TEST(DeferredDevice, OneSeedIsOneOrder) {
  const auto order_of = [](uint64_t seed) {
    const auto device = make_deferred_device({.seed = seed, .ahead = 0});
    std::vector<int> order;
    std::vector<Event> ends;
    for (int i = 0; i < 30; ++i) {
      Submission work(*device);
      work.queue().submit([&order, i] { order.push_back(i); });
      ends.push_back(work.finish());
    }
    for (const Event& end : ends) {
      end.wait();
    }
    return order;
  };
  EXPECT_EQ(order_of(3), order_of(3));
  EXPECT_NE(order_of(3), order_of(4));
}

TEST(DeferredDeviceDeathTest, AReadOfTheHostIsFound) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto touch = [](bool write) {
    const Buffer x = Buffer::allocate(memory_of(1), 4);
    auto* const at = reinterpret_cast<volatile int*>(x.data());
    if (write) {
      *at = 1;
    } else {
      static_cast<void>(*at);
    }
  };
  EXPECT_DEATH(touch(false), "the host touched memory of a device");
  EXPECT_DEATH(touch(true), "the host touched memory of a device");
}

TEST(DeferredDevice, AFailureIsToldToWhoeverReadsAndToNobodyElse) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto memory = memory_of(seed, seed % 3);
    Buffer x = Buffer::allocate(memory, 4);
    const Buffer y = Buffer::allocate(memory, 4);
    const Buffer z = Buffer::allocate(memory, 4);
    compute({}, x, [] { fail("no such row"); });
    compute({x}, y, [to = opened(y)] { *to = 1; });
    compute({}, z, [to = opened(z)] { *to = 3; });
    EXPECT_EQ(read_int(z), 3);
    EXPECT_THAT([&] { read_int(y); }, ThrowsMessage<Error>(HasSubstr("no such row")));
    EXPECT_THAT([&] { read_int(x); }, ThrowsMessage<Error>(HasSubstr("no such row")));
    // The memory serves again, written over or given back.
    compute({}, y, [to = opened(y)] { *to = 4; });
    EXPECT_EQ(read_int(y), 4);
    x = Buffer();
    x = Buffer::allocate(memory, 4);
    compute({}, x, [to = opened(x)] { *to = 5; });
    EXPECT_EQ(read_int(x), 5);
  }
}

TEST(DeferredDevice, MemoryThatComesBackWaitsForItsLastUses) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto memory = memory_of(seed);
    Buffer x = Buffer::allocate(memory, 4);
    const Buffer y = Buffer::allocate(memory, 4);
    compute({}, x, [to = opened(x)] { *to = 1; });
    compute({x}, y, [from = opened(x), to = opened(y)] { *to = *from; });
    const std::byte* const place = x.data();
    x = Buffer();
    x = Buffer::allocate(memory, 4);
    ASSERT_EQ(x.data(), place);
    compute({}, x, [to = opened(x)] { *to = 7; });
    EXPECT_EQ(read_int(x), 7);
    EXPECT_EQ(read_int(y), 1);
  }
}

TEST(DeferredDevice, MemoryIsGivenBackWhenItsUsesHaveEnded) {
  const auto memory = memory_of(1);
  Buffer x = Buffer::allocate(memory, 4);
  bool ran = false;
  compute({}, x, [&, to = opened(x)] {
    *to = 1;
    ran = true;
  });
  x = Buffer();
  memory->trim();
  EXPECT_TRUE(ran);
  EXPECT_EQ(memory->stats().cached_bytes, 0);
}

TEST(DeferredDevice, WhatTheHostSendsIsKeptUntilItIsCopied) {
  const auto memory = memory_of(1);
  const auto host = memory->device()->staging();
  const Buffer x = Buffer::allocate(memory, 4);
  {
    const Buffer sent = Buffer::allocate(host, 4);
    *reinterpret_cast<int*>(sent.data()) = 9;
    x.write(0, sent, 4);
  }
  EXPECT_GT(host->stats().live_bytes, 0);
  EXPECT_EQ(read_int(x), 9);
  EXPECT_EQ(host->stats().live_bytes, 0);
}

TEST(DeferredDevice, ACopyOfMemoryThatItDoesNotKnowIsFound) {
  const auto memory = memory_of(1);
  const Buffer x = Buffer::allocate(memory, 8);
  const Buffer unknown = Buffer::allocate(std::make_shared<Allocator>(0, host_device()), 8);
  EXPECT_THAT(
      [&] { x.write(0, unknown, 8); },
      ThrowsMessage<Error>(HasSubstr("8 bytes of the host's memory that are not registered")));
  const Buffer known = Buffer::allocate(memory->device()->staging(), 8);
  EXPECT_TRUE(memory->device()->is_registered(known.data() + 4, 4));
  EXPECT_FALSE(memory->device()->is_registered(known.data() + 4, 1 << 10));
  x.write(0, known, 8);
}

// What is read into any other memory passes through the device's own, part by part.
TEST(DeferredDevice, ReadsGiveAllBytesWhereverTheyGo) {
  constexpr size_t kBytes = (size_t{9} << 20) + 3;
  const auto memory = memory_of(1);
  const Buffer x = Buffer::allocate(memory, kBytes);
  const Buffer sent = Buffer::allocate(memory->device()->staging(), kBytes);
  for (size_t i = 0; i < kBytes; ++i) {
    sent.data()[i] = static_cast<std::byte>(i * 2654435761U >> 24);
  }
  x.write(0, sent, kBytes);
  std::vector<std::byte> got(kBytes - 5);
  x.read(5, got);
  EXPECT_EQ(std::memcmp(got.data(), sent.data() + 5, got.size()), 0);
}

TEST(DeferredDevice, TellsWhichCopiesRan) {
  const auto memory = memory_of(1);
  const Buffer x = Buffer::allocate(memory, 8);
  std::vector<CopyTime> copies;
  memory->device()->record_copies(&copies);
  x.write(0, Buffer::allocate(memory->device()->staging(), 8), 8);
  read_int(x);
  memory->device()->record_copies(nullptr);
  read_int(x);
  ASSERT_EQ(copies.size(), 2U);
  EXPECT_TRUE(copies[0].to_device);
  EXPECT_EQ(copies[0].bytes, 8);
  EXPECT_FALSE(copies[1].to_device);
  EXPECT_EQ(copies[1].bytes, 4);
  EXPECT_LE(copies[0].end, copies[1].begin);
}

TEST(DeferredDevice, WorkOfADeviceThatIsGoneSaysSo) {
  Event end;
  {
    const auto device = make_deferred_device({.ahead = 0});
    Submission work(*device);
    work.queue().submit([] {});
    end = work.finish();
  }
  EXPECT_TRUE(end.done());
  EXPECT_THAT([&] { end.wait(); }, ThrowsMessage<Error>(HasSubstr("is gone")));
}

TEST(DeferredDevice, ADeviceWaitsForAnother) {
  const auto first = memory_of(1);
  const auto second = memory_of(2);
  const Buffer x = Buffer::allocate(first, 4);
  const Event written = compute({}, x, [to = opened(x)] { *to = 1; });
  bool seen = false;
  Submission work(*second->device());
  work.queue().wait(written, /*needed=*/true);
  work.queue().submit([&, from = opened(x)] { seen = *from == 1; });
  work.finish().wait();
  EXPECT_TRUE(seen);
}

TEST(DeferredDevice, ThreadsShareADevice) {
  const auto memory = memory_of(1, 8);
  std::vector<int> sums(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Buffer sum = Buffer::allocate(memory, 4);
      compute({}, sum, [to = opened(sum)] { *to = 0; });
      for (int i = 1; i <= 100; ++i) {
        const Buffer term = Buffer::allocate(memory, 4);
        const Buffer next = Buffer::allocate(memory, 4);
        compute({}, term, [to = opened(term), i] { *to = i; });
        compute({sum, term}, next,
                [a = opened(sum), b = opened(term), to = opened(next)] { *to = *a + *b; });
        sum = next;
      }
      sums[static_cast<size_t>(t)] = read_int(sum);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_THAT(sums, Each(5050));
}

}  // namespace
}  // namespace mstrain
