#include "suites/recommender/embedding/row_exchange.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "embedding_cache/row.h"

namespace mstrain::recommender {
namespace {

using embedding_cache::Batch;
using embedding_cache::Cache;
using embedding_cache::Id;
using embedding_cache::Ticket;

constexpr int64_t kRowsAtOnce = 512;

// Sums of each of `groups` rows of `counts`.
std::vector<int64_t> sums_of_rows(std::span<const int64_t> counts, int64_t groups) {
  std::vector<int64_t> sums;
  const size_t each = counts.size() / static_cast<size_t>(groups);
  for (size_t i = 0; i < counts.size(); i += each) {
    const auto row = counts.subspan(i, each);
    sums.push_back(std::accumulate(row.begin(), row.end(), int64_t{0}));
  }
  return sums;
}

std::vector<int64_t> times(std::span<const int64_t> counts, size_t width) {
  std::vector<int64_t> out(counts.begin(), counts.end());
  for (int64_t& count : out) {
    count *= static_cast<int64_t>(width);
  }
  return out;
}

// Of consecutive items, so many of each rank: how many have `mark`.
template <class Mark>
std::vector<int64_t> counted(std::span<const Mark> marks, std::span<const int64_t> of_ranks,
                             Mark mark) {
  std::vector<int64_t> out;
  auto first = marks.begin();
  for (const int64_t count : of_ranks) {
    out.push_back(std::count(first, first + count, mark));
    first += count;
  }
  return out;
}

// Moves those that `keeps` names to the front, and drops the others.
template <class F>
void keep_rows(std::vector<float>& rows, size_t width, const F& keeps) {
  size_t kept = 0;
  for (size_t i = 0; i * width < rows.size(); ++i) {
    if (keeps(i)) {
      std::copy_n(rows.data() + i * width, width, rows.data() + kept++ * width);
    }
  }
  rows.resize(kept * width);
}

template <class T>
Elements elements(std::vector<T>& values, Dtype dtype) {
  return {values.data(), std::ssize(values), dtype};
}

void wait_all(std::vector<Event>& events) {
  for (const Event& event : std::exchange(events, {})) {
    event.wait();
  }
}

}  // namespace

RowTrip::RowTrip(Communicator* group, const Placement& placement, std::vector<RowRequest> requests,
                 int64_t micro_batches)
    : group_(group), micro_batches_(micro_batches) {
  for (size_t t = 0; t < requests.size(); ++t) {
    RowRequest& asked = requests[t];
    const std::vector<int64_t> sends = sums_of_rows(asked.counts, ranks());
    PooledBags pooled(placement.wholes(t), std::move(asked.bags), sends, asked.samples,
                      group_ == nullptr ? 0 : group_->rank());
    tables_.push_back({.asked = std::move(asked), .sends = sends, .pooled = std::move(pooled)});
  }
}

RowTrip::~RowTrip() {
  for (const Event& event : under_way_) {
    event.settle();
  }
  for (const Table& table : tables_) {
    for (const Event& event : table.giving) {
      event.settle();
    }
  }
}

int64_t RowTrip::ranks() const { return group_ == nullptr ? 1 : group_->size(); }

void RowTrip::exchange(Elements in, Elements out, std::span<const int64_t> sends,
                       std::span<const int64_t> receives, const char* what,
                       std::vector<Event>& events) {
  if (group_ != nullptr) {
    const int64_t to_others = std::accumulate(sends.begin(), sends.end(), int64_t{0}) -
                              sends[static_cast<size_t>(group_->rank())];
    sent_bytes_ += to_others * size_of(in.dtype);
    events.push_back(group_->all_to_all(in, out, sends, receives, what));
  } else if (in.count > 0) {
    std::memcpy(out.data, in.data, static_cast<size_t>(in.bytes()));
  }
}

template <class T>
void RowTrip::exchange(Message<T>& message, const char* what, std::vector<Event>& events) {
  const Dtype dtype = DtypeOf<T>::value;
  exchange(elements(message.sent, dtype), elements(message.came, dtype), message.sends,
           message.receives, what, events);
}

void RowTrip::ask() {
  Message<int64_t> counts;
  for (int to = 0; to < ranks(); ++to) {
    const size_t before = counts.sent.size();
    int64_t expected = 0;
    for (const Table& table : tables_) {
      const auto first = table.asked.counts.begin() + to * micro_batches_;
      counts.sent.insert(counts.sent.end(), first, first + micro_batches_);
      table.pooled.put_counts(to, counts.sent);
      expected += micro_batches_ + table.pooled.counts_from_each();
    }
    counts.sends.push_back(static_cast<int64_t>(counts.sent.size() - before));
    counts.receives.push_back(expected);
  }
  counts.came.resize(static_cast<size_t>(
      std::accumulate(counts.receives.begin(), counts.receives.end(), int64_t{0})));
  exchange(counts, "rows.counts", under_way_);
  wait_all(under_way_);
  take_counts(counts.came.data());
  for (Table& table : tables_) {
    exchange(elements(table.asked.batch.unique, Dtype::kI64), elements(table.arrived, Dtype::kI64),
             table.sends, table.receives, "rows.ids", under_way_);
    if (table.pooled.is_possible()) {
      exchange(table.pooled.ask(), "rows.bags", under_way_);
    }
  }
  wait_all(under_way_);
  for (Table& table : tables_) {
    table.goes.assign(table.arrived.size(), Way::kLate);
    table.comes.assign(table.asked.batch.unique.size(), Way::kLate);
    if (table.pooled.is_possible()) {
      table.pooled.asked(table.receives);
      table.pooled.each_asked([&](uint32_t id) { table.comes[id] = Way::kPooled; });
      table.pooled.each_arrived([&](uint32_t id) { table.goes[id] = Way::kPooled; });
    }
  }
}

void RowTrip::take_counts(const int64_t* counts) {
  for (int64_t rank = 0; rank < ranks(); ++rank) {
    for (Table& table : tables_) {
      table.counts.insert(table.counts.end(), counts, counts + micro_batches_);
      counts = table.pooled.take_counts(counts + micro_batches_);
    }
  }
  for (Table& table : tables_) {
    table.receives = sums_of_rows(table.counts, ranks());
    table.arrived.resize(static_cast<size_t>(
        std::accumulate(table.receives.begin(), table.receives.end(), int64_t{0})));
  }
}

const std::vector<std::vector<Id>>& RowTrip::wanted() {
  if (!has_asked_) {
    ask();
    for (Table& table : tables_) {
      put_in_order(table);
      std::vector<Id>& ids = wanted_.emplace_back(table.arrived.size());
      for (size_t i = 0; i < ids.size(); ++i) {
        ids[table.place.empty() ? i : table.place[i]] = table.arrived[i];
      }
    }
    has_asked_ = true;
  }
  return wanted_;
}

// What arrived lies rank by rank; micro-batches of the whole batch go turn by turn, and in each of them rank by rank.
void RowTrip::put_in_order(Table& table) const {
  if (micro_batches_ == 1 || ranks() == 1) {
    return;
  }
  const auto turns = static_cast<size_t>(micro_batches_);
  const auto all = static_cast<size_t>(ranks());
  std::vector<size_t> first(table.counts.size());
  size_t sum = 0;
  for (size_t turn = 0; turn < turns; ++turn) {
    for (size_t rank = 0; rank < all; ++rank) {
      first[rank * turns + turn] = sum;
      sum += static_cast<size_t>(table.counts[rank * turns + turn]);
    }
  }
  table.place.reserve(sum);
  for (size_t group = 0; group < first.size(); ++group) {
    for (int64_t i = 0; i < table.counts[group]; ++i) {
      table.place.push_back(first[group] + static_cast<size_t>(i));
    }
  }
}

// Those rows of what arrived that go this way.
void RowTrip::send_rows(Table& table, Rows& rows, Way way, const HeldRows& held,
                        ThreadPool& workers) {
  std::vector<size_t> meant;  // of what arrived
  for (size_t i = 0; i < table.arrived.size(); ++i) {
    if (table.goes[i] == way) {
      meant.push_back(i);
    }
  }
  if (!meant.empty()) {
    rows.sent.resize(meant.size() * table.width);
    workers.parallel_for(std::ssize(meant), kRowsAtOnce, [&](int64_t begin, int64_t end) {
      for (auto k = static_cast<size_t>(begin); k < static_cast<size_t>(end); ++k) {
        const float* const row = held.weights[held.inverse[table.place_of(meant[k])]];
        std::copy_n(row, table.width, rows.sent.data() + k * table.width);
      }
    });
  }
  const std::vector<int64_t> coming = counted<Way>(table.comes, table.sends, way);
  rows.came.resize(static_cast<size_t>(std::accumulate(coming.begin(), coming.end(), int64_t{0})),
                   table.width);
  exchange(elements(rows.sent, Dtype::kF32), rows.came.elements(),
           times(counted<Way>(table.goes, table.receives, way), table.width),
           times(coming, table.width), way == Way::kEarly ? "rows.early" : "rows.values",
           under_way_);
}

void RowTrip::bring_early(const Cache& cache, std::span<const Ticket> tickets,
                          std::span<const Ticket> changing, ThreadPool& workers) {
  embedding_cache::Dedup dedup;
  for (size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    if (!tickets.empty()) {
      const std::span<const Id> busy = changing[t].ids();
      std::vector<Id> all(busy.begin(), busy.end());
      all.insert(all.end(), table.arrived.begin(), table.arrived.end());
      Batch distinct;
      dedup.run(all, distinct);
      for (size_t i = 0; i < table.arrived.size(); ++i) {
        const bool is_busy = distinct.inverse[busy.size() + i] < busy.size();
        if (!is_busy && table.goes[i] == Way::kLate) {
          table.goes[i] = Way::kEarly;
        }
      }
    }
    exchange(elements(table.goes, Dtype::kU8), elements(table.comes, Dtype::kU8), table.receives,
             table.sends, "rows.marks", under_way_);
  }
  wait_all(under_way_);
  for (size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    table.width = cache.layout(static_cast<uint32_t>(t)).width();
    send_rows(table, table.early, Way::kEarly,
              tickets.empty() ? HeldRows() : HeldRows(cache, tickets[t]), workers);
  }
  wait_all(under_way_);
}

void RowTrip::bring(const Cache& cache, std::span<const HeldRows> held, ThreadPool& workers) {
  for (size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    table.width = cache.layout(static_cast<uint32_t>(t)).width();
    send_rows(table, table.late, Way::kLate, held[t], workers);
    if (table.pooled.is_possible()) {
      std::vector<const std::byte*> records(table.arrived.size());
      for (size_t i = 0; i < records.size(); ++i) {
        const float* const row = held[t].weights[held[t].inverse[table.place_of(i)]];
        records[i] = reinterpret_cast<const std::byte*>(row) - embedding_cache::kHeaderBytes;
      }
      exchange(table.pooled.pool(records.data(), table.width, workers), "rows.pooled", under_way_);
    }
  }
  wait_all(under_way_);
  for (Table& table : tables_) {
    table.records.resize(table.asked.batch.unique.size());
    const std::byte* const* early = table.early.came.records();
    const std::byte* const* late = table.late.came.records();
    table.nothing.resize(1, table.width);
    for (size_t u = 0; u < table.records.size(); ++u) {
      switch (table.comes[u]) {
        case Way::kLate: table.records[u] = *late++; break;
        case Way::kEarly: table.records[u] = *early++; break;
        case Way::kPooled: table.records[u] = table.nothing.records()[0]; break;
      }
    }
  }
}

int64_t RowTrip::rows() const {
  int64_t sum = 0;
  for (const Table& table : tables_) {
    sum += std::ssize(table.asked.batch.unique);
  }
  return sum;
}

int64_t RowTrip::early_rows() const {
  int64_t sum = 0;
  for (const Table& table : tables_) {
    sum += std::count(table.comes.begin(), table.comes.end(), Way::kEarly);
  }
  return sum;
}

void RowTrip::give(size_t index, std::vector<float> gradients, const float* of_vectors,
                   size_t stride) {
  Table& table = tables_[index];
  table.sent = std::move(gradients);
  std::vector<int64_t> sends = table.sends;
  std::vector<int64_t> receives = table.receives;
  if (table.pooled.is_possible()) {
    exchange(table.pooled.give(of_vectors, stride), "rows.pooled_gradients", table.giving);
    const auto less = [](std::span<const Way> ways, std::vector<int64_t>& counts) {
      const std::vector<int64_t> pooled = counted(ways, counts, Way::kPooled);
      std::transform(counts.begin(), counts.end(), pooled.begin(), counts.begin(), std::minus<>());
    };
    less(table.comes, sends);
    less(table.goes, receives);
    keep_rows(table.sent, table.width, [&](size_t u) { return table.comes[u] != Way::kPooled; });
  }
  table.learned.resize(
      static_cast<size_t>(std::accumulate(receives.begin(), receives.end(), int64_t{0})) *
      table.width);
  exchange(elements(table.sent, Dtype::kF32), elements(table.learned, Dtype::kF32),
           times(sends, table.width), times(receives, table.width), "rows.gradients", table.giving);
}

std::span<const float> RowTrip::given(size_t index, const embedding_cache::RowLayout& layout,
                                      ThreadPool& workers) {
  Table& table = tables_[index];
  wait_all(table.giving);
  if (table.pooled.is_possible()) {
    std::vector<float> all(table.arrived.size() * table.width);
    for (size_t i = 0, from = 0; i < table.arrived.size(); ++i) {
      if (table.goes[i] != Way::kPooled) {
        std::copy_n(table.learned.data() + from++ * table.width, table.width,
                    all.data() + i * table.width);
      }
    }
    table.pooled.learn(layout, workers, all.data());
    table.learned = std::move(all);
  }
  if (table.place.empty()) {
    return table.learned;
  }
  table.in_order.resize(table.learned.size());
  for (size_t i = 0; i < table.place.size(); ++i) {
    std::copy_n(table.learned.data() + i * table.width, table.width,
                table.in_order.data() + table.place[i] * table.width);
  }
  return table.in_order;
}

}  // namespace mstrain::recommender
