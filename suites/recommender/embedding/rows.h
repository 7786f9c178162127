// The rows of a run: a cache that opens where a checkpoint says, and whose commits join the run's checkpoints.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/train/outside.h"
#include "embedding_cache/cache.h"

namespace mstrain::recommender {

// What a run's batches took, in seconds of the thread that trains, unless said otherwise.
struct StageTimes {
  std::atomic<double> read = 0;  // samples and their keys, beside training
  double read_wait = 0;          // for samples that had not been read
  double prefetch = 0;           // asking for rows
  double wait = 0;               // for rows that had not come
  double gather = 0;
  double update = 0;
  double compute = 0;  // between a batch and what it teaches: the dense part
  double commit = 0;   // preparing commits
  int64_t batches = 0;
  int64_t positions = 0, position_hits = 0;  // of training, when its rows were asked for
  int64_t ids = 0, id_hits = 0;
};

struct RowsOptions {
  int64_t depth = 2;        // batches whose rows are fetched ahead
  int64_t evict_every = 0;  // steps between two looks for rows to forget; 0: none is
};

class Rows final : public OutsideState {
 public:
  // `options.directory` need not be there. `files` must outlive the rows.
  Rows(FileSystem& files, embedding_cache::Options options, const RowsOptions& how);
  ~Rows() override;

  std::string name() const override { return "embedding_cache"; }
  void resume(const std::optional<std::string>& id) override;
  std::string prepare(int64_t step) override;
  void wait(const std::string& id) override;
  void confirm(const std::string& id, const std::vector<std::string>& needed) override;
  std::string describe() const override;

  // After resume(). Another cache when it is called again: then generation() is another one too.
  embedding_cache::Cache& cache();
  int64_t generation() const { return generation_; }
  int64_t depth() const { return how_.depth; }
  const embedding_cache::Options& options() const { return options_; }
  StageTimes& times() { return times_; }
  // After each step has been learned, with no ticket of it open: forgets rows when it is time.
  void learned(int64_t step);

  // Calls that want no open ticket, and readers that need room, call `let_go` of who fetches ahead; null: nobody does.
  void fetch_ahead(std::function<void()> let_go) { let_go_ = std::move(let_go); }
  void let_go();

 private:
  FileSystem& files_;
  embedding_cache::Options options_;
  RowsOptions how_;
  std::optional<embedding_cache::Cache> cache_;
  int64_t generation_ = 0;
  std::function<void()> let_go_;
  StageTimes times_;
};

}  // namespace mstrain::recommender
