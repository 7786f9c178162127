// Text to what training reads (prepared.h): one pass over all lines counts the values of every field, one writes the samples. Both work on pieces
// of the files, each by one thread, and what a piece comes to is kept as a file: after a kill the same call goes on from those that are there.
// The folder depends on the configuration, the text, and the names and times of its files alone.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "suites/recommender/data/data_config.h"

namespace mstrain::recommender {

struct PreprocessOptions {
  int threads = 1;
  uint64_t chunk_bytes = 64 << 20;  // of text that a thread holds the numbers of
  std::function<void(const std::string& line)> tell = [](const std::string&) {};
};

enum class Preprocessed { kDone, kWasDone, kInterrupted };

// data.train to data.prepared. Throws ConfigError naming the key; IoError where more lines are malformed than data.malformed.limit, with
// the first of them, and where the disk is full.
Preprocessed preprocess(FileSystem& files, const DataConfig& config, const YamlNode& tree,
                        const PreprocessOptions& options, const std::atomic<bool>& stop);

}  // namespace mstrain::recommender
