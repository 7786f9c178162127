// Steps in files, for memories larger than the machine's. Consecutive steps of all rows are a file, written whole and never changed, of
// which the system keeps in memory what is read; those that fill none yet are in memory, and in the saved state.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "core/base/files.h"
#include "suites/reinforcement/train/step_store.h"

namespace mstrain::reinforcement {

// Beside what StepStore says: add() throws IoError where the disk is full or unwritable; the files that saved states need are then intact.
class StepsOnDisk final : public StepStore {
 public:
  // `directory`: of this store alone; its files of steps go when the first one is written.
  StepsOnDisk(const StoreShape& shape, FileSystem& files, std::string directory);

  void add(std::span<const float> step) override;
  std::span<const float> at(int64_t step, int64_t row) const override;
  int64_t saved_bytes() const override {
    return static_cast<int64_t>(4 * (rest_.size() + kept_.size())) + 24;
  }
  void save(ByteWriter& to) const override;
  // Reads every file. Throws IoError naming the one that is missing or not as it was.
  void load(ByteReader& from) override;
  void release(int64_t added) override;

  // Of a store of this shape: numbers of steps of a file, and what it holds in memory.
  static int64_t steps_of_file(const StoreShape& shape);
  static int64_t memory_bytes(const StoreShape& shape);

 private:
  struct File {
    int64_t first = 0;  // of its steps
    uint32_t checksum = 0;
    std::unique_ptr<MappedFile> view;
  };
  std::string path(int64_t first) const;
  // In the order of their steps: those of which some are kept.
  void open(int64_t first, uint32_t checksum);
  void clear();

  FileSystem& files_;
  std::string directory_;
  int64_t steps_of_file_;
  std::deque<File> kept_;
  std::vector<float> rest_;  // steps behind those of files
};

}  // namespace mstrain::reinforcement
