// Rows under another layout than the one that they were saved in, and how evenly ranks share them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>
#include <set>

#include "core/base/error.h"
#include "embedding_cache/commit.h"
#include "suites/recommender/embedding/rows.h"

namespace mstrain::recommender {
namespace {

using embedding_cache::Cache;
using embedding_cache::CommitId;
using embedding_cache::Id;

constexpr size_t kPieceBytes = size_t{32} << 20;  // of rows that a rank sends at once

// Rows on their way to their owners.
class Movers {
 public:
  Movers(Communicator* group, Cache& into, uint32_t table, size_t ranks)
      : group_(group),
        into_(into),
        table_(table),
        bytes_(into.layout(table).record_bytes()),
        ids_(ranks),
        records_(ranks) {}

  void add(size_t owner, Id id, const std::byte* record) {
    ids_[owner].push_back(id);
    records_[owner].insert(records_[owner].end(), record, record + bytes_);
    if ((held_ += bytes_) >= kPieceBytes) {
      send(/*is_last=*/false);
    }
  }
  // Sends what is left, and takes what comes until no rank has more.
  void finish() {
    while (!send(/*is_last=*/true)) {
    }
  }

 private:
  // Whether every rank said that it has no more.
  bool send(bool is_last) {
    held_ = 0;
    if (group_ == nullptr) {
      into_.load(table_, ids_[0], records_[0]);
      ids_[0].clear();
      records_[0].clear();
      return true;
    }
    const size_t ranks = ids_.size();
    std::vector<int64_t> out;
    for (const std::vector<Id>& ids : ids_) {
      out.insert(out.end(), {std::ssize(ids), is_last ? 1 : 0});
    }
    std::vector<int64_t> in(out.size());
    const std::vector<int64_t> each(ranks, 2);
    exchange(out, in, each, each, Dtype::kI64);
    std::vector<int64_t> sends(ranks);
    std::vector<int64_t> receives(ranks);
    bool all_done = true;
    for (size_t r = 0; r < ranks; ++r) {
      sends[r] = out[2 * r];
      receives[r] = in[2 * r];
      all_done = all_done && in[2 * r + 1] == 1;
    }
    std::vector<Id> ids = together(ids_);
    std::vector<std::byte> records = together(records_);
    const auto total = std::accumulate(receives.begin(), receives.end(), int64_t{0});
    std::vector<Id> new_ids(static_cast<size_t>(total));
    std::vector<std::byte> new_records(static_cast<size_t>(total) * bytes_);
    exchange(ids, new_ids, sends, receives, Dtype::kI64);
    for (size_t r = 0; r < ranks; ++r) {
      sends[r] *= static_cast<int64_t>(bytes_);
      receives[r] *= static_cast<int64_t>(bytes_);
    }
    exchange(records, new_records, sends, receives, Dtype::kU8);
    size_t first = 0;
    for (const int64_t bytes : receives) {
      const size_t count = static_cast<size_t>(bytes) / bytes_;
      into_.load(table_, std::span(new_ids).subspan(first, count),
                 std::span(new_records).subspan(first * bytes_, count * bytes_));
      first += count;
    }
    return all_done;
  }

  template <class T>
  void exchange(std::vector<T>& in, std::vector<T>& out, std::span<const int64_t> sends,
                std::span<const int64_t> receives, Dtype dtype) {
    group_
        ->all_to_all({in.data(), std::ssize(in), dtype}, {out.data(), std::ssize(out), dtype},
                     sends, receives, "rows.layout")
        .wait();
  }
  template <class T>
  static std::vector<T> together(std::vector<std::vector<T>>& parts) {
    std::vector<T> out;
    for (std::vector<T>& part : parts) {
      out.insert(out.end(), part.begin(), part.end());
      part.clear();
    }
    return out;
  }

  Communicator* group_;
  Cache& into_;
  uint32_t table_;
  size_t bytes_;
  size_t held_ = 0;
  std::vector<std::vector<Id>> ids_;  // by owner
  std::vector<std::vector<std::byte>> records_;
};

}  // namespace

// The directories that were are shared out: whoever opens one sends its rows to those that have them now.
void Rows::take_over(const RowsId& from) {
  for (const embedding_cache::TableOptions& table : options_.tables) {
    if (table.admission.kind != embedding_cache::AdmissionKind::kNone) {
      throw ConfigError(fmt::format(
          "embedding.admission: how often ids were seen is known to the {} rank{} that the "
          "checkpoint is of, not by id: go on with as many, sharing tables as they did",
          from.commits.size(), from.commits.size() == 1 ? "" : "s"));
    }
  }
  const auto ranks = static_cast<size_t>(placement_.ranks());
  uint64_t step = 0;
  for (size_t first = 0; first < from.commits.size(); first += ranks) {
    const size_t which = first + rank();
    std::optional<Cache> before;
    if (which < from.commits.size()) {
      embedding_cache::Options options = options_;
      options.directory = from.layout.directory(base_, which);
      before.emplace(Cache::resume(options, from.commits[which]));
      step = std::max(step, before->last_step());
    }
    for (uint32_t table = 0; table < options_.tables.size(); ++table) {
      if (first == 0) {
        take_past(before ? &*before : nullptr, table);
      }
      Movers movers(group_.get(), *cache_, table, ranks);
      if (before) {
        before->scan(table, [&](Id id, const std::byte* record) {
          movers.add(static_cast<size_t>(placement_.owner(table, id)), id, record);
        });
      }
      movers.finish();
    }
  }
  if (group_ != nullptr) {
    std::vector<uint64_t> steps(ranks);
    group_
        ->all_gather({&step, 1, Dtype::kI64}, {steps.data(), std::ssize(steps), Dtype::kI64},
                     std::vector<int64_t>(ranks, 1), "rows.layout")
        .wait();
    step = *std::max_element(steps.begin(), steps.end());
  }
  cache_->commit_step(step);
}

// Of any rank that was: all of them went through the same steps.
void Rows::take_past(const Cache* before, uint32_t table) {
  if (!cache_->layout(table).learns_always()) {
    return;
  }
  std::vector<embedding_cache::PastStep> past;
  if (before != nullptr) {
    past.assign(before->past(table).begin(), before->past(table).end());
  }
  if (group_ != nullptr) {
    auto steps = std::ssize(past);
    group_->broadcast({&steps, 1, Dtype::kI64}, 0, "rows.layout").wait();
    past.resize(static_cast<size_t>(steps));
    group_
        ->broadcast({past.data(), steps * static_cast<int64_t>(sizeof(embedding_cache::PastStep)),
                     Dtype::kU8},
                    0, "rows.layout")
        .wait();
  }
  cache_->go_through(table, past);
}

void Rows::remove_other_layouts(const std::vector<std::string>& needed) {
  std::set<std::string> kept;
  for (const std::string& text : needed) {
    const RowsId id = RowsId::parse(text);
    for (size_t rank = 0; rank < id.layout.ranks; ++rank) {
      kept.insert(std::filesystem::path(id.layout.directory(base_, rank)).filename().string());
    }
  }
  const std::filesystem::path base(base_);
  const std::string parent = base.has_parent_path() ? base.parent_path().string() : ".";
  const std::string name = base.filename().string();
  for (const std::string& entry : files_.list(parent)) {
    const std::string path = join_path(parent, entry);
    if (entry.starts_with(name) && RowsLayout::is_suffix(entry.substr(name.size())) &&
        !kept.contains(entry) && embedding_cache::is_cache_directory(files_, path) &&
        !is_anothers(path)) {
      files_.remove_all(path);
    }
  }
}

std::string Rows::describe_shares() const {
  if (group_ == nullptr) {
    return "";
  }
  constexpr size_t kNumbers = 3;
  std::array<double, kNumbers> mine{};
  if (cache_) {
    for (const embedding_cache::TableStats& table : cache_->stats().tables) {
      mine[0] += static_cast<double>(table.rows);
      mine[1] += static_cast<double>(table.rows * table.record_bytes);
    }
    mine[2] =
        static_cast<double>(times_.ids) / static_cast<double>(std::max<int64_t>(1, times_.batches));
  }
  const auto ranks = static_cast<size_t>(placement_.ranks());
  std::vector<double> all(ranks * kNumbers);
  group_
      ->all_gather({mine.data(), kNumbers, Dtype::kF64}, {all.data(), std::ssize(all), Dtype::kF64},
                   std::vector<int64_t>(ranks, kNumbers), "rows.shares")
      .wait();
  std::string out =
      fmt::format("  {:<8}{:>14}{:>14}{:>20}\n", "rank", "rows", "MB", "rows asked a batch");
  std::array<double, kNumbers> sum{};
  std::array<double, kNumbers> most{};
  for (size_t r = 0; r < ranks; ++r) {
    const double* const of = all.data() + r * kNumbers;
    out += fmt::format("  {:<8}{:>14.0f}{:>14.1f}{:>20.0f}\n", r, of[0], of[1] / 1e6, of[2]);
    for (size_t i = 0; i < kNumbers; ++i) {
      sum[i] += of[i];
      most[i] = std::max(most[i], of[i]);
    }
  }
  const auto skew = [&](size_t i) {
    return sum[i] > 0 ? most[i] * static_cast<double>(ranks) / sum[i] : 1;
  };
  return out +
         fmt::format("  {:<8}{:>13.2f}x{:>13.2f}x{:>19.2f}x\n", "skew", skew(0), skew(1), skew(2));
}

}  // namespace mstrain::recommender
