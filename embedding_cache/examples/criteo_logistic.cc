// Logistic regression on Criteo rows, its weights in an embedding cache. Kill it whenever you like; the same command goes on.
//   criteo_logistic criteo_sample.csv run/rows 400
#include <cmath>
#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "embedding_cache/cache.h"

using namespace mstrain::embedding_cache;
constexpr size_t kBatch = 20, kFields = 39;

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
  mstrain::check(!labels.empty() && ids.size() == labels.size() * kFields, "{}: no samples",
                 argv[1]);

  Segment weight{.width = 1, .init = {.kind = InitKind::kZero}};
  weight.optimizer = {
      .kind = OptimizerKind::kFtrl, .lr = 0.1F, .l1 = 0.01F, .initial_accumulator = 1};
  Options options{.directory = argv[2]};
  options.tables = {{.name = "weights", .host_rows = 2000, .segments = {weight}}};
  Cache cache = Cache::open(options);  // where the newest complete commit ended
  fmt::print("from step {}\n", cache.last_step());

  const size_t batches = labels.size() / kBatch;
  const uint64_t steps = std::stoull(argv[3]);
  const auto prefetch = [&](uint64_t step) {
    return cache.prefetch(
        0, std::span(ids).subspan(step % batches * kBatch * kFields, kBatch * kFields), step);
  };
  Ticket next;
  std::vector<float> values(kBatch * kFields);
  for (uint64_t step = cache.last_step() + 1; step <= steps; ++step) {
    Ticket ticket = next.is_open() ? std::move(next) : prefetch(step);
    const bool commits = step % 50 == 0 || step == steps;
    if (!commits) {
      next = prefetch(step + 1);  // its rows arrive while this batch learns
    }
    cache.wait(ticket);
    cache.gather(ticket, values.data(), 1);
    double loss = 0;
    for (size_t i = 0; i < kBatch; ++i) {
      float* row = &values[i * kFields];
      float logit = 0;
      for (size_t field = 0; field < kFields; ++field) {
        logit += row[field];
      }
      const float label = labels[step % batches * kBatch + i];
      const float p = 1 / (1 + std::exp(-logit));
      loss -= std::log(label > 0 ? p : 1 - p) / kBatch;
      std::fill_n(row, kFields, (p - label) / kBatch);  // the gradient, in place of the weights
    }
    cache.update(ticket, values);
    cache.release(std::move(ticket));
    if (commits) {
      cache.commit_step(step);
      fmt::print("step {}  loss {:.4f}  rows {}\n", step, loss, cache.stats().tables[0].rows);
    }
  }
  fmt::print("digest {}\n", cache.digest());
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
