// Gradients of a batch into its rows.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/base/error.h"
#include "embedding_cache/core.h"
#include "embedding_cache/pool.h"

namespace mstrain::embedding_cache {
namespace {

constexpr int64_t kChunkRows = 256;
constexpr int64_t kRowsOfAPast = 32;  // that stay in a core's cache from step to step

// Neither infinite nor NaN: no exponent of all ones.
bool is_finite(const float* row, size_t width) {
  constexpr uint32_t kExponent = 0x7f800000U;
  uint32_t bad = 0;
  for (size_t i = 0; i < width; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, row + i, sizeof bits);
    bad |= (bits & kExponent) == kExponent ? 1U : 0U;
  }
  return bad == 0;
}

void add_rows(float* __restrict sum, const float* __restrict row, size_t width) {
  for (size_t i = 0; i < width; ++i) {
    sum[i] += row[i];
  }
}

}  // namespace

void Core::update(TicketState& ticket, std::span<const float> gradients, GradientsOf of,
                  std::span<const OptimizerKind> kinds, const RowKernel& kernel,
                  std::optional<float> lr_scale) {
  check_ticket(ticket, "update");
  const size_t width = at(ticket.table).layout.width();
  const bool by_position = of == GradientsOf::kPositions;
  const size_t count = by_position ? ticket.batch.inverse.size() : ticket.batch.unique.size();
  check(gradients.size() == count * width,
        "embedding_cache: update of table \"{}\": {} floats were given, expected [{}, {}] = {}",
        at(ticket.table).options.name, gradients.size(), count, width, count * width);
  const auto sums = [&]() -> RowSums {
    if (!by_position) {
      return [&](size_t id, float*) { return gradients.data() + id * width; };
    }
    return [&, positions = positions_by_id(ticket.batch)](size_t id, float* space) {
      const uint32_t first = positions.begin[id];
      const uint32_t last = positions.begin[id + 1];
      const float* const row = gradients.data() + size_t{positions.order[first]} * width;
      if (last - first == 1) {
        return row;
      }
      std::copy(row, row + width, space);
      for (uint32_t i = first + 1; i < last; ++i) {
        add_rows(space, gradients.data() + size_t{positions.order[i]} * width, width);
      }
      return static_cast<const float*>(space);
    };
  };
  learn(ticket, kinds, sums, kernel, lr_scale);
}

void Core::update(TicketState& ticket, std::span<const BagGradients> gradients,
                  std::span<const OptimizerKind> kinds, const RowKernel& kernel,
                  std::optional<float> lr_scale) {
  check_ticket(ticket, "update");
  const Table& table = at(ticket.table);
  const size_t segments = table.layout.parts().size();
  const bool whole = gradients.size() == 1 && !gradients[0].bags.segment;
  bool in_order = whole || gradients.size() == segments;
  for (size_t i = 0; i < gradients.size() && !whole; ++i) {
    in_order = in_order && gradients[i].bags.segment == i;
  }
  check(in_order,
        "embedding_cache: update of table \"{}\": gradients of bags are of whole rows, or of each "
        "of the {} segments, in their order",
        table.options.name, segments);
  const auto sums = [&]() -> RowSums {
    const auto bags = std::make_shared<const BagSums>(ticket.batch, table.layout,
                                                      ticket.records.data(), gradients, *workers_);
    return [bags](size_t id, float* space) {
      bags->add_up(id, space);
      return static_cast<const float*>(space);
    };
  };
  learn(ticket, kinds, sums, kernel, lr_scale);
}

void Core::learn(TicketState& ticket, std::span<const OptimizerKind> kinds,
                 const std::function<RowSums()>& sums, const RowKernel& kernel,
                 std::optional<float> lr_scale) {
  const auto start = std::chrono::steady_clock::now();
  Table& table = at(ticket.table);
  const auto& parts = table.layout.parts();
  check(ticket.use == Use::kTrain,
        "embedding_cache: update of a ticket that was prefetched to read");
  check(!ticket.updated, "embedding_cache: the ticket of step {} was updated already", ticket.step);
  check(kinds.size() == parts.size(),
        "embedding_cache: table \"{}\" has {} segments, update was given {} update types",
        table.options.name, parts.size(), kinds.size());
  check(table.past.steps().empty() || table.past.steps().back().step < ticket.step,
        "embedding_cache: table \"{}\" has learned step {} already, at which all of its rows did "
        "(optimizer.l2_of: table); its batches need steps of their own",
        table.options.name, ticket.step);
  check(
      lr_scale || !table.layout.learns_always(),
      "embedding_cache: table \"{}\" has optimizer.l2_of: table, and update was given update types "
      "of its own, which its other rows cannot go through later; call it without, and with "
      "lr_scale",
      table.options.name);
  for (size_t i = 0; i < parts.size(); ++i) {
    check(kinds[i] == parts[i].options.optimizer.kind,
          "embedding_cache: segment {} of table \"{}\" holds the state of another update type ({})",
          i, table.options.name, table.layout.schema());
  }
  {
    const std::lock_guard lock(mutex_);
    check_order(ticket, "update");
    check(table.training.empty() || table.training.front() == &ticket,
          "embedding_cache: update of step {} before step {}, which was prefetched earlier",
          ticket.step, table.training.front()->step);
    save_frozen(ticket.table, ticket.slots);
  }
  const std::lock_guard learning(table.learning);
  catch_up(ticket);
  const RowSums of_ids = sums();
  std::vector<uint32_t> skipped;
  try {
    skipped = sum_and_apply(ticket, of_ids, kernel);
    table.past.add({static_cast<uint32_t>(ticket.step), lr_scale.value_or(1)});
  } catch (...) {
    const std::lock_guard lock(mutex_);
    poison(fmt::format("update of step {} failed half-way", ticket.step), nullptr);
    throw;
  }
  const std::lock_guard lock(mutex_);
  note_learned(table, ticket);
  auto next_skipped = skipped.begin();
  for (size_t u = 0; u < ticket.slots.size(); ++u) {
    if (ticket.slots[u] == kNoSlot) {
      continue;
    }
    if (next_skipped != skipped.end() && *next_skipped == u) {
      ++next_skipped;
      continue;
    }
    table.host.set_dirty(ticket.slots[u], true);
    ++table.stats.updates;
    if (options.check_shadow) {
      const std::byte* record = ticket.records[u];
      table.shadow[ticket.batch.unique[u]].assign(record, record + table.layout.record_bytes());
    }
  }
  times_.update_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  check(skipped.empty(),
        "embedding_cache: update of step {}: the gradients of {} of the {} ids of table \"{}\" are "
        "not "
        "finite, of id {} first; those rows are as they were, the others have learned",
        ticket.step, skipped.size(), ticket.batch.unique.size(), table.options.name,
        skipped.empty() ? 0 : ticket.batch.unique[skipped.front()]);
}

// Rows that other threads may hold have the same meaning before and after.
void Core::catch_up(const TicketState& ticket) {
  Table& table = at(ticket.table);
  if (!table.layout.learns_always()) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    save_frozen(ticket.table, ticket.slots);
  }
  workers_->parallel_for(std::ssize(ticket.records), kRowsOfAPast, [&](int64_t begin, int64_t end) {
    table.past.catch_up(std::span(ticket.records)
                            .subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  });
}

std::vector<uint32_t> Core::sum_and_apply(TicketState& ticket, const RowSums& sums,
                                          const RowKernel& kernel) {
  const RowLayout& layout = at(ticket.table).layout;
  const size_t width = layout.width();
  std::mutex results_mutex;
  std::vector<uint32_t> skipped;
  std::vector<Id> begun;
  const auto body = [&](int64_t begin, int64_t end) {
    std::vector<float> space(static_cast<size_t>(end - begin) * width);
    std::vector<std::byte*> records;
    std::vector<const float*> rows;
    std::vector<Id> ids, made;
    for (auto u = static_cast<size_t>(begin); u < static_cast<size_t>(end); ++u) {
      if (ticket.slots[u] == kNoSlot) {
        continue;
      }
      std::byte* record = ticket.records[u];
      __builtin_prefetch(record);
      const float* const row = sums(u, space.data() + (u - static_cast<size_t>(begin)) * width);
      if (!is_finite(row, width)) [[unlikely]] {
        const std::lock_guard lock(results_mutex);
        skipped.push_back(static_cast<uint32_t>(u));
        continue;
      }
      records.push_back(record);
      rows.push_back(row);
      ids.push_back(ticket.batch.unique[u]);
    }
    kernel(records.data(), rows.data(), records.size());
    for (size_t i = 0; i < records.size(); ++i) {
      if (layout.learns_always()) {
        layout.set_until(records[i], static_cast<uint32_t>(ticket.step));
      }
      const RowHeader header = load_header(records[i]);
      if (header.updates == 0) {
        made.push_back(ids[i]);
      }
      store_header(records[i],
                   {.step = static_cast<uint32_t>(ticket.step),
                    .updates = header.updates + (header.updates == 0xffffffffU ? 0U : 1U)});
    }
    if (!made.empty()) {
      const std::lock_guard lock(results_mutex);
      begun.insert(begun.end(), made.begin(), made.end());
    }
  };
  workers_->parallel_for(static_cast<int64_t>(ticket.slots.size()), kChunkRows, body);
  {
    const std::lock_guard lock(mutex_);
    at(ticket.table).rows += begun.size();
    if (sweep_ != nullptr && sweep_->tables[ticket.table].lowest) {
      std::vector<Id>& all = sweep_->tables[ticket.table].begun;
      all.insert(all.end(), begun.begin(), begun.end());
    }
  }
  std::sort(skipped.begin(), skipped.end());
  return skipped;
}

}  // namespace mstrain::embedding_cache
