// The rows of a run: a cache on each rank that opens where a checkpoint says, and whose commits join the run's checkpoints.
//
// One rank's directory is that of the options. Of N ranks each has one beside it, "<directory>.0-of-N" and so on, whose rows are those that
// Placement gives it. Another number of ranks, or another way of sharing, goes on in directories of its own ("<directory>.1" and so on),
// for which it takes the rows out of those that were; these stay as long as a checkpoint names their commits.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/thread_pool.h"
#include "core/comm/mesh.h"
#include "core/train/outside.h"
#include "embedding_cache/cache.h"
#include "embedding_cache/reader.h"
#include "suites/recommender/embedding/device_rows.h"
#include "suites/recommender/embedding/placement.h"

namespace mstrain::recommender {

// What a run's batches took, in seconds of the thread that trains, unless said otherwise.
struct StageTimes {
  std::atomic<double> read = 0;  // samples and their keys, beside training
  double read_wait = 0;          // for samples that had not been read
  double ask = 0;                // telling other ranks which rows are wanted
  double prefetch = 0;           // asking for rows
  double wait = 0;               // for rows that had not come
  double gather = 0;             // from this rank and others
  double exchange = 0;           // of what batches ahead want, beside training
  double exchange_wait = 0;      // for the end of that
  double update = 0;
  double compute = 0;  // between a batch and what it teaches: the dense part
  double commit = 0;   // preparing commits
  int64_t batches = 0;
  int64_t sent_bytes = 0;   // to other ranks
  int64_t pooled_bags = 0;  // that came through the ranks in place of rows
  int64_t rows = 0,
          early_rows = 0;  // that came through the ranks; that came while the step before computed
  int64_t positions = 0, position_hits = 0;  // of training, when its rows were asked for
  int64_t ids = 0, id_hits = 0;
};

// Takes rows of one table: their keys, ascending, and [keys, width] weights.
using RowSink = std::function<void(size_t table, std::span<const embedding_cache::Id> keys,
                                   std::span<const float> weights)>;

struct RowsOptions {
  int64_t depth = 2;        // batches whose rows are fetched ahead
  int64_t evict_every = 0;  // steps between two looks for rows to forget; 0: none is
  EmbeddingWay way = EmbeddingWay::kAuto;
  std::vector<uint64_t> device_rows =
      {};  // of each table, in the memory of the device that trains; none or 0: none
  std::function<void(const RowSink&)> first;  // rows that a run begins with; null: none
  // Where the run is whose rows these are, where their directory does not lie in it: other runs that name the same directory are refused.
  std::string run;
};

inline constexpr const char* kRowsName = "embedding_cache";  // of the rows in state.json

// Where rows are: the ranks that share them, how, and how often that has changed.
struct RowsLayout {
  EmbeddingWay way = EmbeddingWay::kRowWise;
  size_t ranks = 1;
  int64_t changes = 0;

  bool is_shared_like(const RowsLayout& other) const {
    return ranks == other.ranks && (ranks == 1 || way == other.way);
  }
  friend bool operator==(const RowsLayout&, const RowsLayout&) = default;
  std::string directory(const std::string& base, size_t rank) const;
  // Whether directory() of some layout adds `suffix` to its base.
  static bool is_suffix(const std::string& suffix);
};

// What a checkpoint calls the rows: a layout, and a commit of each rank.
struct RowsId {
  RowsLayout layout;
  std::vector<embedding_cache::CommitId> commits;

  // "17" of one rank, "row_wise:17,18" of two, "row_wise.3:17,18" after three changes.
  std::string text() const;
  static RowsId parse(const std::string& text);  // throws IoError
};

class Rows final : public OutsideState {
 public:
  // `options.directory` need not be there. `files` must outlive the rows. `ranks`: that share them, along data; each makes its own.
  Rows(FileSystem& files, embedding_cache::Options options, const RowsOptions& how,
       const Tables& tables, Ranks* ranks = nullptr);
  ~Rows() override;

  std::string name() const override { return kRowsName; }
  void resume(const std::optional<std::string>& id) override;
  void open_to_read(const std::string& id) override;
  std::string prepare(int64_t step) override;
  void wait(const std::string& id) override;
  void confirm(const std::string& id, const std::vector<std::string>& needed) override;
  std::string describe() const override;

  // After open_to_read(): rows are looked up, and none is written.
  bool is_saved() const { return !readers_.empty(); }
  // Of each rank of the checkpoint: its directory, and its commit there.
  const std::vector<std::pair<std::string, embedding_cache::CommitId>>& saved() const {
    return saved_commits_;
  }
  // Weights of keys[i] to out + i * stride, as training would see them.
  void look_up(size_t table, std::span<const embedding_cache::Id> keys, float* out,
               size_t stride) const;

  // After resume(). Another cache when it is called again: then generation() is another one too.
  embedding_cache::Cache& cache();
  int64_t generation() const { return generation_; }
  // Whether a table has rows on the device that trains.
  bool has_device(size_t table) const {
    return table < how_.device_rows.size() && how_.device_rows[table] > 0;
  }
  DeviceRows* on_device(size_t table);  // null: none; after resume()
  int64_t depth() const { return how_.depth; }
  const embedding_cache::Options& options() const { return options_; }
  const Placement& placement() const { return placement_; }
  Communicator* group() const { return group_.get(); }  // null: one rank has all rows
  ThreadPool& workers() { return workers_; }
  StageTimes& times() { return times_; }
  // After each step has been learned, with no ticket of it open: forgets rows when it is time.
  void learned(int64_t step);
  // Whether a row has, after step `step`, the bits that it had before, where that step has taught it nothing: none is forgotten then, and
  // looking it up again begins none.
  bool changes_by_learning_alone(int64_t step) const;

  // Calls that want no open ticket, and readers that need room, call `let_go` of who fetches ahead; null: nobody does. What the device has
  // learned is then in the cache.
  void fetch_ahead(std::function<void()> let_go) { let_go_ = std::move(let_go); }
  void let_go();

 private:
  size_t rank() const { return group_ == nullptr ? 0 : static_cast<size_t>(group_->rank()); }
  int64_t foresight() const;
  std::string describe_device() const;
  void bring_home();
  void begin(int64_t changes, bool may_remove);
  std::string run() const;  // the folder that how_.run names
  // The run that has named a directory; none: nobody has.
  std::optional<std::string> claim_of(const std::string& directory) const;
  // Whether what the directory holds is this run's, or that of one which is gone. Throws ConfigError where another run, which is still there,
  // has checkpoints of it.
  bool is_claimed() const;
  void claim();  // last, so that no rank takes rows of others for this run's
  // Whether another run has named a directory of which this one is a layout: "rows.1" is one of "rows", too.
  bool is_anothers(const std::string& directory) const;
  // The first after it whose directories are no other run's.
  int64_t next_change(int64_t changes) const;
  void take_first();
  void take_over(const RowsId& from);
  void take_past(const embedding_cache::Cache* before, uint32_t table);  // null: rank 0's
  void remove_other_layouts(const std::vector<std::string>& needed);
  std::string describe_shares() const;

  FileSystem& files_;
  embedding_cache::Options options_;  // of this rank
  std::string base_;                  // directory of all ranks
  RowsOptions how_;
  const Tables tables_;
  Placement placement_;
  RowsLayout layout_;
  std::unique_ptr<Communicator> group_;
  ThreadPool workers_;
  std::optional<embedding_cache::Cache> cache_;
  std::vector<std::unique_ptr<DeviceRows>> on_device_;  // by table, when they are first asked for
  std::optional<Placement> saved_;                      // of the readers
  std::vector<embedding_cache::Reader> readers_;  // one for each rank of the checkpoint's layout
  std::vector<std::pair<std::string, embedding_cache::CommitId>> saved_commits_;  // likewise
  int64_t generation_ = 0;
  int64_t looked_for_ = 0;  // the step at which rows are forgotten that are looked for already
  std::function<void()> let_go_;
  StageTimes times_;
};

}  // namespace mstrain::recommender
