// The rows of a recommender's run: where they live, and how much of each memory they take.
#include "core/base/log.h"
#include "core/ir/backend.h"
#include "core/runtime/context.h"
#include "core/train/machine.h"
#include "core/train/numbers.h"
#include "core/train/session.h"
#include "core/train/shared_plan.h"
#include "embedding_cache/row.h"
#include "suites/recommender/run/import_rows.h"
#include "suites/recommender/run/recommender_run.h"

namespace mstrain::recommender {

void RecommenderRun::find_oddities_of(int64_t, const YamlNode& tree, Findings& findings) const {
  find_unused_split(data.valid.has_value(), data.split, decltype(data){}.split, tree, findings);
  const std::shared_ptr<const Tables> tables = this->tables();
  const Placement shared = placement(*tables);
  int64_t wanted = 0;
  for (const embedding_cache::TablePlan& table :
       plan_rows(*tables, shared, options(), train.batch.global, rows_to_come(*tables)).tables) {
    wanted += static_cast<int64_t>(table.store_bytes) * shared.ranks();
  }
  find_full_disk(real_files(), rows_directory(), wanted,
                 config_where(tree, "embedding_cache.directory"), "the rows", findings);
  if (embedding.forgets() && embedding.evict_every > train.schedule.total_steps) {
    findings.push_back(
        fmt::format("{}: {} steps between two looks for rows to forget, in a run of {}: it forgets "
                    "none",
                    config_where(tree, "embedding.evict_every"), embedding.evict_every,
                    train.schedule.total_steps));
  }
}

Context RecommenderRun::context() const {
  return train.run.device_description ? current_context()
                                      : make_context(train, current_context().ranks);
}

// Samples that the run learns from, and as many as evaluations hold at once.
int64_t RecommenderRun::samples_taught() const {
  int64_t samples = opened_.train->samples();
  if (train.run.mode == RunMode::kTrain) {
    // Batches behind the last step are fetched ahead, too.
    const int64_t steps = train.schedule.total_steps + cache.pipeline.depth + 1;
    samples = samples / train.batch.global < steps ? samples : train.batch.global * steps;
  }
  return samples + (opened_.valid != nullptr ? train.batch.global : 0);
}

// None: no data tell.
std::vector<uint64_t> RecommenderRun::rows_to_come(const Tables& tables) const {
  return opened_.train == nullptr
             ? std::vector<uint64_t>()
             : most_rows(tables, placement(tables), samples_taught(), rows_before_);
}

embedding_cache::Options RecommenderRun::options() const {
  const Context context = this->context();
  const std::shared_ptr<const Tables> tables = this->tables();
  embedding_cache::Options options = cache_options(
      *tables, placement(*tables), embedding, cache, static_cast<uint64_t>(train.run.seed),
      context.num_threads(), memory_of_rank(train.memory, context),
      opened_.train == nullptr ? train.batch.global : samples_taught());
  for (embedding_cache::TableOptions& table : options.tables) {
    table.host_rows_key = host_rows_key_;
  }
  return options;
}

std::vector<uint64_t> RecommenderRun::device_rows(const embedding_cache::Options& options) const {
  const Context context = this->context();
  if (context.device().is_host() && context.backend->device.empty()) {
    return {};
  }
  const std::shared_ptr<const Tables> tables = this->tables();
  const int64_t memory = memory_limit(train.memory, context);
  const std::vector<uint64_t> rows =
      recommender::device_rows(*tables, placement(*tables), options, cache, memory);
  uint64_t bytes = 0;
  uint64_t of_each = 0;  // a row of each table that has some there
  for (size_t t = 0; t < rows.size(); ++t) {
    const uint64_t own = device_bytes(options.tables[t], rows[t]);
    bytes += own;
    of_each += rows[t] > 0 ? own / rows[t] : 0;
  }
  if (bytes > static_cast<uint64_t>(memory)) {
    throw PlanError(fmt::format(
        "embedding_cache.device_rows: {} rows of each table, or all that it has, take {}, and "
        "there are {} (memory.limit_gb); half of that holds {} of each",
        cache.device_rows.is_word() ? "auto" : grouped(*cache.device_rows.value),
        gigabytes(static_cast<int64_t>(bytes)), gigabytes(memory),
        grouped(memory / 2 / static_cast<int64_t>(of_each))));
  }
  return rows;
}

Placement RecommenderRun::placement(const Tables& tables) const {
  return {tables, train.parallel.embedding, data_ranks(train.parallel, current_context())};
}

int64_t RecommenderRun::bytes_of_tables(const Tables& tables) const {
  const embedding_cache::Options planned = options();
  const Placement shared = placement(tables);
  const auto part = static_cast<uint64_t>(train.batch.global / shared.ranks());
  uint64_t on_the_way = 0;
  if (shared.ranks() > 1 || train.batch.micro.value_or(train.batch.global) < train.batch.global) {
    const uint64_t blocks = shared.ranks() > 1 && cache.pipeline.depth > 0 ? 6 : 4;
    for (size_t t = 0; t < planned.tables.size(); ++t) {
      const TableSpec& table = tables.specs()[t];
      // Rows and gradients, sent and come, of as many distinct ids as there can be; and rows of the next batch.
      const uint64_t rows = std::min<uint64_t>(table.ids_of(part),
                                               table.rows().value_or(planned.tables[t].host_rows));
      on_the_way +=
          rows * blocks * embedding_cache::RowLayout(planned.tables[t]).width() * sizeof(float);
    }
  }
  const std::vector<uint64_t> on_device = device_rows(planned);
  for (size_t t = 0; t < on_device.size(); ++t) {
    on_the_way += device_bytes(planned.tables[t], on_device[t]);
  }
  const embedding_cache::Plan plan =
      plan_rows(tables, shared, planned, train.batch.global, rows_to_come(tables));
  return static_cast<int64_t>(plan.memory_bytes + on_the_way);
}

SizedRun RecommenderRun::sized(const Placement& placement,
                               const embedding_cache::Options& options) const {
  return {.samples = *opened_.train,
          .tables = *tables_,
          .placement = placement,
          .options = options,
          .order = {.shuffle = data.shuffle},
          .seed = static_cast<uint64_t>(train.run.seed),
          .batch = train.batch.global,
          .steps = train.schedule.total_steps,
          .look_ahead = cache.pipeline.depth,
          .others = rows_before_,
          .device_rows = device_rows(options)};
}

std::string RecommenderRun::describe_besides(const RunPlan& plan) const {
  const Placement shared = placement(*tables_);
  const embedding_cache::Options planned = options();
  const SizedRun run = sized(shared, planned);
  try {
    return describe(size_rows(run), run, plan);
  } catch (const IoError&) {
    throw;
  } catch (const ConfigError&) {
    throw;
  } catch (const Error& error) {
    throw ConfigError(fmt::format("embedding_cache.host_rows: {}", error.what()));
  }
}

std::string RecommenderRun::rows_directory() const {
  const std::string own = cache.directory.value_or(join_path(train.run.directory(), "rows"));
  switch (train.run.mode) {
    case RunMode::kBenchmark: return own + ".benchmark";
    case RunMode::kFindLr: return own + ".find_lr";
    default: return own;
  }
}

std::function<void(const RowSink&)> RecommenderRun::first_rows(FileSystem& files) const {
  if (!begins_with_) {
    return nullptr;
  }
  return [&files, folder = *begins_with_, tables = tables()](const RowSink& sink) {
    read_rows(files, folder, *tables, sink);
  };
}

std::shared_ptr<Rows> RecommenderRun::rows(FileSystem& files) const {
  embedding_cache::Options own = options();
  own.directory = rows_directory();
  own.files = &files == &real_files() ? nullptr : &files;
  std::vector<uint64_t> on_device = device_rows(own);
  if (on_device.empty() && cache.device_rows.value_or(0) > 0) {
    log_warning(
        "embedding_cache.device_rows: what computes here has no memory beside the host's, or no "
        "table can be there: all rows are in host memory");
  }
  return std::make_shared<Rows>(
      files, std::move(own),
      RowsOptions{.depth = cache.pipeline.depth,
                  .evict_every = embedding.forgets() ? embedding.evict_every : 0,
                  .way = train.parallel.embedding,
                  .device_rows = std::move(on_device),
                  .first = first_rows(files),
                  .run = cache.directory.is_word() ? "" : train.run.directory()},
      *tables(), current_context().ranks.get());
}

}  // namespace mstrain::recommender
