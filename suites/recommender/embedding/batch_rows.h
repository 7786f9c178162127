// What a batch looks up, and what its rows learn: in this rank's cache, or through the ranks that share the tables.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "suites/recommender/embedding/batches.h"
#include "suites/recommender/embedding/device_batch.h"
#include "suites/recommender/embedding/row_block.h"
#include "suites/recommender/embedding/row_exchange.h"

namespace mstrain::recommender {

// A rank's part of a batch as it was read, with what it looks up in each table.
struct Read {
  SampleBatch samples;
  std::vector<TableKeys> keys;
  std::unique_ptr<RowTrip> trip;  // null: its rows are this rank's, and learn all at once
  std::vector<DeviceBatch>
      on_device;  // of tables with rows there; where there is a trip, once it has asked

  // What this rank's cache is asked for.
  const std::vector<embedding_cache::Id>& ids(size_t table) const {
    return trip == nullptr ? keys[table].ids : trip->wanted()[table];
  }
};

// Whether all rows learn on the device.
bool all_on_device(const BatchSource& source);
// `micro_batches`: of the part, each of which adds up what its rows learn.
Read read_batch(const BatchSource& source, const std::vector<int64_t>& samples,
                int64_t micro_batches, embedding_cache::Use use);

// Of each table; one is closed where its rows are on the device.
using Tickets = std::vector<embedding_cache::Ticket>;
// Those that `tickets` does not have yet, table by table: after an error, as where rows of one do not fit beside what other tickets hold,
// it has those of the tables before, and the same call goes on. Rows of training come to the device; of others only what the device has not
// is held.
void fetch(const BatchSource& source, embedding_cache::Cache& cache, Read& batch, uint64_t step,
           embedding_cache::Use use, Tickets& tickets);
void release_all(embedding_cache::Cache& cache, Tickets& tickets);
// What is held on the device does not learn.
void drop_all(const BatchSource& source);

// The batch's tensors, with the rows as they are now; `tickets` are waited for. Every rank calls it.
Tensors tensors_of(const BatchSource& source, embedding_cache::Cache& cache, Read& batch,
                   const Tickets& tickets);
// The same, with the rows of the checkpoint that Rows::open_to_read() opened. `space` is kept from batch to batch.
Tensors saved_tensors_of(const BatchSource& source, const Read& batch,
                         std::vector<RowBlock>& space);
// Rows learn from the gradients of what was looked up, which are waited for where rows learn on the host. Every rank calls it.
void learn_rows(const BatchSource& source, embedding_cache::Cache& cache, Read& batch,
                Tickets& tickets, const Tensors& gradients, double lr_scale);

}  // namespace mstrain::recommender
