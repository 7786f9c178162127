#include "suites/recommender/run/export_rows.h"

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <thread>

#include "core/base/error.h"
#include "core/io/npy.h"
#include "core/runtime/context.h"
#include "core/train/run_directory.h"
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
  RowStream(const CommitStore& commit, uint32_t table)
      : width_(commit.layouts[table].width()), thread_([this, &commit, table] {
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
    next();
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
    commit.store->scan(table, [&](Id id, const std::byte* record) {
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

// Writes the table that all commits share; how many rows it has.
int64_t write_table(AtomicFolder& folder, const std::vector<CommitStore>& commits,
                    const std::string& name) {
  std::vector<std::unique_ptr<RowStream>> parts;
  int64_t rows = 0;
  int64_t width = 0;
  for (const CommitStore& commit : commits) {
    const uint32_t table = commit.table(name);
    width = commit.layouts[table].width();
    commit.store->scan(table, [&](Id, const std::byte*) { ++rows; });
    parts.push_back(std::make_unique<RowStream>(commit, table));
  }
  WritableFile& keys = folder.create(fmt::format("rows.{}.keys.npy", name));
  WritableFile& weights = folder.create(fmt::format("rows.{}.npy", name));
  const auto begin = [](WritableFile& file, Dtype dtype, const std::vector<int64_t>& shape) {
    const std::string header = npy_header(dtype, shape);
    file.append(std::as_bytes(std::span(header)));
  };
  begin(keys, Dtype::kI64, {rows});
  begin(weights, Dtype::kF32, {rows, width});
  for (int64_t row = 0; row < rows; ++row) {
    RowStream* first = nullptr;
    for (const auto& part : parts) {
      if (!part->is_over() && (first == nullptr || part->id() < first->id())) {
        first = part.get();
      }
    }
    if (first == nullptr) {
      throw IoError(fmt::format("table {}: rows ended early", name));
    }
    const Id id = first->id();
    keys.append(std::as_bytes(std::span(&id, 1)));
    weights.append(std::as_bytes(first->weights()));
    first->next();
  }
  keys.close();
  weights.close();
  return rows;
}

OrderedJson description_of(const TableSpec& table, int64_t rows, int64_t width) {
  OrderedJson out = {{"name", table.name}, {"rows", rows}, {"columns", OrderedJson::object()}};
  const int64_t vector = table.has_vectors ? width - (table.has_weights ? 1 : 0) : 0;
  if (table.has_vectors) {
    out["columns"]["vector"] = {0, vector};
  }
  if (table.has_weights) {
    out["columns"]["weight"] = {vector, width};
  }
  out["fields"] = OrderedJson::array();
  for (const TableField& field : table.fields) {
    OrderedJson each = {{"name", field.name}};
    if (field.rows == 0) {
      each["keys"] = "hashed";
    } else {
      each["keys"] = {field.first, field.first + field.rows};
    }
    out["fields"].push_back(std::move(each));
  }
  return out;
}

}  // namespace

void write_rows(FileSystem& files, AtomicFolder& folder, const Rows& saved, const Tables& tables) {
  std::vector<CommitStore> commits;
  for (const auto& [directory, commit] : saved.saved()) {
    commits.push_back(embedding_cache::open_commit(files, directory, commit));
  }
  OrderedJson described = OrderedJson::array();
  const embedding_cache::Options& options = saved.options();
  for (size_t t = 0; t < options.tables.size(); ++t) {
    const TableSpec& table = tables.specs()[t];
    const int64_t rows = write_table(folder, commits, table.name);
    const embedding_cache::RowLayout layout(options.tables[t]);
    described.push_back(description_of(table, rows, layout.width()));
  }
  folder.write("rows.json", OrderedJson{{"tables", described}}.dump(2) + "\n");
}

void export_rows(FileSystem& files, const StoredModel& model, AtomicFolder& folder) {
  const std::filesystem::path home =
      std::filesystem::path(model.folder).parent_path().parent_path();
  if (!files.exists((home / kConfigFile).string())) {
    return;
  }
  const auto [run, tree] = run_of_checkpoint(model);
  run->open_data(files, tree, std::nullopt);
  const Context context = make_context(run->train);
  const ContextScope scope(context);
  const std::shared_ptr<Rows> rows = run->rows(files);
  read_outside(files, model.folder, *rows);
  write_rows(files, folder, *rows, *run->tables());
}

}  // namespace mstrain::recommender
