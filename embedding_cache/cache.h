// Embedding tables larger than memory. Rows with their optimizer state live in tiers (host memory, then a store on disk), are
// fetched ahead for batches that are known, updated in place, and committed all at once.
//
//   Cache cache = Cache::open(options);                       // empty, or where the newest complete commit ended
//   Ticket next = cache.prefetch(table, ids, step);           // returns at once; rows arrive behind the scenes
//   ...
//   cache.wait(ticket);
//   cache.gather(ticket, out, width);                         // out[positions, width]
//   cache.update(ticket, gradients, LazyAdam{.lr = 1e-3F});   // gradients[positions, width]
//   cache.release(std::move(ticket));
//   CommitId id = cache.commit_step(step, user_blob);         // between steps, no ticket open
//
// What holds, whatever the sizes of the tiers, the depth of prefetch and the number of threads:
//   a row held by an open ticket stays where it is;
//   gather sees every update of earlier steps (or, with bounded_staleness k, all but those of the last k tickets: otherwise an error);
//   the first value of a row depends on (seed, table, id) alone, and the gradients of an id are added in the order of positions.
//
// Calls are thread-safe as long as no two use one ticket at the same time (gather and rows may). Calls that want no open ticket are errors
// where there is one; one that would be opened by another thread meanwhile waits. Errors are mstrain::Error for wrong use,
// which leaves everything as it was, and IoError for a tier that failed, after which every call repeats that error: open again to go on from
// the last commit.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "embedding_cache/bags.h"
#include "embedding_cache/lowest.h"
#include "embedding_cache/options.h"
#include "embedding_cache/row.h"
#include "embedding_cache/stats.h"
#include "embedding_cache/update.h"

namespace mstrain::embedding_cache {

class Core;
struct TicketState;

enum class Use : uint8_t {
  kTrain,  // counts for admission, may be updated; steps never decrease, but for batches that were given back
  kRead  // evaluation: sees the rows of now and changes nothing
};

// Holds the rows of one batch in memory until it is released. One of training that is released without an update gives its batch back. Dropping it
// does so too, and makes the next prefetch or commit report it once.
class Ticket {
 public:
  Ticket();  // holds nothing
  Ticket(Ticket&& other) noexcept;
  Ticket& operator=(Ticket&& other) noexcept;
  ~Ticket();

  bool is_open() const { return state_ != nullptr; }
  uint64_t step() const;
  // Since an update, also one that threw because some gradients were not finite.
  bool has_learned() const;
  size_t positions() const;         // ids given to prefetch
  std::span<const Id> ids() const;  // the distinct ones, in the order of their first occurrence
  std::span<const uint32_t> inverse() const;  // per position: index into ids()

 private:
  friend class Cache;
  friend class Stream;
  explicit Ticket(std::unique_ptr<TicketState> state);
  const TicketState& state() const;  // Error when nothing is held
  void drop() noexcept;
  void give_back();
  std::unique_ptr<TicketState> state_;
};

// Rows [begin, end) of what a batch is gathered to: positions, or rows of bags.
struct Tile {
  size_t begin = 0;
  size_t end = ~size_t{0};
};

// Where the rows of a ticket go, pooled into bags: out[rows of bags, stride].
struct Lookup {
  const Ticket* ticket = nullptr;
  Bags bags;
  float* out = nullptr;
  size_t stride = 0;
};

// Applies gradients to records; records[i] learns from gradients[i].
using RowKernel =
    std::function<void(std::byte* const* records, const float* const* gradients, size_t count)>;

enum class GradientsOf : uint8_t { kPositions, kDistinctIds };

struct ExportSummary {
  uint64_t rows = 0;
  uint64_t tombstones = 0;
};

class Cache {
 public:
  // Opens the directory and goes on from its newest complete commit; a damaged one is passed over with a warning. What was not
  // committed is gone. Errors: ConfigError, a directory of something else or of other tables, a directory in use.
  static Cache open(const Options& options);
  // From commit `id` exactly; newer ones are abandoned: removed with the next commit that does not need them. Error where it is missing or damaged.
  static Cache resume(const Options& options, CommitId id);
  Cache(Cache&&) noexcept;
  Cache& operator=(Cache&&) noexcept;
  ~Cache();

  const Options& options() const;
  CommitId last_commit() const;                  // resumed from or durable since; 0: none
  uint64_t last_step() const;                    // of that commit
  std::span<const std::byte> user_blob() const;  // of the commit that was resumed from
  uint32_t table(std::string_view name) const;
  const RowLayout& layout(uint32_t table) const;

  // Tells a batch of training that will be prefetched later, in the order of the prefetches: eviction then spares what is needed soonest.
  void announce(uint32_t table, std::span<const Id> ids);
  // Starts to bring the rows of `ids` into memory and holds them. Ids of announced batches must be prefetched as they were announced.
  // Error when they do not fit beside what other tickets hold.
  Ticket prefetch(uint32_t table, std::span<const Id> ids, uint64_t step, Use use = Use::kTrain);
  // Returns when the rows are in memory; Error where the store gets nowhere for options.wait_seconds.
  void wait(const Ticket& ticket);

  // After wait: weights of positions [tile) to out[(p - tile.begin) * stride ..]. No I/O.
  void gather(const Ticket& ticket, float* out, size_t stride, Tile tile = {}) const;
  // Likewise, pooled into bags: row r of them to out[(r - tile.begin) * stride ..].
  void gather(const Ticket& ticket, const Bags& bags, float* out, size_t stride,
              Tile tile = {}) const;
  // Of several tickets, of one table or many, side by side in one matrix or in several; all threads share the work of all.
  void gather(std::span<const Lookup> lookups, Tile tile = {}) const;
  // After wait: where the weights of each distinct id are, without a copy; valid until release. An id that was not admitted has a row of
  // zeros that it shares with others. Writing there is an error that nobody detects, and so is reading while another thread updates the table.
  void rows(const Ticket& ticket, std::vector<const float*>& out) const;

  // Once per ticket, in the order of the prefetches. `gradients` is [positions, width] or [ids().size(), width]; one update type per segment.
  template <class... Updates>
  requires(sizeof...(Updates) > 0) void update(Ticket& ticket, std::span<const float> gradients,
                                               GradientsOf of, const Updates&... updates) {
    const std::array<OptimizerKind, sizeof...(Updates)> kinds{Updates::kKind...};
    const auto prepared = std::make_tuple(updates.at(ticket.step())...);
    update_rows(ticket, gradients, of, kinds, kernel_of(layout_of(ticket), prepared), {});
  }
  template <class... Updates>
  requires(sizeof...(Updates) > 0) void update(Ticket& ticket, std::span<const float> gradients,
                                               const Updates&... updates) {
    update(ticket, gradients, GradientsOf::kPositions, updates...);
  }
  // With the optimizers that the options name, each learning rate but FTRL's, which falls by itself, times `lr_scale`; the fastest code for
  // this processor.
  // Rows whose gradients, once added up, are infinite or NaN do not learn: an Error names them when all others have.
  void update(Ticket& ticket, std::span<const float> gradients,
              GradientsOf of = GradientsOf::kPositions, float lr_scale = 1.0F);
  // With gradients of bags: one entry that is of whole rows, or one for each segment, in their order.
  void update(Ticket& ticket, std::span<const BagGradients> gradients, float lr_scale = 1.0F);
  template <class... Updates>
  requires(sizeof...(Updates) > 0) void update(Ticket& ticket,
                                               std::span<const BagGradients> gradients,
                                               const Updates&... updates) {
    const std::array<OptimizerKind, sizeof...(Updates)> kinds{Updates::kKind...};
    const auto prepared = std::make_tuple(updates.at(ticket.step())...);
    update_rows(ticket, gradients, kinds, kernel_of(layout_of(ticket), prepared), {});
  }
  // Before the update of a batch of training it gives the batch back, as one that a trainer fetched ahead and stopped before: once the later ones are given
  // back too, it may be prefetched again, and a commit may be of the step that has learned last. A table with an admission rule has counted the
  // batch, which stays: its commits are of that step or later ones.
  void release(Ticket&& ticket);

  // Rows whose newest values lie outside of the cache, as HotRows (hot_rows.h) keeps the books of. After wait: the records of a ticket's distinct ids, null
  // where one was not admitted; valid until release.
  void records(const Ticket& ticket, std::vector<const std::byte*>& out) const;
  // In place of update(): so many rows of the batch have learned outside, `begun` of them for the first time, whether the ticket holds them or not.
  void learned_outside(Ticket& ticket, uint64_t rows, std::span<const Id> begun);
  // Records of distinct ids that are newer than those here. Waits for the store where it must.
  void put(uint32_t table, std::span<const Id> ids, std::span<const std::byte> records);

  // Between steps: no ticket may be open. prepare() writes a commit and returns when it is durable; commit(id) says that whoever asked for
  // it will resume from there, and removes all but the newest options.keep and abandoned ones. Steps of later batches must be greater.
  // start_commit() is a prepare() that returns at once: what has been learned so far is written while training goes on, with as much memory
  // as changes meanwhile and up to store.write_back_mib. It is durable when wait_commit(id) or commit(id) has returned; both throw what it
  // failed with, or else the next commit does, and no row of it is lost to later ones. Closing waits for it as long as it gets on; where it
  // has not for options.wait_seconds, a warning says that it is given up.
  CommitId prepare(uint64_t step, std::span<const std::byte> user_blob = {});
  CommitId start_commit(uint64_t step, std::span<const std::byte> user_blob = {});
  void wait_commit(CommitId id);
  void commit(CommitId id);
  // Likewise, where whoever asked may resume from any of `needed` as well: of the commits before `id`, abandoned ones too, those go that are not
  // among them.
  void commit(CommitId id, std::span<const CommitId> needed);
  CommitId commit_step(uint64_t step, std::span<const std::byte> user_blob = {});  // both

  // Forgets what EvictionOptions say; returns how many rows. Reads every row of tables with such a rule, unless start_evict(step) has. No
  // ticket may be open. Where several caches share the rows of their tables, `sum` adds a number up over all of them, and numbers of rows
  // are those of all: each of them calls this at the same time, with the same rules, and start_evict likewise.
  uint64_t evict(uint64_t step, const SumOver& sum = {});
  // Begins to look, in a thread of its own, for the rows that evict(step) will forget, which then has only these left to look at. Begun before
  // the tables have learned step - ttl_steps it is of no use for old rows, and evict() looks itself.
  void start_evict(uint64_t step, const SumOver& sum = {});

  // Writes the rows that learned, or were loaded, after commit `since` (0: all) as one file; tombstones name the rows that are gone. `with_state`
  // decides whether the optimizer state goes along. Reads the sorted files with such rows, not the others. No ticket may be open.
  ExportSummary export_delta(CommitId since, const std::string& path, bool with_state = true);
  // Takes over the rows and tombstones of a file that has the state, begins no later than what is here ends, ends no earlier, and is not of a
  // run that has gone back to before what is here. One of everything takes the place of all rows, and its tombstones are the rows that went.
  // A row that is here must not be newer than its successor. No ticket may be open.
  ExportSummary import_delta(const std::string& path);
  // Bulk load: records (layout().record_bytes() each, updates > 0) of ascending ids, none older than the row that it replaces. No ticket may
  // be open.
  void load(uint32_t table, std::span<const Id> ids, std::span<const std::byte> records);
  // Likewise of weights alone, [ids, layout().width()], where no row of these ids is: they begin to learn from there.
  void load_weights(uint32_t table, std::span<const Id> ids, std::span<const float> weights);

  // The steps that rows of a table have learned at, where a segment of theirs learns at every one; for the cache that takes the rows over, which
  // is told before it learns or is read. No ticket may be open.
  std::span<const PastStep> past(uint32_t table) const;
  void go_through(uint32_t table, std::span<const PastStep> steps);
  // Every row with at least one update, ascending by id, with its record, which may lie at any address: copy the floats before using them
  // as such. No ticket may be open.
  void scan(uint32_t table, const std::function<void(Id, const std::byte*)>& visit);
  // SHA-256 over all rows, states and counters of all tables: equal for equal training, whatever the sizes. No ticket may be open.
  std::string digest();
  Stats stats() const;

 private:
  explicit Cache(std::shared_ptr<Core> core);
  const RowLayout& layout_of(const Ticket& ticket) const;
  void update_rows(Ticket& ticket, std::span<const float> gradients, GradientsOf of,
                   std::span<const OptimizerKind> kinds, const RowKernel& kernel,
                   std::optional<float> lr_scale);
  void update_rows(Ticket& ticket, std::span<const BagGradients> gradients,
                   std::span<const OptimizerKind> kinds, const RowKernel& kernel,
                   std::optional<float> lr_scale);

  // Valid as long as what it is made of.
  template <class... Prepared>
  static RowKernel kernel_of(const RowLayout& layout, const std::tuple<Prepared...>& prepared) {
    return [&](std::byte* const* records, const float* const* rows, size_t count) {
      for (size_t i = 0; i < count; ++i) {
        apply(layout, records[i], rows[i], prepared, std::index_sequence_for<Prepared...>());
      }
    };
  }
  template <class Tuple, size_t... I>
  static void apply(const RowLayout& layout, std::byte* record, const float* gradient,
                    const Tuple& updates, std::index_sequence<I...>) {
    float* floats = weights_of(record);
    (std::get<I>(updates)(floats + layout.parts()[I].weights, floats + layout.parts()[I].state,
                          gradient + layout.parts()[I].weights, layout.parts()[I].width),
     ...);
  }

  std::shared_ptr<Core> core_;
};

}  // namespace mstrain::embedding_cache
