#include "embedding_cache/rehearsal.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "core/base/hash.h"
#include "core/base/rng.h"

namespace mstrain::embedding_cache {
namespace {

// Skewed: the square of a uniform number favours low ranks; a hash then scatters them over all 64 bits.
std::vector<Id> batch_of(const Rehearsal& r, uint32_t table, uint64_t step) {
  Rng rng(hash_combine(r.seed, table), step);
  std::vector<Id> ids(r.positions);
  for (Id& id : ids) {
    const double u = rng.uniform();
    id = hash_mix(static_cast<uint64_t>(u * u * u * static_cast<double>(r.vocabulary)) + 1);
  }
  return ids;
}

// A bit of the weights and a bit of noise, by position.
void gradients_of(const Rehearsal& r, uint32_t table, uint64_t step, std::vector<float>& weights) {
  Rng rng(hash_combine(r.seed ^ 0x67726164U, table), step);
  for (float& w : weights) {
    w = 0.1F * w + (to_unit_float(rng.next_u32()) - 0.5F);
  }
}

}  // namespace

Options Rehearsal::cache_options(const std::string& directory, double share,
                                 StoreKind store) const {
  // A batch and those ahead of it must fit whatever the share.
  const auto rows = static_cast<uint64_t>(static_cast<double>(vocabulary) * share);
  const uint64_t host_rows = std::max<uint64_t>(rows, uint64_t{positions} * (depth + 1) + 8);
  Options options;
  options.directory = directory;
  options.seed = seed;
  options.store.kind = store;
  options.store.write_back_rows = 64;
  options.store.read_threads = 4;
  TableOptions deep{.name = "deep", .host_rows = host_rows};
  deep.segments = {
      {.width = 6, .optimizer = {.kind = OptimizerKind::kLazyAdam, .lr = 0.01F}},
      {.width = 1,
       .optimizer = {.kind = OptimizerKind::kFtrl, .lr = 0.05F, .initial_accumulator = 1.0F},
       .init = {.kind = InitKind::kZero}}};
  deep.eviction = {.max_rows = vocabulary / 3, .score = Score::kLfu};
  TableOptions plain{.name = "plain", .host_rows = host_rows, .policy = Policy::kLru};
  plain.segments = {{.width = 3,
                     .optimizer = {.kind = OptimizerKind::kAdagrad, .lr = 0.05F},
                     .init = {.kind = InitKind::kUniform, .scale = 0.05F}}};
  plain.admission = {.kind = AdmissionKind::kCount, .count = 2};
  plain.eviction = {.ttl_steps = 15, .min_keep_rows = 20};
  options.tables = {deep, plain};
  return options;
}

void Rehearsal::run(Cache& cache) const {
  const auto tables = static_cast<uint32_t>(cache.options().tables.size());
  uint64_t ahead = cache.last_step() + 1;  // next step to prefetch
  uint64_t told = cache.last_step() + 1;   // next step to announce
  std::deque<std::vector<Ticket>> open;
  std::vector<float> values;
  CommitId started = 0;
  const auto await_started = [&] {
    if (started != 0) {
      cache.commit(std::exchange(started, 0));
    }
  };
  for (uint64_t step = cache.last_step() + 1; step <= steps; ++step) {
    // No ticket crosses a commit.
    const uint64_t barrier =
        commit_every == 0
            ? steps
            : std::min(steps, (step - 1) / commit_every * commit_every + commit_every);
    if (look_ahead > 0) {
      for (; told <= std::min(steps, step + depth + look_ahead); ++told) {
        for (uint32_t t = 0; t < tables; ++t) {
          cache.announce(t, batch_of(*this, t, told));
        }
      }
    }
    for (; ahead <= std::min(barrier, step + depth); ++ahead) {
      std::vector<Ticket> tickets;
      for (uint32_t t = 0; t < tables; ++t) {
        tickets.push_back(cache.prefetch(t, batch_of(*this, t, ahead), ahead));
      }
      open.push_back(std::move(tickets));
    }
    std::vector<Ticket> tickets = std::move(open.front());
    open.pop_front();
    for (uint32_t t = 0; t < tables; ++t) {
      const size_t width = cache.layout(t).width();
      cache.wait(tickets[t]);
      values.assign(tickets[t].positions() * width, 0.0F);
      cache.gather(tickets[t], values.data(), width);
      gradients_of(*this, t, step, values);
      cache.update(tickets[t], values);
      cache.release(std::move(tickets[t]));
    }
    if (commit_every != 0 && step % commit_every == 0) {
      if (evict_every != 0 && step % evict_every == 0) {
        cache.evict(step);
      }
      await_started();
      if (commit_behind) {
        started = cache.start_commit(step);
      } else {
        cache.commit_step(step);
      }
    }
  }
  await_started();
}

}  // namespace mstrain::embedding_cache
