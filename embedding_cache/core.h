// The state behind a Cache; not for users. One mutex guards all bookkeeping; rows themselves are ordered by pins and fetches:
// a fetch writes the slots that its ticket pinned before anyone waits for it, updates write slots whose ticket is open while nobody else reads
// rows of that table, and what leaves is copied out under the mutex when nobody holds it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/base/thread_pool.h"
#include "embedding_cache/admission.h"
#include "embedding_cache/cache.h"
#include "embedding_cache/commit.h"
#include "embedding_cache/dedup.h"
#include "embedding_cache/fair_mutex.h"
#include "embedding_cache/host_tier.h"
#include "embedding_cache/look_ahead.h"
#include "embedding_cache/lowest.h"
#include "embedding_cache/past.h"
#include "embedding_cache/row_store.h"
#include "embedding_cache/snapshot.h"
#include "embedding_cache/write_back.h"

namespace mstrain::embedding_cache {

struct Table {
  Table(const TableOptions& table_options, uint64_t seed);

  TableOptions options;
  RowLayout layout;
  uint64_t seed;
  HostSlots host;
  Past past;  // like the rows of open tickets: see `learning`
  Dedup dedup;
  LookAhead window;
  AdmissionFilter admission;
  // Id -> step, later than that of a commit that is kept, at which its row was forgotten, or one of an earlier step came from elsewhere.
  SharedIdMap tombstones;
  uint64_t learned_step = 0;
  uint64_t last_step = 0;  // of the newest training ticket that has learned or is open
  // One that had not learned went since: it may be prefetched again, before those announced.
  bool gave_back = false;
  uint64_t rows = 0;
  uint64_t rows_kept = 0;        // when rows were forgotten last
  std::vector<std::byte> zeros;  // the row of ids without one
  FairSharedMutex
      learning;  // held by who writes to rows of open tickets, shared by who reads them; before the owner's mutex
  std::deque<TicketState*>
      training;  // open tickets of training without an update yet, in the order of prefetch
  std::unordered_map<Id, std::vector<std::byte>> shadow;
  std::optional<uint64_t> loaded = 0;  // rows that came by ascending loads alone; none: some went
  Id last_loaded = 0;
  TableStats stats;
};

struct TicketState {
  std::shared_ptr<Core> core;
  uint32_t table = 0;
  uint64_t step = 0;
  Use use = Use::kTrain;
  Batch batch;
  std::vector<Slot> slots;          // per distinct id; kNoSlot without a row
  std::vector<std::byte*> records;  // likewise
  uint64_t needs_fetch = 0;         // this and all earlier fetches must have ended
  bool waited = false;
  bool updated = false;
};

// A Lookup, from inside.
struct HeldLookup {
  const TicketState* ticket = nullptr;
  Bags bags;
  float* out = nullptr;
  size_t stride = 0;
};

// Rows of one prefetch that come from the store.
struct Fetch {
  uint64_t number = 0;
  uint32_t table = 0;
  std::vector<Id> ids;  // ascending
  std::vector<std::byte*> into;
  size_t chunks_left = 0;
};

// A commit that is written while training goes on.
struct PendingCommit {
  // What a table is besides its rows, as it was; the table's own filter and tombstones are frozen meanwhile.
  struct TableView {
    uint64_t rows;
    uint64_t last_step;
    AdmissionFilter::View admission;
    SharedIdMap::View tombstones;
    std::vector<PastStep> past;
  };
  CommitInfo info;
  std::string user_blob;
  std::vector<TableView> tables;
  Snapshot rows;
  bool in_store = false;  // all rows: from here on nothing need be saved
  bool done = false;
  std::exception_ptr error;
};

// A look for rows of which evict(step) will forget some.
struct Sweep {
  struct OfTable {
    // As they were when they were seen.
    std::vector<ScoredRow> old;        // the score is the step of the last update
    std::optional<LowestRows> lowest;  // none: the table has room for all of its rows
    std::vector<Id> begun;             // rows that need not have been seen
  };
  uint64_t step = 0;
  std::vector<OfTable> tables;
  std::atomic<bool> is_stopped = false;
  bool done = false;
  bool failed = false;    // whoever evicts looks itself
  bool is_early = false;  // likewise: rows began that may be too old then
};

// What the row of a distinct id learns: floats of the caller's, or those that it writes into space for a row.
using RowSums = std::function<const float*(size_t id, float* space)>;

class Core : public std::enable_shared_from_this<Core> {
 public:
  explicit Core(const Options& options);
  ~Core();
  void open(CommitId wanted);  // 0: the newest
  void close();

  void announce(uint32_t table, std::span<const Id> ids);
  std::unique_ptr<TicketState> prefetch(uint32_t table, std::span<const Id> ids, uint64_t step,
                                        Use use);
  void wait(TicketState& ticket);
  void gather(std::span<const HeldLookup> lookups, Tile tile);
  void rows(const TicketState& ticket, std::vector<const float*>& out);
  // `lr_scale`: of a kernel that is made from the options; none: it is the caller's.
  void update(TicketState& ticket, std::span<const float> gradients, GradientsOf of,
              std::span<const OptimizerKind> kinds, const RowKernel& kernel,
              std::optional<float> lr_scale);
  void update(TicketState& ticket, std::span<const BagGradients> gradients,
              std::span<const OptimizerKind> kinds, const RowKernel& kernel,
              std::optional<float> lr_scale);
  void records(const TicketState& ticket, std::vector<const std::byte*>& out);
  void learned_outside(TicketState& ticket, uint64_t rows, std::span<const Id> begun);
  void put(uint32_t table, std::span<const Id> ids, std::span<const std::byte> records);
  void release(TicketState& ticket);
  void drop(TicketState& ticket, bool unwinding) noexcept;

  CommitId start_commit(uint64_t step, std::span<const std::byte> user_blob);
  void wait_commit(CommitId id);
  CommitId prepare(uint64_t step, std::span<const std::byte> user_blob);
  // `needed`: of older commits these stay; none: the newest options.keep in all do.
  void commit(CommitId id, std::optional<std::span<const CommitId>> needed = {});
  CommitId last_commit() const;
  uint64_t last_step() const;
  uint64_t evict(uint64_t step, const SumOver& sum);
  void start_evict(uint64_t step, const SumOver& sum);
  ExportSummary export_delta(CommitId since, const std::string& path, bool with_state);
  ExportSummary import_delta(const std::string& path);
  void load(uint32_t table, std::span<const Id> ids, std::span<const std::byte> records);
  void load_weights(uint32_t table, std::span<const Id> ids, std::span<const float> weights);
  void scan(uint32_t table, const RowVisitor& visit);
  void go_through(uint32_t table, std::span<const PastStep> steps);
  std::string digest();
  Stats stats();

  Table& at(uint32_t table);

  Options options;
  FileSystem* files = nullptr;
  std::vector<std::unique_ptr<Table>> tables;
  std::string user_blob;  // of the commit resumed from

 private:
  using Lock = std::unique_lock<std::mutex>;
  void require_healthy() const;
  void poison(const std::string& message, std::exception_ptr error);
  // Waits until `done()`, as long as the store gets on; false where it has not for options.wait_seconds.
  bool wait_for(Lock& lock, const std::function<bool()>& done);
  // Likewise; throws Error("<what> is late ...") instead, or the error that poisoned the cache.
  void wait_until(Lock& lock, const std::function<bool()>& done, const std::string& what);
  // No open ticket and no fetch under way, as long as it lives: calls of other threads that would change that wait.
  class Quiet {
   public:
    Quiet(Core& core, Lock& lock, const char* call);
    ~Quiet();
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;

   private:
    Core& core_;
    Lock& lock_;
  };
  void require_no_tickets(const char* call);
  void check_ticket(const TicketState& ticket, const char* call) const;
  void check_order(const TicketState& ticket, const char* call);

  void check_step(const Table& table, uint64_t step) const;
  // Slots of the ids that have one; throws where the others would not fit. Marks ids that get no row in `refused`.
  void plan_batch(const Table& table, TicketState& ticket, std::vector<bool>& refused);
  std::vector<uint32_t> hold_resident(Table& table, const TicketState& ticket,
                                      const std::vector<bool>& refused,
                                      const std::vector<uint64_t>& next);
  static void count_hits(Table& table, const TicketState& ticket, const std::vector<bool>& refused,
                         const std::vector<uint32_t>& missing);
  void evict_for(uint32_t table, uint64_t missing);
  void bring_in(TicketState& ticket, const std::vector<uint32_t>& missing,
                const std::vector<uint64_t>& next);
  std::unique_ptr<TicketState> hold_batch(std::unique_ptr<TicketState> ticket, bool announced,
                                          const std::vector<bool>& refused);
  void start_fetch(const std::shared_ptr<Fetch>& fetch);
  void run_chunk(const std::shared_ptr<Fetch>& fetch, size_t begin, size_t end);
  void end_chunk(Fetch& fetch, std::exception_ptr error);
  void unpin_all(TicketState& ticket);
  static void note_learned(Table& table, TicketState& ticket);
  // Returns the ids whose gradients are not finite and that have not learned, as ascending indices.
  std::vector<uint32_t> sum_and_apply(TicketState& ticket, const RowSums& sums,
                                      const RowKernel& kernel);
  void learn(TicketState& ticket, std::span<const OptimizerKind> kinds,
             const std::function<RowSums()>& sums, const RowKernel& kernel,
             std::optional<float> lr_scale);
  // `learning` of tables, as whoever reads rows holds it.
  struct Still {
    std::vector<std::shared_lock<FairSharedMutex>> shared;
    std::vector<std::unique_lock<FairSharedMutex>> alone;
  };
  // No row of the tickets' tables learns while this is held, and those of the tickets are of the newest step.
  Still hold_still(std::span<const HeldLookup> lookups);
  // Whoever calls holds `learning`.
  void catch_up(const TicketState& ticket);
  bool is_fetched(uint32_t table, std::span<const Id> ids) const;
  void require_batches_alone(const char* call) const;
  void check_shadow(const TicketState& ticket);

  // What prepare and start_commit have in common: checks, and what a manifest says.
  CommitInfo begin_commit(uint64_t step);
  void write_commit(CommitInfo& info, const std::vector<TableState>& states, std::string_view blob);
  void add_commit(const CommitInfo& info);
  // Waits for the commit under way; throws what it failed with.
  void settle(Lock& lock);
  void save_frozen(uint32_t table, std::span<const Slot> slots);
  void run_pending();  // in the writer's thread
  void write_pending();
  void thaw_tables();
  void undo_pending();
  void store_pending_rows(std::span<const Snapshot::Row> rows, std::byte* space);

  void write_out(Lock& lock);    // everything on its way out is in the store on return
  void flush_dirty(Lock& lock);  // and every changed row of the host tier too
  std::span<Tier* const> below() const { return std::span(tiers_).subspan(1); }
  void write_to(std::span<Tier* const> tiers, std::span<const RowWrite> rows);  // poisons on error
  void start_writer();
  void run_writer();
  void load_state(std::string_view bytes, const std::string& name);
  // The wanted one, or the newest that is intact; 0 where there is none at all.
  CommitId choose_commit(CommitId wanted, const std::vector<CommitId>& complete) const;
  void open_store(const CommitInfo* from);
  void check_same_tables(const CommitInfo& info) const;
  void load_shadow();
  void apply_rows(uint32_t table, std::span<const Id> ids, const std::byte* records);
  static bool may_replace(const Table& table, std::span<const Id> ids);
  void check_not_older(uint32_t table, std::span<const Id> ids, const std::byte* records);
  struct KnownRow {
    Id id;
    RowHeader header;
  };
  // Those there are, of ascending ids; or of any, once each.
  std::vector<KnownRow> known_rows(uint32_t table, std::span<const Id> ids);
  std::vector<KnownRow> known_rows(uint32_t table, std::vector<Id>&& ids);
  uint64_t newest_step() const;  // that any table has seen
  void prune_tombstones();
  void note_change(Table& table, Id id) const;
  void forget_rows(uint32_t table, std::span<const Id> ids);
  // Returns how many.
  uint64_t forget_others(uint32_t table, std::vector<Id>&& stay);
  void sweep(Sweep& sweep);  // in a thread of its own
  void sweep_table(Sweep& sweep, uint32_t table);
  void stop_sweep();
  void note_training(const Table& table, uint64_t step);
  // What the sweep tells of a table; null where it tells nothing.
  Sweep::OfTable* swept(uint32_t table);
  // Ascending; rows on their way out are in the store. Of a table: those that no update has touched since `newest` at the latest, scored by
  // step; those of the lowest scores, with all below `bound`.
  std::vector<ScoredRow> old_rows(Lock& lock, uint32_t table, uint64_t newest);
  std::vector<ScoredRow> low_rows(uint32_t table, ScoredRow& bound);
  std::vector<ScoredRow> low_rows(Lock& lock, uint32_t table, uint64_t count);
  // Of `rows`, ascending, those up to `last`; returns how many.
  uint64_t forget_up_to(uint32_t table, std::span<const ScoredRow> rows, const ScoredRow& last);
  // The `count` lowest of all caches; returns how many were this one's.
  uint64_t forget_excess(Lock& lock, uint32_t table, uint64_t count, const SumOver& sum);

  std::unique_ptr<FileLock> lock_file_;
  std::unique_ptr<ThreadPool> workers_;  // compute
  HostTier host_;
  std::unique_ptr<RowStore> store_;
  std::vector<Tier*> tiers_;  // fastest first
  StoreContext context_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string failure_;  // what poisoned the cache
  std::exception_ptr failure_error_;
  std::string dropped_;  // a training ticket that was dropped, to be reported once
  uint64_t open_tickets_ = 0;
  bool quiet_ = false;                                  // a call that wants no ticket is under way
  std::thread::id quiet_thread_;                        // in this thread
  std::map<uint64_t, std::shared_ptr<Fetch>> fetches_;  // under way, by number
  uint64_t next_fetch_ = 1;
  uint64_t unawaited_ =
      0;  // the slots of fetches up to here may have no pin left: none is reused before those have ended
  WriteBack write_back_;
  bool writer_running_ = false;
  Stats times_;
  CommitId committed_ = 0;       // resumed from or made
  uint64_t committed_step_ = 0;  // of that one
  uint64_t barrier_step_ =
      0;                 // of the newest commit, complete or not: later batches have later steps
  CommitId newest_ = 0;  // id in use on disk
  std::unique_ptr<PendingCommit> pending_;
  std::map<CommitId, uint64_t> kept_;  // complete commits of this line, and their steps
  // Newer than one that was resumed from, with their steps: what is here does not come from them. Removed ones too.
  std::map<CommitId, uint64_t> abandoned_;
  bool is_replaced_ = false;  // by an export of everything, since the last commit
  CommitAt taken_;            // the newest commit that the last imported delta knew
  bool closed_ = false;

  std::shared_ptr<Sweep> sweep_;         // of the next evict()
  std::unique_ptr<ThreadPool> sweeper_;  // made when it is needed
  std::unique_ptr<ThreadPool> readers_;  // reads, and writing of sorted files
  std::unique_ptr<ThreadPool> writer_;   // last: joined first
};

inline uint64_t write_back_bytes(const StoreOptions& store) {
  return uint64_t{store.write_back_mib} << 20;
}

enum class PartsOf : uint8_t { kAll, kAlways };  // all, or those that learn at every step
RowKernel make_kernel(const RowLayout& layout, uint64_t step, float lr_scale,
                      PartsOf which = PartsOf::kAll);

}  // namespace mstrain::embedding_cache
