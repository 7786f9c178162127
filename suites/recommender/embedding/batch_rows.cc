#include "suites/recommender/embedding/batch_rows.h"

#include <algorithm>
#include <functional>

#include "core/tensor/host.h"
#include "embedding_cache/pool.h"

namespace mstrain::recommender {
namespace {

using embedding_cache::BagGradients;
using embedding_cache::Bags;
using embedding_cache::Cache;
using embedding_cache::Lookup;
using embedding_cache::Pooling;
using embedding_cache::RowLayout;
using embedding_cache::Use;

constexpr int64_t kSamplesAtOnce = 64;
constexpr int64_t kIdsAtOnce = 256;

Bags vector_bags(const TableSpec& table, const TableKeys& keys) {
  return {.offsets = keys.field_offsets,
          .pooling = table.takes_largest ? Pooling::kMax : Pooling::kSum,
          .weights = table.is_numeric ? std::span<const float>() : keys.weights,
          .segment = table.vector_segment(),
          .per_row = table.fields.size()};
}

Bags weight_bags(const TableSpec& table, const TableKeys& keys) {
  return {
      .offsets = keys.sample_offsets, .weights = keys.weights, .segment = table.weight_segment()};
}

// Of a batch's tables, in the order of TrainTask::looked_up.
struct Looked {
  size_t table;
  Bags bags;
  size_t stride;
  float* out = nullptr;
};
using FillRows = std::function<void(std::span<const Looked> looked)>;

std::vector<Looked> lookups_of(const Tables& tables, const Read& batch) {
  std::vector<Looked> out;
  const std::vector<TableSpec>& specs = tables.specs();
  for (size_t t = 0; t < specs.size(); ++t) {
    if (specs[t].has_vectors) {
      out.push_back({t, vector_bags(specs[t], batch.keys[t]),
                     specs[t].fields.size() * static_cast<size_t>(tables.width())});
    }
    if (specs[t].has_weights) {
      out.push_back({t, weight_bags(specs[t], batch.keys[t]), 1});
    }
  }
  return out;
}

void pool_block(const std::byte* const* records, std::span<const uint32_t> inverse,
                const Looked& of, const RowLayout& layout, ThreadPool& workers) {
  const embedding_cache::PoolJob job{
      records, inverse,  of.bags, check_bags(of.bags, inverse.size(), layout, of.stride, "gather"),
      of.out,  of.stride};
  workers.parallel_for(static_cast<int64_t>(rows_of(of.bags, inverse.size())), kSamplesAtOnce,
                       [&](int64_t begin, int64_t end) {
                         pool_rows(job, static_cast<size_t>(begin), static_cast<size_t>(end));
                       });
}

// What the distinct ids of a trip learn, [ids, width].
std::vector<float> sums_of(const RowTrip& trip, size_t table, const RowLayout& layout,
                           std::span<const BagGradients> of_bags, ThreadPool& workers) {
  const embedding_cache::Batch& batch = trip.batch(table);
  const embedding_cache::BagSums sums(batch, layout, trip.records(table), of_bags, workers);
  std::vector<float> out(batch.unique.size() * layout.width());
  workers.parallel_for(std::ssize(batch.unique), kIdsAtOnce, [&](int64_t begin, int64_t end) {
    for (auto u = static_cast<size_t>(begin); u < static_cast<size_t>(end); ++u) {
      if (!trip.is_pooled(table, u)) {
        sums.add_up(u, out.data() + u * layout.width());
      }
    }
  });
  return out;
}

// `on_device` gives what is looked up there, and nothing of other tables, which `fill` looks up.
using LookUp = std::function<Tensor(const Looked& of)>;
Tensors tensors_of(
    const BatchSource& source, const Read& batch, const FillRows& fill,
    const LookUp& on_device = [](const Looked&) { return Tensor(); }) {
  const Types types = source.tables->batch_types(batch.samples.samples);
  Tensors out(types.size());
  std::vector<std::pair<size_t, HostWrite>> writes;
  const auto write = [&](size_t place) -> const HostWrite& {
    return writes.emplace_back(place, HostWrite(types[place])).second;
  };
  writes.reserve(types.size());
  std::ranges::copy(batch.samples.labels, write(0).values<float>().begin());
  size_t place = 1;
  if (source.tables->columns() > 0) {
    std::ranges::copy(batch.samples.numeric, write(place++).values<float>().begin());
  }
  std::vector<Looked> looked;
  for (Looked& of : lookups_of(*source.tables, batch)) {
    out[place] = on_device(of);
    if (!out[place].defined()) {
      of.out = write(place).values<float>().data();
      looked.push_back(of);
    }
    ++place;
  }
  fill(looked);
  if (source.tables->group()) {
    constexpr uint64_t kExact = (uint64_t{1} << 53) - 1;  // in a double
    const std::vector<uint64_t>& ids = batch.samples.fields[*source.tables->group()].ids;
    std::ranges::transform(ids, write(place).values<int64_t>().begin(),
                           [](uint64_t id) { return static_cast<int64_t>(id & kExact); });
  }
  for (auto& [at, written] : writes) {
    out[at] = written.finish();
  }
  return out;
}

// By table, of what the rows of a batch are to a trip through ranks.
std::vector<HeldRows> held_rows(const BatchSource& source, const Cache& cache, const Read& batch,
                                const Tickets& tickets, std::vector<std::vector<float>>& space) {
  std::vector<HeldRows> held(tickets.size());
  space.resize(tickets.size());
  for (size_t t = 0; t < tickets.size(); ++t) {
    if (!tickets[t].is_open()) {
      DeviceRows* const rows = source.rows->on_device(t);
      const size_t width = cache.layout(static_cast<uint32_t>(t)).width();
      space[t] = rows->weights();
      for (size_t i = 0; i < space[t].size(); i += width) {
        held[t].weights.push_back(space[t].data() + i);
      }
      held[t].inverse = batch.on_device[t].distinct.inverse;
    } else {
      held[t] = HeldRows(cache, tickets[t]);
    }
  }
  return held;
}

}  // namespace

bool all_on_device(const BatchSource& source) {
  for (size_t t = 0; t < source.tables->specs().size(); ++t) {
    if (!source.rows->has_device(t)) {
      return false;
    }
  }
  return true;
}

Read read_batch(const BatchSource& source, const std::vector<int64_t>& samples,
                int64_t micro_batches, Use use) {
  Read out;
  source.samples->read(samples, out.samples);
  for (const TableSpec& table : source.tables->specs()) {
    out.keys.push_back(keys_of(table, out.samples));
  }
  out.on_device.resize(out.keys.size());
  if (source.rows->group() != nullptr || (micro_batches > 1 && !all_on_device(source))) {
    std::vector<RowRequest> requests;
    for (size_t t = 0; t < out.keys.size(); ++t) {
      requests.push_back(request_of(source.rows->placement(), t, source.tables->specs()[t],
                                    static_cast<size_t>(source.tables->width()), out.keys[t],
                                    micro_batches));
    }
    out.trip = std::make_unique<RowTrip>(source.rows->group(), source.rows->placement(),
                                         std::move(requests), micro_batches);
  } else {
    for (size_t t = 0; use == Use::kTrain && t < out.keys.size(); ++t) {
      if (source.rows->has_device(t)) {
        out.on_device[t] = device_batch(source.tables->specs()[t], out.keys[t], micro_batches);
      }
    }
  }
  return out;
}

void fetch(const BatchSource& source, Cache& cache, Read& batch, uint64_t step, Use use,
           Tickets& tickets) {
  for (size_t t = tickets.size(); t < batch.keys.size(); ++t) {
    const auto table = static_cast<uint32_t>(t);
    DeviceRows* const rows = source.rows->on_device(t);
    if (rows == nullptr) {
      tickets.push_back(cache.prefetch(table, batch.ids(t), step, use));
      continue;
    }
    DeviceBatch& own = batch.on_device[t];
    if (batch.trip != nullptr && own.order.empty()) {
      own = device_batch(batch.ids(t));
    }
    if (use == Use::kTrain) {
      rows->hold(own, step);
      tickets.emplace_back();
    } else {
      tickets.push_back(cache.prefetch(table, rows->hot().missing(own.distinct.unique), step, use));
    }
  }
}

void release_all(Cache& cache, Tickets& tickets) {
  for (embedding_cache::Ticket& ticket : tickets) {
    if (ticket.is_open()) {
      cache.release(std::move(ticket));
    }
  }
  tickets.clear();
}

void drop_all(const BatchSource& source) {
  for (size_t t = 0; t < source.tables->specs().size(); ++t) {
    if (DeviceRows* const rows = source.rows->on_device(t)) {
      rows->drop();
    }
  }
}

Tensors tensors_of(const BatchSource& source, Cache& cache, Read& batch, const Tickets& tickets) {
  ThreadPool& workers = source.rows->workers();
  const LookUp on_device = [&](const Looked& of) {
    if (batch.trip != nullptr || tickets[of.table].is_open()) {
      return Tensor();
    }
    return source.rows->on_device(of.table)->look_up(
        batch.on_device[of.table], of.bags,
        of.bags.segment == source.tables->specs()[of.table].weight_segment()
            ? 0
            : static_cast<int64_t>(of.bags.per_row));
  };
  const FillRows fill = [&](std::span<const Looked> looked) {
    if (batch.trip == nullptr) {
      std::vector<Lookup> lookups;
      for (const auto& [table, bags, stride, out] : looked) {
        lookups.push_back({&tickets[table], bags, out, stride});
      }
      cache.gather(lookups);
      return;
    }
    std::vector<std::vector<float>> space;
    batch.trip->bring(cache, held_rows(source, cache, batch, tickets, space), workers);
    for (const Looked& of : looked) {
      pool_block(batch.trip->records(of.table), batch.trip->batch(of.table).inverse, of,
                 cache.layout(static_cast<uint32_t>(of.table)), workers);
      batch.trip->pooled(of.table).take(of.out, of.stride);
    }
  };
  return tensors_of(source, batch, fill, on_device);
}

Tensors saved_tensors_of(const BatchSource& source, const Read& batch,
                         std::vector<RowBlock>& blocks) {
  blocks.resize(batch.keys.size());
  std::vector<embedding_cache::Batch> distinct(batch.keys.size());
  std::vector<RowLayout> layouts;
  embedding_cache::Dedup dedup;
  for (size_t t = 0; t < blocks.size(); ++t) {
    dedup.run(batch.keys[t].ids, distinct[t]);
    const size_t width = layouts.emplace_back(source.rows->options().tables[t]).width();
    blocks[t].resize(distinct[t].unique.size(), width);
    source.rows->look_up(t, distinct[t].unique, blocks[t].data(), width);
  }
  return tensors_of(source, batch, [&](std::span<const Looked> looked) {
    for (const Looked& of : looked) {
      pool_block(blocks[of.table].records(), distinct[of.table].inverse, of, layouts[of.table],
                 source.rows->workers());
    }
  });
}

void learn_rows(const BatchSource& source, Cache& cache, Read& batch, Tickets& tickets,
                const Tensors& gradients, double lr_scale) {
  const auto scale = static_cast<float>(lr_scale);
  const std::vector<Looked> looked = lookups_of(*source.tables, batch);
  std::vector<HostRead> values;
  values.reserve(gradients.size());
  for (size_t t = 0, place = 0; t < tickets.size(); ++t) {
    Tensors own;
    std::vector<BagGradients> of_bags;
    DeviceRows* const rows = source.rows->on_device(t);
    const bool on_device = rows != nullptr && batch.trip == nullptr;
    for (; place < looked.size() && looked[place].table == t; ++place) {
      own.push_back(gradients[place]);
      if (!on_device) {
        values.emplace_back(gradients[place]);
        of_bags.push_back(
            {looked[place].bags, values.back().values<float>().data(), looked[place].stride});
      }
    }
    if (on_device) {
      rows->learn(batch.on_device[t], own, scale);
    } else if (batch.trip == nullptr) {
      cache.update(tickets[t], of_bags, scale);
    } else {
      batch.trip->give(t,
                       sums_of(*batch.trip, t, cache.layout(static_cast<uint32_t>(t)), of_bags,
                               source.rows->workers()),
                       of_bags.front().gradients, of_bags.front().stride);
    }
  }
  for (size_t t = 0; batch.trip != nullptr && t < tickets.size(); ++t) {
    const std::span<const float> given =
        batch.trip->given(t, cache.layout(static_cast<uint32_t>(t)), source.rows->workers());
    if (DeviceRows* const rows = source.rows->on_device(t)) {
      rows->learn(batch.on_device[t], given, scale);
    } else {
      cache.update(tickets[t], given, embedding_cache::GradientsOf::kPositions, scale);
    }
  }
}

}  // namespace mstrain::recommender
