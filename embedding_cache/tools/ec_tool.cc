// ec_tool: look into, check, move and size embedding caches.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/base/error.h"
#include "core/base/standard_output.h"
#include "embedding_cache/cache.h"
#include "embedding_cache/commit_store.h"
#include "embedding_cache/delta.h"
#include "embedding_cache/plan.h"
#include "embedding_cache/replay.h"
#include "embedding_cache/tools/arguments.h"
#include "embedding_cache/tools/kill_test.h"

namespace mstrain::embedding_cache {
namespace {

constexpr const char* kHelp = R"(ec_tool COMMAND ...
  stats DIR                               commits, tables, rows, bytes
  verify DIR [--commit N] [--deep]        every file against its digest; --deep reads every row too
  dump DIR --table T [--commit N] [--limit K]       id, step, updates and weights, one row a line
  export DIR FILE [--commit N] [--since N] [--weights-only]   a commit, or what changed since another one
  import DIR FILE [--config YAML]         rows and tombstones of FILE, as a new commit; --config for a new directory
  plan --config YAML [--rows N] [--alpha A] [--draws N] [--compute S] [--reads N] [--writes N]
                                          bytes by tier, hit rates, I/O of a batch; the workload holds for every table
  replay LOG --rows N,N,... [--batch N] [--look-ahead N] [--skip N] [--record-bytes N] [--reads N] [--compute S] [--html FILE] [--optimum]
                                          hit rates of an id log (8 bytes an id, or one a line) for several sizes;
                                          --optimum: and of who knows the whole log, which none exceeds per id
  killtest [--rounds N] [--seed S] [--store rocksdb|memory] [--steps N] [--dir DIR]
  rehearse DIR [--seed S] [--store ...] [--steps N]  what killtest runs: train made-up batches, print the digest
Exit status: 0 done, 1 failed or damaged, 2 bad usage.
)";

StoreKind store_of(const std::string& name) {
  if (name == "rocksdb") {
    return StoreKind::kRocksdb;
  }
  if (name == "memory") {
    return StoreKind::kMemory;
  }
  if (name == "auto") {
    return StoreKind::kAuto;
  }
  throw ConfigError(fmt::format("--store: expected rocksdb, memory or auto, found \"{}\"", name));
}

int stats(const Arguments& args) {
  const std::string& directory = args.word(1, "DIR");
  FileSystem& files = real_files();
  require_directory(files, directory);
  for (const CommitId id : list_commit_folders(files, directory)) {
    if (!has_manifest(files, directory, id)) {
      fmt::print("commit {:>6}  incomplete\n", id);
      continue;
    }
    const CommitInfo info = read_manifest(files, directory, id);
    uint64_t bytes = 0;
    for (const StoreFile& file : info.files) {
      bytes += file.size;
    }
    fmt::print("commit {:>6}  step {:>10}  after {:>6}  {}  {} files  {} bytes\n", id, info.step,
               info.parent, info.store, info.files.size(), bytes);
    for (const CommitTable& table : info.tables) {
      fmt::print("    {:<20} {:>12} rows  {}\n", table.name, table.rows, table.schema);
    }
  }
  return 0;
}

// Rows against what the manifest says of them.
std::vector<std::string> verify_rows(const std::string& directory, CommitId id) {
  const CommitStore commit = open_commit(real_files(), directory, id);
  std::vector<std::string> problems;
  for (uint32_t t = 0; t < commit.layouts.size(); ++t) {
    uint64_t rows = 0;
    uint64_t later = 0;
    uint64_t untouched = 0;
    commit.store->scan(t, [&](Id, const std::byte* record) {
      const RowHeader header = load_header(record);
      ++rows;
      later += header.step > commit.info.step ? 1 : 0;
      untouched += header.updates == 0 ? 1 : 0;
    });
    const std::string where =
        fmt::format("{}: table \"{}\": ", commit_folder(directory, id), commit.info.tables[t].name);
    if (rows != commit.info.tables[t].rows) {
      problems.push_back(
          fmt::format("{}{} rows, the manifest says {}", where, rows, commit.info.tables[t].rows));
    }
    if (later > 0 || untouched > 0) {
      problems.push_back(fmt::format("{}{} rows are of a later step, {} state no update", where,
                                     later, untouched));
    }
  }
  return problems;
}

int verify(const Arguments& args) {
  const std::string& directory = args.word(1, "DIR");
  const CommitId wanted = args.number("--commit", 0);
  FileSystem& files = real_files();
  require_directory(files, directory);
  bool intact = true;
  uint64_t seen = 0;
  for (const CommitId id : list_commit_folders(files, directory)) {
    if ((wanted != 0 && id != wanted) || !has_manifest(files, directory, id)) {
      continue;
    }
    ++seen;
    std::vector<std::string> problems = verify_commit(files, directory, id);
    if (problems.empty() && args.has("--deep")) {
      problems = verify_rows(directory, id);
    }
    for (const std::string& problem : problems) {
      fmt::print("{}\n", problem);
    }
    fmt::print("commit {} {}\n", id, problems.empty() ? "is intact" : "is DAMAGED");
    intact = intact && problems.empty();
  }
  check(wanted == 0 || seen > 0, "{}: holds no commit {}", directory, wanted);
  return intact ? 0 : 1;
}

int dump(const Arguments& args) {
  const CommitStore commit =
      open_commit(real_files(), args.word(1, "DIR"), args.number("--commit", 0));
  const uint32_t table = commit.table(args.text("--table", commit.options.tables[0].name));
  const uint64_t limit = args.number("--limit", ~uint64_t{0});
  uint64_t printed = 0;
  commit.scan(table, 0, [&](Id id, const std::byte* record) {
    if (printed == limit) {
      return;
    }
    ++printed;
    const RowHeader header = load_header(record);
    std::string line = fmt::format("{}\t{}\t{}", id, header.step, header.updates);
    std::vector<float> weights(commit.layouts[table].width());
    std::memcpy(weights.data(), record + kHeaderBytes, weights.size() * sizeof(float));
    for (size_t i = 0; i < weights.size(); ++i) {
      line += fmt::format("{}{}", i == 0 ? '\t' : ' ', weights[i]);
    }
    fmt::print("{}\n", line);
  });
  return 0;
}

int export_commit(const Arguments& args) {
  const std::string& directory = args.word(1, "DIR");
  const std::string& path = args.word(2, "FILE");
  FileSystem& files = real_files();
  const CommitStore commit = open_commit(files, directory, args.number("--commit", 0));
  const CommitId since = args.number("--since", 0);
  const bool with_state = !args.has("--weights-only");
  DeltaHead head{.since = since,
                 .step = commit.info.step,
                 .with_state = with_state,
                 .at = {commit.info.id, commit.info.step},
                 .abandoned = commit.info.abandoned};
  if (since != 0) {
    check(has_manifest(files, directory, since), "--since {}: {} holds no such commit", since,
          directory);
    const CommitInfo before = read_manifest(files, directory, since);
    check(before.step <= commit.info.step, "--since {}: commit {} is not newer", since,
          commit.info.id);
    check(comes_from(commit.info, since),
          "--since {}: commit {} does not come from it: the run has gone back to an earlier one "
          "since; name that one or an older, or export all rows, without --since",
          since, commit.info.id);
    head.since_step = before.step;
  }
  for (uint32_t t = 0; t < commit.layouts.size(); ++t) {
    const RowLayout& layout = commit.layouts[t];
    check(
        !layout.learns_always(),
        "{}: all rows of table \"{}\" learn at every step (optimizer.l2_of: table), those that are "
        "in no file too; copy the directory of the commit, or see `ec_tool dump`",
        directory, commit.info.tables[t].name);
    head.tables.push_back({.name = commit.info.tables[t].name,
                           .schema = layout.schema(),
                           .width = layout.width(),
                           .row_bytes = with_state ? layout.record_bytes() : layout.width() * 4});
  }
  const std::string state = join_path(commit_folder(directory, commit.info.id), "state.bin");
  const std::vector<TableState> states = parse_state(files.read(state), state);
  DeltaWriter writer(files, path, head);
  for (uint32_t t = 0; t < commit.layouts.size(); ++t) {
    writer.add_table(t, *commit.store, commit.layouts[t].record_bytes(), states.at(t).tombstones);
  }
  writer.finish();
  fmt::print("{}: {} rows, {} tombstones of step {}\n", path, writer.rows(), writer.tombstones(),
             head.step);
  return 0;
}

int import_file(const Arguments& args) {
  const std::string& directory = args.word(1, "DIR");
  const std::string& path = args.word(2, "FILE");
  Options options;
  if (args.has("--config")) {
    const std::string config = args.text("--config", "");
    options = parse_options(real_files().read(config), config);
  } else {
    check(real_files().exists(directory),
          "{}: there is none; --config says of which tables a new one is", directory);
    options = open_commit(real_files(), directory, 0).options;
  }
  options.directory = directory;
  const uint64_t file_step = DeltaReader(real_files(), path).head().step;
  Cache cache = Cache::open(options);
  const ExportSummary summary = cache.import_delta(path);
  const std::string blob(as_text(cache.user_blob()));
  const CommitId id = cache.commit_step(file_step, as_bytes(blob));
  fmt::print("{}: {} rows, {} tombstones; commit {} of step {}\n", directory, summary.rows,
             summary.tombstones, id, file_step);
  return 0;
}

int print_plan_of(const Arguments& args) {
  const std::string config = args.text("--config", "");
  if (config.empty()) {
    throw ConfigError("plan needs --config YAML");
  }
  const Options options = parse_options(real_files().read(config), config);
  Workload load;
  load.rows = args.number("--rows", load.rows, 1);
  load.alpha = args.positive("--alpha", load.alpha);
  load.draws_per_batch = args.number("--draws", load.draws_per_batch, 1);
  load.compute_seconds =
      args.not_negative("--compute", 0) / static_cast<double>(options.tables.size());
  load.reads_per_second = args.positive("--reads", load.reads_per_second);
  load.writes_per_second = args.positive("--writes", load.writes_per_second);
  const std::vector<Workload> loads(options.tables.size(), load);
  fmt::print("{}", print_plan(plan(options, loads)));
  return 0;
}

int replay_log(const Arguments& args) {
  const std::string& path = args.word(1, "LOG");
  const std::vector<Id> log = read_id_log(real_files(), path);
  ReplayOptions options{.batch = args.number("--batch", 16000, 1),
                        .look_ahead = static_cast<uint32_t>(args.number("--look-ahead", 8)),
                        .skip_batches = args.number("--skip", 0)};
  const ReplayCost cost{.record_bytes = args.number("--record-bytes", 328),
                        .reads_per_second = args.positive("--reads", 60'000),
                        .compute_seconds = args.not_negative("--compute", 0)};
  if (const uint64_t batches = (log.size() + options.batch - 1) / options.batch;
      !log.empty() && options.skip_batches >= batches) {
    throw ConfigError(fmt::format("--skip: leaves none of the log's {} batches", batches));
  }
  std::vector<uint64_t> sizes;
  const std::string list = args.text("--rows", "");
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string word = list.substr(begin, end - begin);
    std::string name = "--rows";
    char* argv[] = {name.data(), word.data()};
    sizes.push_back(Arguments(2, argv, {"--rows"}, {}).number("--rows", 0, 1));
    begin = end + 1;
  }
  if (sizes.empty()) {
    throw ConfigError("replay needs --rows N,N,...: the sizes to try");
  }
  std::vector<ReplayResult> results;
  for (const uint64_t rows : sizes) {
    options.host_rows = rows;
    for (const Policy policy : {Policy::kLru, Policy::kLfu, Policy::kLookAhead}) {
      results.push_back(replay(log, policy, options));
    }
    if (args.has("--optimum")) {
      results.push_back(replay_optimum(log, options));
    }
  }
  fmt::print("{} ids, {} batches of {}, {} batches of look-ahead\n{}", log.size(),
             (log.size() + options.batch - 1) / options.batch, options.batch, options.look_ahead,
             print_replay(results, cost));
  if (args.has("--html")) {
    write_file_atomic(real_files(), args.text("--html", ""),
                      replay_page(results, cost, "Hit rates of " + file_name(path)));
  }
  return 0;
}

int rehearse_here(const Arguments& args) {
  return rehearse(args.word(1, "DIR"), store_of(args.text("--store", "auto")),
                  args.number("--seed", 1), args.number("--steps", 120));
}

int kill_test(const Arguments& args) {
  return run_kill_test({.rounds = args.number("--rounds", 30),
                        .seed = args.number("--seed", 1),
                        .store = store_of(args.text("--store", "auto")),
                        .directory = args.text("--dir", ""),
                        .steps = args.number("--steps", 120)});
}

struct Command {
  std::string name;
  int (*run)(const Arguments&);
  std::vector<std::string> options;  // that take a value
  std::vector<std::string> switches;
};

const std::vector<Command>& commands() {
  static const std::vector<Command> all{
      {"stats", stats, {}, {}},
      {"verify", verify, {"--commit"}, {"--deep"}},
      {"dump", dump, {"--table", "--commit", "--limit"}, {}},
      {"export", export_commit, {"--commit", "--since"}, {"--weights-only"}},
      {"import", import_file, {"--config"}, {}},
      {"plan",
       print_plan_of,
       {"--config", "--rows", "--alpha", "--draws", "--compute", "--reads", "--writes"},
       {}},
      {"replay",
       replay_log,
       {"--rows", "--batch", "--look-ahead", "--skip", "--record-bytes", "--reads", "--compute",
        "--html"},
       {"--optimum"}},
      {"killtest", kill_test, {"--rounds", "--seed", "--store", "--steps", "--dir"}, {}},
      {"rehearse", rehearse_here, {"--seed", "--store", "--steps"}, {}}};
  return all;
}

int run(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  for (const Command& command : commands()) {
    if (command.name == name) {
      std::vector<std::string> switches = command.switches;
      switches.emplace_back("--help");
      const Arguments args(argc - 1, argv + 1, command.options, switches);
      if (args.has("--help")) {
        fmt::print("{}", kHelp);
        return 0;
      }
      return command.run(args);
    }
  }
  if (name.empty() || name == "--help") {
    fmt::print("{}", kHelp);
    return name.empty() ? 2 : 0;
  }
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    names.push_back(command.name);
  }
  throw ConfigError(
      fmt::format("{}: unknown command{}; see ec_tool --help", name, did_you_mean(name, names)));
}

}  // namespace
}  // namespace mstrain::embedding_cache

int main(int argc, char** argv) {
  try {
    const int status = mstrain::embedding_cache::run(argc, argv);
    mstrain::finish_output();
    return status;
  } catch (const mstrain::ConfigError& error) {
    fmt::print(stderr, "ec_tool: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "ec_tool: {}\n", error.what());
    return 1;
  }
}
