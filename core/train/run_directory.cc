#include "core/train/run_directory.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/io/folder.h"

namespace mstrain {

RunDirectory::RunDirectory(FileSystem& files, std::string path)
    : files_(files), path_(std::move(path)) {
  files_.create_directories(checkpoints());
  lock_ = files_.try_lock(at(".lock"));
  if (lock_ == nullptr) {
    fail("{}: another mstrain is at work here; wait for it or choose another run.output_dir",
         path_);
  }
  clean_folders(files_, path_);
  for (const std::string& name : clean_folders(files_, checkpoints())) {
    log_debug("{}: {} was left by an interrupted save", checkpoints(), name);
  }
}

}  // namespace mstrain
