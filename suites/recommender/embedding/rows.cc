#include "suites/recommender/embedding/rows.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <limits>

#include "core/base/error.h"
#include "core/io/atomic_file.h"
#include "embedding_cache/commit.h"

namespace mstrain::recommender {
namespace {

using embedding_cache::Cache;
using embedding_cache::CommitId;

constexpr std::string_view kTableWise = "table_wise";
constexpr std::string_view kRowWise = "row_wise";

std::string_view name_of(EmbeddingWay way) {
  return way == EmbeddingWay::kTableWise ? kTableWise : kRowWise;
}

CommitId number(std::string_view text, const std::string& whole) {
  CommitId id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id == 0) {
    throw IoError(fmt::format("embedding_cache: \"{}\" names no commit", whole));
  }
  return id;
}

double share(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

}  // namespace

std::string RowsLayout::directory(const std::string& base, size_t rank) const {
  const std::string path = changes == 0 ? base : fmt::format("{}.{}", base, changes);
  return ranks == 1 ? path
                    : fmt::format("{}.{}-of-{}{}", path, rank, ranks,
                                  way == EmbeddingWay::kTableWise ? "-by-table" : "");
}

std::string RowsId::text() const {
  const std::string numbers = fmt::format("{}", fmt::join(commits, ","));
  return layout == RowsLayout() ? numbers
         : layout.changes == 0
             ? fmt::format("{}:{}", name_of(layout.way), numbers)
             : fmt::format("{}.{}:{}", name_of(layout.way), layout.changes, numbers);
}

RowsId RowsId::parse(const std::string& text) {
  RowsId out;
  std::string_view rest = text;
  if (const size_t colon = rest.find(':'); colon != std::string_view::npos) {
    const size_t dot = std::min(rest.find('.'), colon);
    const std::string_view way = rest.substr(0, dot);
    if (way != kTableWise && way != kRowWise) {
      throw IoError(fmt::format("embedding_cache: \"{}\" names no commit", text));
    }
    out.layout.way = way == kTableWise ? EmbeddingWay::kTableWise : EmbeddingWay::kRowWise;
    if (dot < colon) {
      out.layout.changes =
          static_cast<int64_t>(number(rest.substr(dot + 1, colon - dot - 1), text));
    }
    rest.remove_prefix(colon + 1);
  }
  while (true) {
    const size_t comma = std::min(rest.find(','), rest.size());
    out.commits.push_back(number(rest.substr(0, comma), text));
    if (comma == rest.size()) {
      break;
    }
    rest.remove_prefix(comma + 1);
  }
  out.layout.ranks = out.commits.size();
  return out;
}

Rows::Rows(FileSystem& files, embedding_cache::Options options, const RowsOptions& how,
           const Tables& tables, Ranks* ranks)
    : files_(files),
      options_(std::move(options)),
      base_(options_.directory),
      how_(how),
      tables_(tables),
      placement_(tables, how.way, ranks == nullptr ? 1 : ranks->mesh().size(kDataAxis)),
      layout_{placement_.ranks() > 1 && how.way == EmbeddingWay::kTableWise
                  ? EmbeddingWay::kTableWise
                  : EmbeddingWay::kRowWise,
              static_cast<size_t>(placement_.ranks())},
      group_(placement_.ranks() == 1 ? nullptr : ranks->along(kDataAxis).split(0, "rows")),
      workers_(std::max(0, options_.threads - 1)) {
  options_.directory = layout_.directory(base_, rank());
}

Rows::~Rows() = default;

Cache& Rows::cache() {
  check(cache_.has_value(), "rows are read before they were opened");
  return *cache_;
}

DeviceRows* Rows::on_device(size_t table) {
  if (!has_device(table)) {
    return nullptr;
  }
  on_device_.resize(how_.device_rows.size());
  if (on_device_[table] == nullptr) {
    on_device_[table] = std::make_unique<DeviceRows>(cache(), static_cast<uint32_t>(table),
                                                     how_.device_rows[table]);
  }
  return on_device_[table].get();
}

void Rows::bring_home() {
  for (const auto& rows : on_device_) {
    if (rows != nullptr) {
      rows->bring_home();
    }
  }
}

void Rows::let_go() {
  if (let_go_ != nullptr) {
    let_go_();
  }
  bring_home();
}

// Steps before rows are forgotten at which it can be told which: old ones have learned for the last time, and those of the lowest scores of
// a budget will hardly have others when it comes to it.
int64_t Rows::foresight() const {
  int64_t steps = how_.evict_every;
  for (const embedding_cache::TableOptions& table : options_.tables) {
    if (table.eviction.ttl_steps > 0) {
      steps = std::min(steps, static_cast<int64_t>(std::min<uint64_t>(
                                  table.eviction.ttl_steps, std::numeric_limits<uint32_t>::max())));
    }
    if (table.eviction.max_rows > 0) {
      steps = std::min(steps, how_.evict_every / 4);
    }
  }
  return steps;
}

void Rows::learned(int64_t step) {
  if (how_.evict_every == 0) {
    return;
  }
  embedding_cache::SumOver sum;
  if (group_ != nullptr) {
    sum = [this](uint64_t own) {
      const Elements number{&own, 1, Dtype::kI64};
      group_->all_reduce(number, number, Reduction::kSum, "rows.evict").wait();
      return own;
    };
  }
  if (step % how_.evict_every == 0) {
    let_go();
    cache().evict(static_cast<uint64_t>(step), sum);
    for (const auto& rows : on_device_) {
      if (rows != nullptr) {
        rows->forget();
      }
    }
  }
  const int64_t next = (step / how_.evict_every + 1) * how_.evict_every;
  if (looked_for_ != next && next - step <= foresight()) {
    bring_home();
    cache().start_evict(static_cast<uint64_t>(next), sum);
    looked_for_ = next;
  }
}

bool Rows::changes_by_learning_alone(int64_t step) const {
  const bool forgets = how_.evict_every > 0 && step % how_.evict_every == 0;
  return !forgets && how_.device_rows.empty() &&
         std::all_of(options_.tables.begin(), options_.tables.end(), [](const auto& t) {
           return t.admission.kind == embedding_cache::AdmissionKind::kNone &&
                  !embedding_cache::RowLayout(t).learns_always();
         });
}

void Rows::resume(const std::optional<std::string>& id) {
  const bool may_remove = is_claimed();
  if (let_go_ != nullptr) {
    let_go_();
  }
  on_device_.clear();
  cache_.reset();
  readers_.clear();
  ++generation_;
  looked_for_ = 0;
  if (!id) {
    begin(0, may_remove);
    take_first();
    claim();
    return;
  }
  const RowsId from = RowsId::parse(*id);
  if (const size_t other = std::min(rank(), from.layout.ranks - 1);
      !embedding_cache::is_cache_directory(files_, from.layout.directory(base_, other))) {
    throw ConfigError(
        fmt::format("embedding_cache.directory: {} has no rows, and the checkpoint names commit {} "
                    "there; name the directory that the run began with, or move it",
                    from.layout.directory(base_, other), from.commits[other]));
  }
  if (!layout_.is_shared_like(from.layout)) {
    // A run that goes back to a step before it changed its layout may need the rows that it has, too.
    begin(next_change(std::max(from.layout.changes, layout_.changes)), /*may_remove=*/true);
    take_over(from);
    claim();
    return;
  }
  layout_ = from.layout;
  options_.directory = layout_.directory(base_, rank());
  cache_.emplace(Cache::resume(options_, from.commits[rank()]));
  claim();
}

// Opening takes the directory over, or says whose it is; commits in it are of a run, or a layout, that no checkpoint names.
void Rows::begin(int64_t changes, bool may_remove) {
  layout_.changes = changes;
  options_.directory = layout_.directory(base_, rank());
  if (Cache::open(options_).last_commit() != 0) {
    if (!may_remove) {
      throw ConfigError(
          fmt::format("embedding_cache.directory: {} has rows that this run did not write; name "
                      "another one, or leave it at auto",
                      options_.directory));
    }
    files_.remove_all(options_.directory);
  }
  cache_.emplace(Cache::open(options_));
}

// Of the rows that the run begins with, those that are this rank's.
void Rows::take_first() {
  if (how_.first == nullptr) {
    return;
  }
  std::vector<embedding_cache::Id> own;
  std::vector<float> own_weights;
  how_.first(
      [&](size_t table, std::span<const embedding_cache::Id> keys, std::span<const float> weights) {
        const size_t width = weights.size() / std::max<size_t>(1, keys.size());
        own.clear();
        own_weights.clear();
        for (size_t i = 0; i < keys.size(); ++i) {
          if (static_cast<size_t>(placement_.owner(table, keys[i])) == rank()) {
            own.push_back(keys[i]);
            const auto row = weights.subspan(i * width, width);
            own_weights.insert(own_weights.end(), row.begin(), row.end());
          }
        }
        cache_->load_weights(static_cast<uint32_t>(table), own, own_weights);
      });
}

void Rows::open_to_read(const std::string& id) {
  is_claimed();
  let_go();
  cache_.reset();
  readers_.clear();
  ++generation_;
  const RowsId from = RowsId::parse(id);
  saved_.emplace(tables_, from.layout.way, static_cast<int64_t>(from.layout.ranks));
  uint64_t host_rows = 1;
  for (const embedding_cache::TableOptions& table : options_.tables) {
    host_rows = std::max(host_rows, table.host_rows);
  }
  saved_commits_.clear();
  for (size_t rank = 0; rank < from.commits.size(); ++rank) {
    saved_commits_.emplace_back(from.layout.directory(base_, rank), from.commits[rank]);
    readers_.push_back(
        embedding_cache::Reader::open({.directory = from.layout.directory(base_, rank),
                                       .commit = from.commits[rank],
                                       .host_rows = host_rows / from.commits.size() + 1,
                                       .read_threads = options_.store.read_threads,
                                       .direct_io = options_.store.direct_io,
                                       .files = options_.files}));
  }
}

void Rows::look_up(size_t table, std::span<const embedding_cache::Id> keys, float* out,
                   size_t stride) const {
  const std::string& name = options_.tables[table].name;
  if (readers_.size() == 1) {
    readers_[0].lookup(readers_[0].table(name), keys, out, stride);
    return;
  }
  std::vector<std::vector<size_t>> places(readers_.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    places[static_cast<size_t>(saved_->owner(table, keys[i]))].push_back(i);
  }
  std::vector<embedding_cache::Id> ids;
  std::vector<float> rows;
  for (size_t r = 0; r < readers_.size(); ++r) {
    ids.clear();
    for (const size_t place : places[r]) {
      ids.push_back(keys[place]);
    }
    const uint32_t index = readers_[r].table(name);
    const size_t width = readers_[r].width(index);
    rows.resize(ids.size() * width);
    readers_[r].lookup(index, ids, rows.data(), width);
    for (size_t i = 0; i < ids.size(); ++i) {
      std::copy_n(rows.data() + i * width, width, out + places[r][i] * stride);
    }
  }
}

std::string Rows::prepare(int64_t step) {
  const auto begin = std::chrono::steady_clock::now();
  let_go();
  RowsId id{layout_, std::vector<CommitId>(layout_.ranks)};
  CommitId mine = cache().start_commit(static_cast<uint64_t>(step));
  if (group_ == nullptr) {
    id.commits[0] = mine;
  } else {
    const std::vector<int64_t> each(id.commits.size(), 1);
    group_
        ->all_gather({&mine, 1, Dtype::kI64},
                     {id.commits.data(), std::ssize(id.commits), Dtype::kI64}, each, "rows.commit")
        .wait();
  }
  times_.commit += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return id.text();
}

void Rows::wait(const std::string& id) { cache().wait_commit(RowsId::parse(id).commits[rank()]); }

void Rows::confirm(const std::string& id, const std::vector<std::string>& needed) {
  const RowsId own = RowsId::parse(id);
  std::vector<CommitId> keep;
  for (const std::string& text : needed) {
    const RowsId other = RowsId::parse(text);
    if (own.layout == other.layout) {
      keep.push_back(other.commits[rank()]);
    }
  }
  cache().commit(own.commits[rank()], keep);
  if (rank() == 0) {
    std::vector<std::string> all = needed;
    all.push_back(id);
    remove_other_layouts(all);
  }
}

std::string Rows::describe_device() const {
  embedding_cache::HotRows::Stats all;
  uint64_t rows = 0, bytes = 0;
  for (size_t t = 0; t < on_device_.size(); ++t) {
    if (on_device_[t] == nullptr) {
      continue;
    }
    const embedding_cache::HotRows& hot = on_device_[t]->hot();
    const embedding_cache::HotRows::Stats& own = hot.stats();
    rows += hot.capacity();
    bytes += device_bytes(options_.tables[t], hot.capacity());
    all.batches = std::max(all.batches, own.batches);
    all.ids += own.ids;
    all.hits += own.hits;
    all.positions += own.positions;
    all.position_hits += own.position_hits;
    all.brought += own.brought;
    all.given_back += own.given_back;
  }
  if (all.batches == 0) {
    return "";
  }
  const auto number = [](uint64_t x) { return static_cast<double>(x); };
  return fmt::format(
      "{} rows on the device ({:.1f} MB): {:.2f} % of lookups and {:.2f} % of distinct ids were "
      "there; "
      "a batch brought {:.0f} and gave {:.0f} back\n",
      rows, 1e-6 * number(bytes), share(number(all.position_hits), number(all.positions)),
      share(number(all.hits), number(all.ids)), number(all.brought) / number(all.batches),
      number(all.given_back) / number(all.batches));
}

std::string Rows::describe() const {
  const std::string shares = describe_shares();  // of all ranks, whatever this one did
  if (!cache_ || times_.batches == 0) {
    return "";
  }
  const auto per_batch = [&](double seconds) {
    return 1e3 * seconds / static_cast<double>(times_.batches);
  };
  const double exposed = times_.read_wait + times_.ask + times_.prefetch + times_.wait +
                         times_.gather + times_.exchange_wait + times_.update + times_.commit;
  std::string out = fmt::format(
      "rows: {:.2f} % of {}lookups and {:.2f} % of distinct ids were in host memory\n",
      share(static_cast<double>(times_.position_hits), static_cast<double>(times_.positions)),
      on_device_.empty() ? "" : "other ",
      share(static_cast<double>(times_.id_hits), static_cast<double>(times_.ids)));
  out += describe_device() + shares;
  if (group_ != nullptr) {
    const auto batches = static_cast<double>(times_.batches);
    out += fmt::format(
        "to other ranks, a batch: {:.3f} MB; {:.2f} % of rows came while the step before computed, "
        "and "
        "{:.0f} bags as vectors that their ranks had pooled\n",
        1e-6 * static_cast<double>(times_.sent_bytes) / batches,
        share(static_cast<double>(times_.early_rows), static_cast<double>(times_.rows)),
        static_cast<double>(times_.pooled_bags) / batches);
  }
  out += fmt::format("stages, ms a batch: dense {:.3f}, all others exposed {:.3f} ({:.1f} %)\n",
                     per_batch(times_.compute), per_batch(exposed),
                     share(exposed, exposed + times_.compute));
  out += fmt::format("  {:<10}{:>10}{:>10}\n", "", "exposed", "hidden");
  const double hidden = std::max(0.0, times_.read.load() - times_.read_wait);
  std::vector<std::tuple<const char*, double, double>> stages = {
      {"read", times_.read_wait, hidden}, {"prefetch", times_.prefetch, 0},
      {"wait", times_.wait, 0},           {"gather", times_.gather, 0},
      {"update", times_.update, 0},       {"commit", times_.commit, 0}};
  if (group_ != nullptr) {
    const double beside = std::max(0.0, times_.exchange - times_.exchange_wait);
    stages.insert(stages.begin() + 1, {"exchange", times_.ask + times_.exchange_wait, beside});
  }
  for (const auto& [stage, seen, unseen] : stages) {
    out += fmt::format("  {:<10}{:>10.3f}{:>10.3f}\n", stage, per_batch(seen), per_batch(unseen));
  }
  return out + embedding_cache::print_stats(cache_->stats());
}

}  // namespace mstrain::recommender
