// Which rank has a row: a function of its table and key alone, so that a checkpoint's rows find their way to any number of ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "core/train/parallel_config.h"
#include "suites/recommender/embedding/tables.h"

namespace mstrain::recommender {

class Placement {
 public:
  // kTableWise: fields go as wholes, each to the rank that has the fewest rows so far; open-ended ones, whose keys do not tell
  // the field, by rows like all of kRowWise.
  Placement(const Tables& tables, EmbeddingWay way, int64_t ranks);

  int64_t ranks() const { return ranks_; }
  int owner(size_t table, embedding_cache::Id key) const;
  // Fields of several values that a rank has as wholes, and whose bags it may pool for who asks: of tables whose rows are vectors alone, added up.
  struct Whole {
    size_t field;  // of the table
    int owner;
    bool is_mean;
  };
  const std::vector<Whole>& wholes(size_t table) const { return wholes_[table]; }
  // Rows of a table of `rows` that a rank has at most, but for one case in millions.
  uint64_t share(size_t table, uint64_t rows) const;

 private:
  struct Field {
    uint64_t end;  // of its keys
    int owner;
  };
  int64_t ranks_;
  std::vector<std::vector<Field>> fields_;  // of each table, ascending; none: by rows
  std::vector<std::vector<Whole>> wholes_;  // of each table
};

}  // namespace mstrain::recommender
