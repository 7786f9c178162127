// Whole runs on ranks that are threads, of models of a small text.
#pragma once

#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "core/base/rng.h"
#include "suites/run/run.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/ranks.h"

namespace mstrain {

class RunsOnRanks : public testing::Test {
 protected:
  explicit RunsOnRanks(int characters) {
    std::string text;
    for (int i = 0; i < characters; ++i) {
      text += i % 37 == 0 ? '\n' : static_cast<char>('a' + rng_.below(20));
    }
    write_file_atomic(real_files(), folder_ / "text.txt", text);
  }

  // What all ranks say of the run. A mesh of one: a run without ranks.
  Outcome run_on(const Mesh& mesh, const YamlNode& tree) {
    std::mutex mutex;
    std::set<Outcome> outcomes;
    const auto run_one = [&](std::shared_ptr<Ranks> ranks) {
      std::FILE* const out = std::tmpfile();
      RunRequest request{real_files(), tree, stop_, out, {}};
      request.start.ranks = std::move(ranks);
      const Outcome outcome = run(request);
      std::fclose(out);
      const std::scoped_lock lock(mutex);
      outcomes.insert(outcome);
    };
    if (mesh.ranks() == 1) {
      run_one(nullptr);
    } else {
      run_ranks(mesh, run_one);
    }
    EXPECT_EQ(outcomes.size(), 1U);
    return *outcomes.begin();
  }
  static Mesh along_data(int64_t ranks) { return {{{std::string(kDataAxis), ranks}}}; }

  // The section data of the text.
  std::string data_of_text(const std::string& more = "") {
    return "{train: " + folder_ / "text.txt" +
           ", split: 0.8, tokenizer: {type: byte}, seq_length: 16" + more + "}";
  }

  TemporaryFolder folder_;
  Rng rng_{1};
  std::atomic<bool> stop_ = false;
};

}  // namespace mstrain
