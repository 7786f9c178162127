#include "suites/recommender/embedding/row_exchange.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/base/error.h"
#include "embedding_cache/row.h"

namespace mstrain::recommender {
namespace {

using embedding_cache::Batch;
using embedding_cache::Cache;
using embedding_cache::Id;
using embedding_cache::Ticket;

constexpr size_t kHeaderFloats = embedding_cache::kHeaderBytes / sizeof(float);
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

RowRequest request_of(const Placement& placement, size_t table, const TableKeys& keys,
                      int64_t micro_batches) {
  const size_t samples = keys.sample_offsets.size() - 1;
  const size_t each = samples / static_cast<size_t>(micro_batches);
  const auto turns = static_cast<size_t>(micro_batches);
  struct Found {
    Id id;
    size_t group;  // owner, turn
  };
  RowRequest out;
  std::vector<Found> found;  // turn by turn, in the order of first occurrences
  out.batch.inverse.reserve(keys.ids.size());
  out.counts.assign(static_cast<size_t>(placement.ranks()) * turns, 0);
  embedding_cache::Dedup dedup;
  Batch of_turn;
  for (size_t turn = 0; turn < turns; ++turn) {
    const size_t begin = keys.sample_offsets[turn * each];
    const size_t end = keys.sample_offsets[(turn + 1) * each];
    dedup.run(std::span(keys.ids).subspan(begin, end - begin), of_turn);
    const auto before = static_cast<uint32_t>(found.size());
    for (const Id id : of_turn.unique) {
      const size_t group = static_cast<size_t>(placement.owner(table, id)) * turns + turn;
      found.push_back({id, group});
      ++out.counts[group];
    }
    for (const uint32_t u : of_turn.inverse) {
      out.batch.inverse.push_back(before + u);
    }
  }
  std::vector<size_t> next(out.counts.size());
  std::exclusive_scan(out.counts.begin(), out.counts.end(), next.begin(), size_t{0});
  std::vector<uint32_t> place(found.size());
  out.batch.unique.resize(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const size_t to = next[found[i].group]++;
    out.batch.unique[to] = found[i].id;
    place[i] = static_cast<uint32_t>(to);
  }
  for (uint32_t& u : out.batch.inverse) {
    u = place[u];
  }
  return out;
}

void RowBlock::resize(size_t rows, size_t width) {
  floats_.resize(kHeaderFloats + rows * width);
  records_.resize(rows);
  for (size_t i = 0; i < rows; ++i) {
    records_[i] = reinterpret_cast<const std::byte*>(floats_.data() + i * width);
  }
}

float* RowBlock::data() { return floats_.data() + kHeaderFloats; }

Elements RowBlock::elements() {
  return {data(), std::ssize(floats_) - static_cast<int64_t>(kHeaderFloats), Dtype::kF32};
}

RowTrip::RowTrip(Communicator* group, std::vector<RowRequest> requests, int64_t micro_batches)
    : group_(group), micro_batches_(micro_batches), tables_(requests.size()) {
  for (size_t t = 0; t < requests.size(); ++t) {
    tables_[t].asked = std::move(requests[t]);
    tables_[t].sends = sums_of_rows(tables_[t].asked.counts, ranks());
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
    events.push_back(group_->all_to_all(in, out, sends, receives, what));
  } else if (in.count > 0) {
    std::memcpy(out.data, in.data, static_cast<size_t>(in.bytes()));
  }
}

void RowTrip::ask() {
  for (int64_t rank = 0; rank < ranks(); ++rank) {
    for (const Table& table : tables_) {
      const auto first = table.asked.counts.begin() + rank * micro_batches_;
      counts_out_.insert(counts_out_.end(), first, first + micro_batches_);
    }
  }
  counts_in_.resize(counts_out_.size());
  const std::vector<int64_t> each(static_cast<size_t>(ranks()),
                                  std::ssize(tables_) * micro_batches_);
  exchange(elements(counts_out_, Dtype::kI64), elements(counts_in_, Dtype::kI64), each, each,
           "rows.counts", under_way_);
  wait_all(under_way_);
  finish_counts();
  for (Table& table : tables_) {
    exchange(elements(table.asked.batch.unique, Dtype::kI64), elements(table.arrived, Dtype::kI64),
             table.sends, table.receives, "rows.ids", under_way_);
  }
  wait_all(under_way_);
}

void RowTrip::finish_counts() {
  const auto turns = static_cast<size_t>(micro_batches_);
  for (size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    for (size_t rank = 0; rank < static_cast<size_t>(ranks()); ++rank) {
      const auto first =
          counts_in_.begin() + static_cast<ptrdiff_t>((rank * tables_.size() + t) * turns);
      table.counts.insert(table.counts.end(), first, first + micro_batches_);
    }
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

// Those rows of what arrived that are `early`, or are not.
void RowTrip::send_rows(Table& table, Rows& rows, bool early, const Cache& cache,
                        const Ticket* ticket, ThreadPool& workers) {
  const auto is_meant = [&](const std::vector<uint8_t>& marks, size_t i) {
    return (!marks.empty() && marks[i] != 0) == early;
  };
  const auto counted = [&](const std::vector<uint8_t>& marks, std::span<const int64_t> of_ranks) {
    std::vector<int64_t> out;
    size_t i = 0;
    for (const int64_t count : of_ranks) {
      int64_t sum = 0;
      for (const size_t end = i + static_cast<size_t>(count); i < end; ++i) {
        sum += is_meant(marks, i) ? 1 : 0;
      }
      out.push_back(sum);
    }
    return out;
  };
  std::vector<size_t> meant;  // of what arrived
  for (size_t i = 0; i < table.arrived.size(); ++i) {
    if (is_meant(table.goes_early, i)) {
      meant.push_back(i);
    }
  }
  if (!meant.empty()) {
    std::vector<const float*> held;
    cache.rows(*ticket, held);
    const std::span<const uint32_t> inverse = ticket->inverse();
    rows.sent.resize(meant.size() * table.width);
    workers.parallel_for(std::ssize(meant), kRowsAtOnce, [&](int64_t begin, int64_t end) {
      for (auto k = static_cast<size_t>(begin); k < static_cast<size_t>(end); ++k) {
        const size_t i = meant[k];
        const float* const row = held[inverse[table.place.empty() ? i : table.place[i]]];
        std::copy_n(row, table.width, rows.sent.data() + k * table.width);
      }
    });
  }
  const std::vector<int64_t> coming = counted(table.comes_early, table.sends);
  rows.came.resize(static_cast<size_t>(std::accumulate(coming.begin(), coming.end(), int64_t{0})),
                   table.width);
  exchange(elements(rows.sent, Dtype::kF32), rows.came.elements(),
           times(counted(table.goes_early, table.receives), table.width),
           times(coming, table.width), early ? "rows.early" : "rows.values", under_way_);
}

void RowTrip::bring_early(const Cache& cache, std::span<const Ticket> tickets,
                          std::span<const Ticket> changing, ThreadPool& workers) {
  embedding_cache::Dedup dedup;
  for (size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    table.goes_early.assign(table.arrived.size(), 0);
    if (!tickets.empty()) {
      const std::span<const Id> busy = changing[t].ids();
      std::vector<Id> all(busy.begin(), busy.end());
      all.insert(all.end(), table.arrived.begin(), table.arrived.end());
      Batch distinct;
      dedup.run(all, distinct);
      for (size_t i = 0; i < table.arrived.size(); ++i) {
        table.goes_early[i] = distinct.inverse[busy.size() + i] < busy.size() ? 0 : 1;
      }
    }
    table.comes_early.resize(table.asked.batch.unique.size());
    exchange(elements(table.goes_early, Dtype::kU8), elements(table.comes_early, Dtype::kU8),
             table.receives, table.sends, "rows.marks", under_way_);
  }
  wait_all(under_way_);
  for (size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    table.width = cache.layout(static_cast<uint32_t>(t)).width();
    send_rows(table, table.early, /*early=*/true, cache, tickets.empty() ? nullptr : &tickets[t],
              workers);
  }
  wait_all(under_way_);
}

void RowTrip::bring(const Cache& cache, std::span<const Ticket> tickets, ThreadPool& workers) {
  for (size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    table.width = cache.layout(static_cast<uint32_t>(t)).width();
    send_rows(table, table.late, /*early=*/false, cache, &tickets[t], workers);
  }
  wait_all(under_way_);
  for (Table& table : tables_) {
    table.records.resize(table.asked.batch.unique.size());
    const std::byte* const* early = table.early.came.records();
    const std::byte* const* late = table.late.came.records();
    for (size_t u = 0; u < table.records.size(); ++u) {
      const bool is_early = !table.comes_early.empty() && table.comes_early[u] != 0;
      table.records[u] = is_early ? *early++ : *late++;
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
    sum += std::count(table.comes_early.begin(), table.comes_early.end(), 1);
  }
  return sum;
}

void RowTrip::give(size_t index, std::vector<float> gradients) {
  Table& table = tables_[index];
  table.sent = std::move(gradients);
  table.learned.resize(table.arrived.size() * table.width);
  exchange(elements(table.sent, Dtype::kF32), elements(table.learned, Dtype::kF32),
           times(table.sends, table.width), times(table.receives, table.width), "rows.gradients",
           table.giving);
}

std::span<const float> RowTrip::given(size_t index) {
  Table& table = tables_[index];
  wait_all(table.giving);
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
