// Collectives against plain loops, for whatever carries them: every rank of a group calls it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "core/base/rng.h"
#include "core/comm/mesh.h"

namespace mstrain {

// Elements of any type, small whole numbers, so that sums of any order are equal.
class Numbers {
 public:
  Numbers(Dtype dtype, int64_t count)
      : dtype_(dtype), count_(count), bytes_(static_cast<size_t>(count * size_of(dtype))) {}
  Elements elements() { return {bytes_.data(), count_, dtype_}; }
  void set(int64_t i, int value) {
    visit_dtype(dtype_, [&]<class T>(T) {
      T x;
      if constexpr (std::is_class_v<T>) {
        x = T(static_cast<float>(value));
      } else {
        x = static_cast<T>(value);
      }
      std::memcpy(bytes_.data() + static_cast<size_t>(i) * sizeof(T), &x, sizeof(T));
    });
  }
  int at(int64_t i) const {
    return visit_dtype(dtype_, [&]<class T>(T) -> int {
      T x;
      std::memcpy(&x, bytes_.data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
      if constexpr (std::is_class_v<T>) {
        return static_cast<int>(static_cast<float>(x));
      } else {
        return static_cast<int>(x);
      }
    });
  }

 private:
  Dtype dtype_;
  int64_t count_;
  std::vector<std::byte> bytes_;
};

inline int value_of(Dtype dtype, int rank, int64_t i) {
  const int value = static_cast<int>((rank * 7 + i * 3) % 11);
  return dtype == Dtype::kBool ? value % 2 : value;
}

inline int sum_of(Dtype dtype, int ranks, int64_t i) {
  int sum = 0;
  for (int r = 0; r < ranks; ++r) {
    sum += value_of(dtype, r, i);
  }
  return dtype == Dtype::kBool ? std::min(sum, 1) : sum;
}

inline Numbers numbers_of(Dtype dtype, int rank, int64_t count) {
  Numbers numbers(dtype, count);
  for (int64_t i = 0; i < count; ++i) {
    numbers.set(i, value_of(dtype, rank, i));
  }
  return numbers;
}

// Some ranks come late.
inline void dawdle(Rng& rng) {
  if (rng.below(3) == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(rng.below(300)));
  }
}

// Pieces of `unit` elements times some, all uneven, the second one empty.
inline void check_collectives(Communicator& world, Dtype dtype, int64_t unit = 1) {
  const int n = world.size();
  const int me = world.rank();
  Rng rng(static_cast<uint64_t>(me));
  std::vector<int64_t> counts;
  for (int r = 0; r < n; ++r) {
    counts.push_back(r == 1 ? 0 : unit * (3 * r + 2) + r);
  }
  const auto first = [&](int rank) {
    return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
  };
  const int64_t total = first(n);
  const int64_t mine = counts[static_cast<size_t>(me)];

  Numbers in = numbers_of(dtype, me, total);
  Numbers sums(dtype, total);
  dawdle(rng);
  const Event summed = world.all_reduce(in.elements(), sums.elements(), Reduction::kSum, "sums");
  Numbers largest = in;
  world.all_reduce(largest.elements(), largest.elements(), Reduction::kMax, "in place").wait();
  Numbers fast = in;
  world.all_reduce(fast.elements(), fast.elements(), Reduction::kFastSum, "fast").wait();
  summed.wait();
  Numbers piece(dtype, mine);
  dawdle(rng);
  world.reduce_scatter(in.elements(), piece.elements(), counts, Reduction::kSum, "pieces").wait();
  Numbers own = numbers_of(dtype, me, mine);
  Numbers all(dtype, total);
  const Event gathered = world.all_gather(own.elements(), all.elements(), counts, "own");
  Numbers told = numbers_of(dtype, me, 4);
  const Event sent_to_all = world.broadcast(told.elements(), n - 1, "told");
  sent_to_all.wait();
  gathered.wait();
  for (int64_t i = 0; i < total; ++i) {
    ASSERT_EQ(sums.at(i), sum_of(dtype, n, i));
    ASSERT_EQ(fast.at(i), sum_of(dtype, n, i));
    int most = 0;
    for (int r = 0; r < n; ++r) {
      most = std::max(most, value_of(dtype, r, i));
    }
    ASSERT_EQ(largest.at(i), most);
  }
  for (int64_t i = 0; i < mine; ++i) {
    ASSERT_EQ(piece.at(i), sum_of(dtype, n, first(me) + i));
  }
  for (int r = 0; r < n; ++r) {
    for (int64_t i = 0; i < counts[static_cast<size_t>(r)]; ++i) {
      ASSERT_EQ(all.at(first(r) + i), value_of(dtype, r, i));
    }
  }
  for (int64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(told.at(i), value_of(dtype, n - 1, i));
  }
  // Rank a sends a + b elements to rank b.
  std::vector<int64_t> sends;
  for (int r = 0; r < n; ++r) {
    sends.push_back(me + r);
  }
  const int64_t count = std::accumulate(sends.begin(), sends.end(), int64_t{0});
  Numbers from = numbers_of(dtype, me, count);
  Numbers to(dtype, count);
  dawdle(rng);
  world.all_to_all(from.elements(), to.elements(), sends, sends, "each to each").wait();
  int64_t place = 0;
  for (int r = 0; r < n; ++r) {
    int64_t skipped = 0;
    for (int k = 0; k < me; ++k) {
      skipped += r + k;
    }
    for (int64_t i = 0; i < r + me; ++i) {
      ASSERT_EQ(to.at(place++), value_of(dtype, r, skipped + i));
    }
  }
  world.barrier("end");
}

// Several on their way at once, a message longer than another, and one that crosses it.
inline void check_messages(Communicator& world) {
  const int next = (world.rank() + 1) % world.size();
  const int before = (world.rank() + world.size() - 1) % world.size();
  std::vector<std::vector<int32_t>> out, in;
  for (const size_t count : {size_t{1}, size_t{300000}, size_t{0}, size_t{2}}) {
    out.emplace_back(count, world.rank() * 100 + static_cast<int32_t>(out.size()));
    in.emplace_back(count, -1);
  }
  std::vector<Event> events;
  for (size_t i = 0; i < out.size(); ++i) {
    const auto count = static_cast<int64_t>(out[i].size());
    events.push_back(world.send({out[i].data(), count, Dtype::kI32}, next, "out"));
    events.push_back(world.receive({in[i].data(), count, Dtype::kI32}, before, "in"));
  }
  for (const Event& event : events) {
    event.wait();
  }
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(in[i], std::vector<int32_t>(in[i].size(), before * 100 + static_cast<int32_t>(i)));
  }
}

// More than there is room for before anybody waits, collectives among messages of every size, while one rank after another is late.
inline void check_many_under_way(Communicator& world) {
  constexpr int kMany = 50;
  const int size = world.size();
  const int next = (world.rank() + 1) % size;
  const int before = (world.rank() + size - 1) % size;
  for (int late = 0; late < size; ++late) {
    if (world.rank() == late) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    std::vector<std::vector<int32_t>> told, sums, out, in;
    std::vector<Event> events;
    for (int i = 0; i < kMany; ++i) {
      const size_t count = std::array<size_t, 3>{10, 2000, 50000}[static_cast<size_t>(i) % 3];
      told.emplace_back(5, world.rank() * 1000 + i);
      sums.emplace_back(7, world.rank() + i);
      out.emplace_back(count, world.rank() * 1000 + i);
      in.emplace_back(count, -1);
    }
    const auto elements = [](std::vector<int32_t>& values) {
      return Elements{values.data(), std::ssize(values), Dtype::kI32};
    };
    for (size_t i = 0; i < kMany; ++i) {
      events.push_back(world.broadcast(elements(told[i]), static_cast<int>(i) % size, "told"));
      events.push_back(world.send(elements(out[i]), next, "out"));
      events.push_back(world.receive(elements(in[i]), before, "in"));
      events.push_back(
          world.all_reduce(elements(sums[i]), elements(sums[i]), Reduction::kSum, "sums"));
    }
    for (const Event& event : events) {
      event.wait();
    }
    for (int i = 0; i < kMany; ++i) {
      const auto at = static_cast<size_t>(i);
      EXPECT_EQ(told[at], std::vector<int32_t>(5, i % size * 1000 + i));
      EXPECT_EQ(sums[at], std::vector<int32_t>(7, size * (size - 1) / 2 + size * i));
      EXPECT_EQ(in[at], std::vector<int32_t>(in[at].size(), before * 1000 + i));
    }
  }
}

// A group for each axis of the mesh, of the ranks that differ in it alone.
inline void check_groups(Ranks& ranks) {
  const Mesh& mesh = ranks.mesh();
  for (const MeshAxis& axis : mesh.axes) {
    Communicator& group = ranks.along(axis.name);
    ASSERT_EQ(group.size(), axis.size);
    EXPECT_EQ(group.rank(), ranks.coordinate(axis.name));
    EXPECT_EQ(group.name(), axis.name);
    std::vector<int32_t> all(static_cast<size_t>(axis.size));
    int32_t rank = ranks.rank();
    const std::vector<int64_t> ones(all.size(), 1);
    group.all_gather({&rank, 1, Dtype::kI32}, {all.data(), axis.size, Dtype::kI32}, ones, "")
        .wait();
    for (size_t i = 0; i < all.size(); ++i) {
      for (const MeshAxis& other : mesh.axes) {
        EXPECT_EQ(mesh.coordinate(all[i], other.name),
                  other == axis ? static_cast<int64_t>(i) : ranks.coordinate(other.name));
      }
    }
  }
}

}  // namespace mstrain
