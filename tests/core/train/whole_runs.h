// What tests of whole runs begin with: a folder of their own, and nothing said.
#pragma once

#include <gtest/gtest.h>

#include "core/base/log.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/small_task.h"

namespace mstrain {

class Session : public testing::Test {
 protected:
  Session() {
    previous_ = set_log_sink([](LogLevel, std::string_view) {});
  }
  ~Session() override { set_log_sink(previous_); }

  TemporaryFolder folder_;
  LogSink previous_;
};

inline Json run_record(const TrainConfig& config) {
  const std::string path = join_path(config.run.directory(), kRunFile);
  return parse_json(real_files().read(path), path);
}

}  // namespace mstrain
