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

Tensors tensors_of(const BatchSource& source, const Read& batch, const FillRows& fill) {
  const Types types = source.tables->batch_types(batch.samples.samples);
  std::vector<HostWrite> writes;
  writes.reserve(types.size());
  for (const TensorType& type : types) {
    writes.emplace_back(type);
  }
  std::ranges::copy(batch.samples.labels, writes[0].values<float>().begin());
  size_t place = 1;
  if (source.tables->columns() > 0) {
    std::ranges::copy(batch.samples.numeric, writes[place++].values<float>().begin());
  }
  std::vector<Looked> looked = lookups_of(*source.tables, batch);
  for (Looked& of : looked) {
    of.out = writes[place++].values<float>().data();
  }
  fill(looked);
  if (source.tables->group()) {
    constexpr uint64_t kExact = (uint64_t{1} << 53) - 1;  // in a double
    const std::vector<uint64_t>& ids = batch.samples.fields[*source.tables->group()].ids;
    std::ranges::transform(ids, writes[place++].values<int64_t>().begin(),
                           [](uint64_t id) { return static_cast<int64_t>(id & kExact); });
  }
  Tensors out;
  for (HostWrite& write : writes) {
    out.push_back(write.finish());
  }
  return out;
}

}  // namespace

Read read_batch(const BatchSource& source, const std::vector<int64_t>& samples,
                int64_t micro_batches) {
  Read out;
  source.samples->read(samples, out.samples);
  for (const TableSpec& table : source.tables->specs()) {
    out.keys.push_back(keys_of(table, out.samples));
  }
  if (source.rows->group() != nullptr || micro_batches > 1) {
    std::vector<RowRequest> requests;
    for (size_t t = 0; t < out.keys.size(); ++t) {
      requests.push_back(request_of(source.rows->placement(), t, source.tables->specs()[t],
                                    static_cast<size_t>(source.tables->width()), out.keys[t],
                                    micro_batches));
    }
    out.trip = std::make_unique<RowTrip>(source.rows->group(), source.rows->placement(),
                                         std::move(requests), micro_batches);
  }
  return out;
}

Tickets fetch(Cache& cache, const Read& batch, uint64_t step, Use use) {
  Tickets tickets;
  for (size_t t = 0; t < batch.keys.size(); ++t) {
    tickets.push_back(cache.prefetch(static_cast<uint32_t>(t), batch.ids(t), step, use));
  }
  return tickets;
}

void release_all(Cache& cache, Tickets& tickets) {
  for (embedding_cache::Ticket& ticket : tickets) {
    cache.release(std::move(ticket));
  }
  tickets.clear();
}

Tensors tensors_of(const BatchSource& source, Cache& cache, Read& batch, const Tickets& tickets) {
  ThreadPool& workers = source.rows->workers();
  return tensors_of(source, batch, [&](std::span<const Looked> looked) {
    if (batch.trip == nullptr) {
      std::vector<Lookup> lookups;
      for (const auto& [table, bags, stride, out] : looked) {
        lookups.push_back({&tickets[table], bags, out, stride});
      }
      cache.gather(lookups);
      return;
    }
    batch.trip->bring(cache, tickets, workers);
    for (const Looked& of : looked) {
      pool_block(batch.trip->records(of.table), batch.trip->batch(of.table).inverse, of,
                 cache.layout(static_cast<uint32_t>(of.table)), workers);
      batch.trip->pooled(of.table).take(of.out, of.stride);
    }
  });
}

Tensors saved_tensors_of(const BatchSource& source, const Read& batch) {
  std::vector<RowBlock> blocks(batch.keys.size());
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
  std::vector<HostRead> values;
  for (const Tensor& gradient : gradients) {
    values.emplace_back(gradient);
  }
  const auto scale = static_cast<float>(lr_scale);
  const std::vector<Looked> looked = lookups_of(*source.tables, batch);
  for (size_t t = 0, place = 0; t < tickets.size(); ++t) {
    std::vector<BagGradients> of_bags;
    for (; place < looked.size() && looked[place].table == t; ++place) {
      of_bags.push_back(
          {looked[place].bags, values[place].values<float>().data(), looked[place].stride});
    }
    if (batch.trip == nullptr) {
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
    cache.update(tickets[t], given, embedding_cache::GradientsOf::kPositions, scale);
  }
}

}  // namespace mstrain::recommender
