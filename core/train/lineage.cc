#include "core/train/lineage.h"

#include <filesystem>
#include <system_error>

#include "core/train/checkpoint.h"
#include "core/train/report_data.h"

namespace mstrain {

std::string real_path(const std::string& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  return error ? path : real.string();
}

Origin origin_of(FileSystem& files, const std::string& from, const std::string& started_in) {
  Origin out{from, "", ""};
  const std::string path = real_path(join_path(started_in, from));
  if (is_run_directory(files, path)) {
    out.run_directory = path;
    return out;
  }
  const std::string above = parent_path(path);
  if (file_name(above) == "checkpoints" && parse_checkpoint_name(file_name(path)) &&
      is_run_directory(files, parent_path(above))) {
    out.run_directory = parent_path(above);
    out.checkpoint = file_name(path);
  }
  return out;
}

}  // namespace mstrain
