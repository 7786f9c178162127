#include "suites/recommender/run/export_rows.h"

#include <gtest/gtest.h>

#include "core/base/files_fault.h"
#include "embedding_cache/row_store.h"
#include "tests/suites/recommender/world.h"

namespace mstrain::recommender {
namespace {

TEST(ExportRows, EndsWithAnErrorWhateverCannotBeRead) {
  if (!embedding_cache::has_rocksdb()) {
    GTEST_SKIP() << "built without RocksDB, and the other store reads all rows when it is opened";
  }
  World world(0, 1000, embedding_cache::StoreKind::kRocksdb);
  {
    const auto batches = training_batches(world.source(), {}, 11, BatchPart(8), 0);
    batches->learn(pull(batches->next(), *world.tables, 1));
  }
  const std::string id = world.rows->prepare(1);
  world.rows->confirm(id, {id});
  world.rows->open_to_read(id);
  FaultyFiles files(real_files());
  const auto write = [&] {
    AtomicFolder folder(real_files(), world.directory / "export");
    write_rows(files, folder, *world.rows, *world.tables);
  };
  write();
  const int64_t operations = files.operations();
  int64_t failed = 0;
  for (int64_t n = 0; n < operations; ++n) {
    files.reset({.fail_operation = n});
    try {
      write();
    } catch (const IoError&) {
      ++failed;
    }
  }
  EXPECT_GT(failed, operations / 2);
}

}  // namespace
}  // namespace mstrain::recommender
