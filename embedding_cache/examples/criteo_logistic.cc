// Logistic regression on Criteo rows, its weights in an embedding cache. Kill it whenever you like; the same command goes on.
//   criteo_logistic criteo_sample.csv run/rows 400
#include <cmath>
#include <fstream>
#include <numeric>
#include <sstream>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "embedding_cache/stream.h"

using namespace mstrain::embedding_cache;
constexpr size_t kBatch = 20, kFields = 39;
constexpr const char* kOptions = R"(
tables: [{name: weights, host_rows: 2000, segments: [{width: 1, init: {kind: zero},
          optimizer: {kind: ftrl, lr: 0.1, l1: 0.01, initial_accumulator: 1}}]}])";

int main(int argc, char** argv) try {
  mstrain::check(argc == 4, "usage: criteo_logistic FILE.csv DIRECTORY STEPS");
  std::vector<float> labels;
  std::vector<Id> ids;  // [samples, fields]: a hash of the field's number and its text
  std::ifstream in(argv[1]);
  std::string line, text;
  for (std::getline(in, line); std::getline(in, line);) {  // the first line names the columns
    std::istringstream cells(line + ",");
    for (size_t field = 0; field <= kFields && std::getline(cells, text, ','); ++field) {
      field == 0 ? labels.push_back(text == "1")
                 : ids.push_back(mstrain::hash_bytes(text, field).lo);
    }
  }
  const size_t batches = labels.size() / kBatch;
  mstrain::check(batches > 0 && ids.size() == labels.size() * kFields, "{}: no samples", argv[1]);

  Options options = parse_options(kOptions, "options");
  options.directory = argv[2];
  Cache cache = Cache::open(options);  // where the newest complete commit ended
  fmt::print("from step {}\n", cache.last_step());
  Stream stream(cache, 0, {.steps = std::stoull(argv[3]), .commit_every = 50}, [&](uint64_t step) {
    return std::span(ids).subspan(step % batches * kBatch * kFields, kBatch * kFields);
  });
  while (stream.next()) {  // the rows of the next batch arrive while this one learns
    const float* label = &labels[stream.step() % batches * kBatch];
    float* row = stream.values().data();
    double loss = 0;
    for (size_t i = 0; i < kBatch; ++i, row += kFields) {
      const float p = 1 / (1 + std::exp(-std::accumulate(row, row + kFields, 0.0F)));
      loss -= std::log(label[i] > 0 ? p : 1 - p) / kBatch;
      std::fill_n(row, kFields, (p - label[i]) / kBatch);  // the gradient, in place of the weights
    }
    if (stream.learn(stream.values())) {
      cache.commit_step(stream.step());
      fmt::print("step {}  loss {:.4f}  rows {}\n", stream.step(), loss,
                 cache.stats().tables[0].rows);
    }
  }
  fmt::print("digest {}\n", cache.digest());
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
