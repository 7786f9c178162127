#include "suites/recommender/run/export_rows.h"

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <thread>

#include "core/base/error.h"
#include "core/io/npy.h"
#include "core/runtime/context.h"
#include "core/train/checkpoint.h"
#include "core/train/run_directory.h"
#include "core/train/session.h"
#include "embedding_cache/commit_store.h"
#include "embedding_cache/row_store.h"
#include "suites/recommender/run/recommender_run.h"

namespace mstrain::recommender {
namespace {

using embedding_cache::CommitStore;
using embedding_cache::Id;

// A table of one commit, row by row in ascending order: a thread of its own scans ahead.
class RowStream {
 public:
  // Rows that learned after `since`; 0: all.
  RowStream(const CommitStore& commit, uint32_t table, uint64_t since)
      : since_(since), width_(commit.layouts[table].width()), thread_([this, &commit, table] {
          try {
            scan(commit, table);
          } catch (const Left&) {
          } catch (...) {
            const std::scoped_lock lock(mutex_);
            error_ = std::current_exception();
          }
          const std::scoped_lock lock(mutex_);
          is_done_ = true;
          changed_.notify_all();
        }) {
    try {
      next();
    } catch (...) {  // there will be no destructor
      thread_.join();
      throw;
    }
  }
  ~RowStream() {
    {
      const std::scoped_lock lock(mutex_);
      is_left_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  RowStream(const RowStream&) = delete;
  RowStream& operator=(const RowStream&) = delete;

  bool is_over() const { return at_ == block_.ids.size(); }
  Id id() const { return block_.ids[at_]; }
  std::span<const float> weights() const {
    return std::span(block_.weights).subspan(at_ * width_, width_);
  }
  void next() {
    if (++at_ < block_.ids.size()) {
      return;
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_done_ || !blocks_.empty(); });
    at_ = 0;
    block_ = {};
    if (!blocks_.empty()) {
      block_ = std::move(blocks_.front());
      blocks_.pop_front();
      changed_.notify_all();
    } else if (error_ != nullptr) {
      std::rethrow_exception(error_);
    }
  }

 private:
  static constexpr size_t kRows = 4096;  // of a block
  static constexpr size_t kAhead = 4;    // blocks
  struct Left {};                        // nobody reads on
  struct Block {
    std::vector<Id> ids;
    std::vector<float> weights;
  };

  void scan(const CommitStore& commit, uint32_t table) {
    Block block;
    commit.scan(table, since_, [&](Id id, const std::byte* record) {
      block.ids.push_back(id);
      const float* const weights = embedding_cache::weights_of(record);
      block.weights.insert(block.weights.end(), weights, weights + width_);
      if (block.ids.size() == kRows) {
        push(std::exchange(block, {}));
      }
    });
    if (!block.ids.empty()) {
      push(std::move(block));
    }
  }
  void push(Block block) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_left_ || blocks_.size() < kAhead; });
    if (is_left_) {
      throw Left();
    }
    blocks_.push_back(std::move(block));
    changed_.notify_all();
  }

  uint64_t since_;
  uint32_t width_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Block> blocks_;
  bool is_done_ = false, is_left_ = false;
  std::exception_ptr error_;
  Block block_;  // that is read
  size_t at_ = static_cast<size_t>(-1);
  std::thread thread_;  // last: it uses what is above
};

void begin_file(WritableFile& file, Dtype dtype, const std::vector<int64_t>& shape) {
  const std::string header = npy_header(dtype, shape);
  file.append(std::as_bytes(std::span(header)));
}

// Writes the table that all commits share; how many rows it has.
int64_t write_table(AtomicFolder& folder, const std::vector<CommitStore>& commits,
                    const std::string& name, uint64_t since) {
  std::vector<std::unique_ptr<RowStream>> parts;
  int64_t rows = 0;
  int64_t width = 0;
  for (const CommitStore& commit : commits) {
    const uint32_t table = commit.table(name);
    width = commit.layouts[table].width();
    if (since == 0) {
      rows += static_cast<int64_t>(commit.info.tables[table].rows);
    } else {
      commit.scan(table, since, [&](Id, const std::byte*) { ++rows; });
    }
    parts.push_back(std::make_unique<RowStream>(commit, table, since));
  }
  WritableFile& keys = folder.create(fmt::format("rows.{}.keys.npy", name));
  WritableFile& weights = folder.create(fmt::format("rows.{}.npy", name));
  begin_file(keys, Dtype::kI64, {rows});
  begin_file(weights, Dtype::kF32, {rows, width});
  int64_t written = 0;
  while (true) {
    RowStream* first = nullptr;
    for (const auto& part : parts) {
      if (!part->is_over() && (first == nullptr || part->id() < first->id())) {
        first = part.get();
      }
    }
    if (first == nullptr) {
      break;
    }
    const Id id = first->id();
    keys.append(std::as_bytes(std::span(&id, 1)));
    weights.append(std::as_bytes(first->weights()));
    ++written;
    first->next();
  }
  if (written != rows) {
    throw IoError(fmt::format("table {}: {} rows, but commits name {}", name, written, rows));
  }
  keys.close();
  weights.close();
  return rows;
}

// Of `ids`, ascending, those that have a row, or those that have none.
std::vector<Id> known_to(const CommitStore& commit, const std::string& name,
                         const std::vector<Id>& ids, bool have_rows) {
  constexpr size_t kAtOnce = 8192;
  const uint32_t table = commit.table(name);
  const size_t bytes = commit.layouts[table].record_bytes();
  std::vector<std::byte> records(std::min(kAtOnce, ids.size()) * bytes);
  std::vector<std::byte*> into;
  for (size_t i = 0; i * bytes < records.size(); ++i) {
    into.push_back(records.data() + i * bytes);
  }
  const auto found = std::make_unique<bool[]>(into.size());
  std::vector<Id> out;
  for (size_t first = 0; first < ids.size(); first += kAtOnce) {
    const auto some = std::span(ids).subspan(first, std::min(kAtOnce, ids.size() - first));
    commit.store->read(table, some, into.data(), found.get());
    for (size_t i = 0; i < some.size(); ++i) {
      if (found[i] == have_rows) {
        out.push_back(some[i]);
      }
    }
  }
  return out;
}

// Keys of rows that `before` has and `commits` no longer have. A row may have begun and been forgotten since, or have been forgotten and begun
// again: what was forgotten does not tell.
void write_gone(FileSystem& files, AtomicFolder& folder, const Rows& saved,
                const std::vector<CommitStore>& commits, const std::vector<CommitStore>& before,
                size_t table, const std::string& name, uint64_t since) {
  std::vector<Id> gone;
  for (size_t rank = 0; rank < commits.size(); ++rank) {
    const auto& [directory, commit] = saved.saved()[rank];
    const std::string path =
        join_path(embedding_cache::commit_folder(directory, commit), embedding_cache::kStateFile);
    const auto states = embedding_cache::parse_state(files.read(path), path);
    std::vector<Id> forgotten;
    for (const auto& [id, step] : states.at(table).tombstones) {
      if (step > since) {
        forgotten.push_back(id);
      }
    }
    const std::vector<Id> had = known_to(before[rank], name, forgotten, /*have_rows=*/true);
    const std::vector<Id> lost = known_to(commits[rank], name, had, /*have_rows=*/false);
    gone.insert(gone.end(), lost.begin(), lost.end());
  }
  std::sort(gone.begin(), gone.end());
  WritableFile& file = folder.create(fmt::format("rows.{}.gone.npy", name));
  begin_file(file, Dtype::kI64, {std::ssize(gone)});
  file.append(std::as_bytes(std::span(gone)));
  file.close();
}

// The checkpoint that `path` means, of the run that has `folder` and no later than it.
Since since_of(FileSystem& files, const std::string& path, const std::string& folder,
               const RowsId& exported, int64_t step) {
  const std::string before = find_checkpoint(files, path);
  const auto home = [](const std::string& of) {
    return std::filesystem::weakly_canonical(of).parent_path();
  };
  if (home(before) != home(folder)) {
    throw IoError(fmt::format("--since: {} is of another run than {}", before, folder));
  }
  const ProgressState progress = read_progress(files, before);
  Since since{progress.step, RowsId::parse(progress.outside.at(kRowsName))};
  if (since.step >= step) {
    throw IoError(fmt::format("--since: {} is of step {}, and what is exported of step {}", before,
                              since.step, step));
  }
  if (since.id.layout != exported.layout) {
    throw IoError(fmt::format(
        "--since: other ranks have had the rows since {}, which does not tell what was forgotten "
        "meanwhile: export all rows, without --since",
        before));
  }
  return since;
}

// What an id without a row reads as: of each column the kind and scale, of which seed, table and id make numbers.
OrderedJson first_values_of(const TableSpec& table, const embedding_cache::TableOptions& options) {
  if (options.admission.kind != embedding_cache::AdmissionKind::kNone) {
    return "zeros";
  }
  OrderedJson out = OrderedJson::object();
  const auto add = [&](const char* column, uint32_t segment) {
    const embedding_cache::InitOptions& init = options.segments.at(segment).init;
    const YamlNode written = write_config(init);
    out[column] = {{"kind", written.find("kind")->text},
                   {"scale", OrderedJson::parse(written.find("scale")->text)}};
  };
  if (table.has_vectors) {
    add("vector", table.vector_segment());
  }
  if (table.has_weights) {
    add("weight", table.weight_segment());
  }
  return out;
}

// How values become ids, and columns numbers.
OrderedJson reading_of(const DataConfig& data) {
  OrderedJson out = OrderedJson::object();
  if (data.format != DataFormat::kSynthetic) {
    out["numeric_scale"] = write_config(text_columns_of(data)).find("numeric_scale")->text;
    out["ids"] =
        data.prepared && data.ids.mode == IdsConfig::Mode::kDictionary ? "dictionary" : "hash";
    out["hash"] = "the low 64 bits of hash_bytes, core/base/hash.h";
  }
  return out;
}

}  // namespace

OrderedJson description_of(const Tables& tables) {
  OrderedJson described = OrderedJson::array();
  for (const TableSpec& table : tables.specs()) {
    OrderedJson out = {{"name", table.name}, {"columns", OrderedJson::object()}};
    const int64_t vector = table.has_vectors ? tables.width() : 0;
    if (table.has_vectors) {
      out["columns"]["vector"] = {0, vector};
    }
    if (table.has_weights) {
      out["columns"]["weight"] = {vector, vector + 1};
    }
    out["fields"] = OrderedJson::array();
    for (const TableField& field : table.fields) {
      OrderedJson each = {{"name", field.name}, {"index", field.index}};
      if (field.rows == 0) {
        each["keys"] = "hashed";
      } else {
        each["keys"] = {field.first, field.first + field.rows};
      }
      if (field.is_bag) {
        each["pooling"] = write_config(BagConfig{.pooling = field.pooling}).find("pooling")->text;
      }
      out["fields"].push_back(std::move(each));
    }
    described.push_back(std::move(out));
  }
  return {{"tables", std::move(described)}, {"numeric", tables.numbers()}};
}

Json read_description(FileSystem& files, const std::string& path) {
  constexpr uint64_t kMost = uint64_t{64} << 20;  // bytes
  return parse_json(files.read(path, kMost), path);
}

void write_rows(FileSystem& files, AtomicFolder& folder, const Rows& saved, const Tables& tables,
                int64_t step, const std::optional<Since>& since, const OrderedJson& besides) {
  std::vector<CommitStore> commits;
  std::vector<CommitStore> before;
  for (size_t rank = 0; rank < saved.saved().size(); ++rank) {
    const auto& [directory, commit] = saved.saved()[rank];
    commits.push_back(embedding_cache::open_commit(files, directory, commit));
    if (since) {
      before.push_back(embedding_cache::open_commit(files, directory, since->id.commits.at(rank)));
    }
  }
  if (since) {
    if (!embedding_cache::comes_from(commits.front().info, since->id.commits.front())) {
      throw IoError(fmt::format(
          "--since: what is exported does not come from step {}: the run has gone back to weights "
          "of an earlier step since; name a checkpoint up to that one, or export without --since",
          since->step));
    }
  }
  for (const embedding_cache::RowLayout& layout : commits.front().layouts) {
    if (since && layout.learns_always()) {
      throw IoError(
          "--since: all rows of this run learn at every step (l2_of: table), so that every one is "
          "another; export without it");
    }
  }
  const auto after = static_cast<uint64_t>(since ? since->step : 0);
  OrderedJson described = description_of(tables);
  for (size_t t = 0; t < tables.specs().size(); ++t) {
    const std::string& name = tables.specs()[t].name;
    described["tables"][t]["rows"] = write_table(folder, commits, name, after);
    const CommitStore& any = commits.front();
    described["tables"][t]["first_values"] =
        first_values_of(tables.specs()[t], any.options.tables[any.table(name)]);
    if (since) {
      write_gone(files, folder, saved, commits, before, t, name, after);
    }
  }
  described.update(besides);
  described["seed"] = commits.front().info.seed;
  described["step"] = step;
  if (since) {
    described["since"] = since->step;
  }
  folder.write(kRowsFile, described.dump(2) + "\n");
}

void export_rows(FileSystem& files, const StoredModel& model, AtomicFolder& folder,
                 const ExportOptions& how) {
  const std::filesystem::path home =
      std::filesystem::path(model.folder).parent_path().parent_path();
  if (!files.exists((home / kConfigFile).string())) {
    if (how.since) {
      throw IoError(fmt::format("--since: {} is no checkpoint of a run", model.folder));
    }
    return;
  }
  const auto [run, tree] = run_of_checkpoint(model);
  run->open_data(files, tree, std::nullopt);
  const Context context = make_context(run->train);
  const ContextScope scope(context);
  const std::shared_ptr<Rows> rows = run->rows(files);
  read_outside(files, model.folder, *rows);
  const ProgressState progress = read_progress(files, model.folder);
  std::optional<Since> since;
  if (how.since) {
    since = since_of(files, *how.since, model.folder, RowsId::parse(progress.outside.at(kRowsName)),
                     progress.step);
  }
  write_rows(files, folder, *rows, *run->tables(), progress.step, since, reading_of(run->data));
}

}  // namespace mstrain::recommender
