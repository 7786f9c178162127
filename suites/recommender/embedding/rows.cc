#include "suites/recommender/embedding/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "core/base/error.h"

namespace mstrain::recommender {
namespace {

embedding_cache::CommitId commit_id(const std::string& text) {
  embedding_cache::CommitId id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id == 0) {
    throw IoError(fmt::format("embedding_cache: \"{}\" names no commit", text));
  }
  return id;
}

double share(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

}  // namespace

Rows::Rows(FileSystem& files, embedding_cache::Options options, const RowsOptions& how)
    : files_(files), options_(std::move(options)), how_(how) {}

Rows::~Rows() = default;

embedding_cache::Cache& Rows::cache() {
  check(cache_.has_value(), "rows are read before they were opened");
  return *cache_;
}

void Rows::let_go() {
  if (let_go_ != nullptr) {
    let_go_();
  }
}

void Rows::learned(int64_t step) {
  if (how_.evict_every > 0 && step % how_.evict_every == 0) {
    let_go();
    cache().evict(static_cast<uint64_t>(step));
  }
}

void Rows::resume(const std::optional<std::string>& id) {
  let_go();
  cache_.reset();
  ++generation_;
  if (id) {
    cache_.emplace(embedding_cache::Cache::resume(options_, commit_id(*id)));
    return;
  }
  // Opening takes the directory over, or says whose it is; commits in it are of a run that never had a checkpoint.
  if (embedding_cache::Cache::open(options_).last_commit() != 0) {
    files_.remove_all(options_.directory);
  }
  cache_.emplace(embedding_cache::Cache::open(options_));
}

std::string Rows::prepare(int64_t step) {
  const auto begin = std::chrono::steady_clock::now();
  let_go();
  const embedding_cache::CommitId id = cache().start_commit(static_cast<uint64_t>(step));
  times_.commit += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return std::to_string(id);
}

void Rows::wait(const std::string& id) { cache().wait_commit(commit_id(id)); }

void Rows::confirm(const std::string& id, const std::vector<std::string>& needed) {
  std::vector<embedding_cache::CommitId> keep;
  std::transform(needed.begin(), needed.end(), std::back_inserter(keep), commit_id);
  cache().commit(commit_id(id), keep);
}

std::string Rows::describe() const {
  if (!cache_ || times_.batches == 0) {
    return "";
  }
  const auto per_batch = [&](double seconds) {
    return 1e3 * seconds / static_cast<double>(times_.batches);
  };
  const double exposed = times_.read_wait + times_.prefetch + times_.wait + times_.gather +
                         times_.update + times_.commit;
  std::string out = fmt::format(
      "rows: {:.2f} % of lookups and {:.2f} % of distinct ids were in host memory\n",
      share(static_cast<double>(times_.position_hits), static_cast<double>(times_.positions)),
      share(static_cast<double>(times_.id_hits), static_cast<double>(times_.ids)));
  out += fmt::format("stages, ms a batch: dense {:.3f}, all others exposed {:.3f} ({:.1f} %)\n",
                     per_batch(times_.compute), per_batch(exposed),
                     share(exposed, exposed + times_.compute));
  out += fmt::format("  {:<10}{:>10}{:>10}\n", "", "exposed", "hidden");
  const double hidden = std::max(0.0, times_.read.load() - times_.read_wait);
  const std::tuple<const char*, double, double> stages[] = {
      {"read", times_.read_wait, hidden}, {"prefetch", times_.prefetch, 0},
      {"wait", times_.wait, 0},           {"gather", times_.gather, 0},
      {"update", times_.update, 0},       {"commit", times_.commit, 0}};
  for (const auto& [stage, seen, unseen] : stages) {
    out += fmt::format("  {:<10}{:>10.3f}{:>10.3f}\n", stage, per_batch(seen), per_batch(unseen));
  }
  return out + embedding_cache::print_stats(cache_->stats());
}

}  // namespace mstrain::recommender
