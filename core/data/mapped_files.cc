#include "core/data/mapped_files.h"

#include <algorithm>

#include "core/base/error.h"

namespace mstrain {

MappedFiles::MappedFiles(FileSystem& files, std::vector<SourceFile> sources, size_t max_mappings)
    : files_(files),
      sources_(std::move(sources)),
      max_mappings_(std::max<size_t>(1, max_mappings)),
      mapped_(sources_.size()) {
  for (const SourceFile& source : sources_) {
    ends_.push_back(size() + source.bytes);
  }
}

std::shared_ptr<const MappedFile> MappedFiles::map(size_t source) const {
  const std::lock_guard lock(mutex_);
  if (mapped_[source] != nullptr) {
    return mapped_[source];
  }
  const SourceFile& file = sources_[source];
  std::shared_ptr<const MappedFile> mapping = files_.map(file.path);
  if (mapping->bytes().size() != static_cast<size_t>(file.bytes)) {
    throw IoError(fmt::format("{}: has changed since it was opened: {} bytes then, {} now",
                              file.path, file.bytes, mapping->bytes().size()));
  }
  if (order_.size() == max_mappings_) {
    mapped_[order_.front()] = nullptr;
    order_.pop_front();
  }
  order_.push_back(source);
  mapped_[source] = mapping;
  return mapping;
}

MappedFiles::Piece MappedFiles::at(int64_t offset) const {
  check(offset >= 0 && offset < size(), "byte {} lies outside data of {} bytes", offset, size());
  const size_t source = std::upper_bound(ends_.begin(), ends_.end(), offset) - ends_.begin();
  const int64_t begin = ends_[source] - sources_[source].bytes;
  Piece piece{.source = source, .begin = begin, .owner = map(source)};
  piece.bytes = as_text(piece.owner->bytes()).substr(offset - begin);
  return piece;
}

}  // namespace mstrain
