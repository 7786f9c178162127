#include "suites/reinforcement/train/steps_on_disk.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/io/digest.h"
#include "suites/reinforcement/algorithms/sizes.h"

namespace mstrain::reinforcement {
namespace {

constexpr std::string_view kBegin = "steps-", kEnd = ".bin";
constexpr int64_t kLargest = int64_t{64} << 20;  // bytes of a file
constexpr int64_t kFewest = 16;                  // files, where they are smaller

std::optional<int64_t> first_of(std::string_view name) {
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) {
    return std::nullopt;
  }
  name = name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
  int64_t first = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), first);
  return error == std::errc() && end == name.data() + name.size() ? std::optional(first)
                                                                  : std::nullopt;
}

}  // namespace

int64_t StepsOnDisk::steps_of_file(const StoreShape& shape) {
  const int64_t largest = std::max<int64_t>(1, kLargest / (4 * shape.step_numbers()));
  return std::clamp<int64_t>(shape.steps / kFewest, 1, largest);
}

int64_t StepsOnDisk::memory_bytes(const StoreShape& shape) {
  return steps_of_file(shape) * shape.step_numbers() * 4;
}

StepsOnDisk::StepsOnDisk(const StoreShape& shape, FileSystem& files, std::string directory)
    : StepStore(shape),
      files_(files),
      directory_(std::move(directory)),
      steps_of_file_(steps_of_file(shape)) {
  rest_.reserve(count(steps_of_file_ * shape.step_numbers()));
}

std::string StepsOnDisk::path(int64_t first) const {
  return join_path(directory_, fmt::format("{}{:012}{}", kBegin, first, kEnd));
}

void StepsOnDisk::clear() {
  create_directories_durably(files_, directory_);
  for (const std::string& name : files_.list(directory_)) {
    if (first_of(name)) {
      files_.remove(join_path(directory_, name));
    }
  }
}

void StepsOnDisk::open(int64_t first, uint32_t checksum) {
  File file{.first = first, .checksum = checksum, .view = files_.map(path(first))};
  const std::span<const std::byte> bytes = file.view->bytes();
  if (bytes.size() != count(4 * steps_of_file_ * shape_.step_numbers()) ||
      crc32c(bytes) != checksum) {
    throw IoError(fmt::format(
        "{}: does not hold the steps that the run had written into it; restore it, or begin anew "
        "with --restart",
        path(first)));
  }
  kept_.push_back(std::move(file));
}

void StepsOnDisk::add(std::span<const float> step) {
  if (added_ == 0) {
    clear();
  }
  rest_.insert(rest_.end(), step.begin(), step.end());
  ++added_;
  if (added_ % steps_of_file_ == 0) {
    const int64_t first = added_ - steps_of_file_;
    const std::span<const std::byte> bytes = std::as_bytes(std::span(rest_));
    write_file_atomic(files_, path(first), bytes);
    open(first, crc32c(bytes));
    rest_.clear();
  }
  while (!kept_.empty() && kept_.front().first + steps_of_file_ <= oldest()) {
    kept_.pop_front();
  }
}

std::span<const float> StepsOnDisk::at(int64_t step, int64_t row) const {
  const int64_t filed = added_ - added_ % steps_of_file_;
  const int64_t first = step >= filed ? filed : step - step % steps_of_file_;
  const size_t begin = count(((step - first) * shape_.rows + row) * shape_.numbers);
  if (step >= filed) {
    return std::span(rest_).subspan(begin, count(shape_.numbers));
  }
  const File& file = kept_[count((first - kept_.front().first) / steps_of_file_)];
  const auto* const numbers = reinterpret_cast<const float*>(file.view->bytes().data());
  return {numbers + begin, count(shape_.numbers)};
}

void StepsOnDisk::save(ByteWriter& to) const {
  to.put(added_);
  to.put_all(rest_);
  std::vector<uint32_t> checksums;
  for (const File& file : kept_) {
    checksums.push_back(file.checksum);
  }
  to.put_all(checksums);
}

void StepsOnDisk::load(ByteReader& from) {
  added_ = from.get<int64_t>();
  rest_ = from.get_all<float>(count(added_ % steps_of_file_ * shape_.step_numbers()));
  rest_.reserve(count(steps_of_file_ * shape_.step_numbers()));
  const int64_t begin = oldest() / steps_of_file_, end = added_ / steps_of_file_;
  const std::vector<uint32_t> checksums = from.get_all<uint32_t>(count(end - begin));
  kept_.clear();
  for (int64_t file = begin; file < end; ++file) {
    open(file * steps_of_file_, checksums[count(file - begin)]);
  }
}

void StepsOnDisk::release(int64_t added) {
  const int64_t needed = added - shape_.steps;
  for (const std::string& name :
       files_.exists(directory_) ? files_.list(directory_) : std::vector<std::string>()) {
    const std::optional<int64_t> first = first_of(name);
    if (first && *first + steps_of_file_ <= needed) {
      files_.remove(join_path(directory_, name));
    }
  }
}

}  // namespace mstrain::reinforcement
