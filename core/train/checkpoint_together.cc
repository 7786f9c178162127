#include "core/train/checkpoint_together.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/io/folder.h"
#include "core/tensor/host.h"
#include "core/train/rank_talk.h"

namespace mstrain {
namespace {

constexpr const char* kSaving = "checkpoint";

struct File {
  std::string name;
  const std::vector<StoredTensor>* tensors;
  SafetensorsLayout layout;
  std::string path = {};                     // while it is written
  int64_t written = 0;                       // bytes, of this rank
  std::vector<Sha256::Digest> digests = {};  // by block: those that this rank formed, others 0

  uint64_t blocks() const {
    return std::max<uint64_t>(1, (layout.size() + kDigestBlock - 1) / kDigestBlock);
  }
};

void write_share(FileSystem& files, File& file, int rank) {
  if (!files.exists(file.path)) {
    throw IoError(fmt::format(
        "{}: is not here, where rank {} is; run.output_dir must be on a file system that all ranks "
        "see",
        file.path, rank));
  }
  const std::unique_ptr<PlacedFile> out = files.open_placed(file.path);
  const uint64_t data = file.layout.header.size();
  const auto write = [&](uint64_t at, std::span<const std::byte> bytes) {
    out->write(at, bytes);
    file.written += static_cast<int64_t>(bytes.size());
  };
  if (rank == 0) {
    write(0, as_bytes(file.layout.header));
  }
  const auto named = by_name(*file.tensors);
  for (const TensorEntry& entry : file.layout.entries) {
    const StoredTensor& tensor = *named.at(entry.name);
    std::optional<HostRead> held;
    for_share(tensor, entry.bytes, rank, [&](uint64_t at, uint64_t held_at, uint64_t bytes) {
      if (!held) {
        held.emplace(dense(tensor.value));
      }
      write(data + entry.offset + at, held->bytes().subspan(held_at, bytes));
    });
  }
  out->sync();
  out->close();
}

// What nobody writes reads as zeros, with a digest like any other's.
void check_all_is_written(File& file, Communicator& ranks) {
  int64_t all = 0;
  ranks
      .all_reduce({&file.written, 1, Dtype::kI64}, {&all, 1, Dtype::kI64}, Reduction::kSum, kSaving)
      .wait();
  check(static_cast<uint64_t>(all) == file.layout.size(), "{}: ranks wrote {} bytes of its {}",
        file.path, all, file.layout.size());
}

// Every size-th block, from the rank's own on.
void digest_share(FileSystem& files, File& file, const Communicator& ranks) {
  const std::unique_ptr<MappedFile> mapped = files.map(file.path);
  const std::span<const std::byte> bytes = mapped->bytes();
  if (bytes.size() != file.layout.size()) {
    throw IoError(
        fmt::format("{}: has {} bytes instead of {}", file.path, bytes.size(), file.layout.size()));
  }
  for (auto block = static_cast<uint64_t>(ranks.rank()); block < file.blocks();
       block += static_cast<uint64_t>(ranks.size())) {
    const uint64_t begin = block * kDigestBlock;
    file.digests[block] =
        Sha256().add(bytes.subspan(begin, std::min(kDigestBlock, bytes.size() - begin))).finish();
  }
}

// Those of all ranks.
void exchange_digests(File& file, Communicator& ranks) {
  const Elements all{file.digests.data(),
                     static_cast<int64_t>(file.digests.size() * sizeof(Sha256::Digest)),
                     Dtype::kU8};
  ranks.all_reduce(all, all, Reduction::kMax, kSaving).wait();
}

}  // namespace

void save_together(FileSystem& files, const std::string& folder, const CheckpointContents& contents,
                   Communicator& ranks) {
  const bool first = ranks.rank() == 0;
  std::vector<File> parts;
  parts.push_back({contents.model_file, &contents.model, layout_of(contents.model)});
  parts.push_back({kOptimizerFile, &contents.optimizer, layout_of(contents.optimizer)});
  std::optional<AtomicFolder> out;
  work_together(ranks, kSaving, [&] {
    if (!first) {
      return;
    }
    out.emplace(files, folder);
    for (const auto& [name, bytes] : contents.files) {
      out->write(name, bytes);
    }
    for (File& file : parts) {
      out->reserve(file.name, file.layout.size());
      file.path = out->path_of(file.name);
    }
  });
  for (File& file : parts) {
    file.path = told(ranks, file.path, kSaving);
    file.digests.resize(file.blocks());
  }
  work_together(ranks, kSaving, [&] {
    for (File& file : parts) {
      write_share(files, file, ranks.rank());
    }
  });
  for (File& file : parts) {
    check_all_is_written(file, ranks);
  }
  work_together(ranks, kSaving, [&] {
    for (File& file : parts) {
      digest_share(files, file, ranks);
    }
  });
  for (File& file : parts) {
    exchange_digests(file, ranks);
  }
  work_together(ranks, kSaving, [&] {
    if (!first) {
      return;
    }
    for (const File& file : parts) {
      out->describe(file.name, summary_of(file.layout.size(), file.digests));
    }
    out->write(kStateFile, print_progress(contents.progress));
    out->commit();
  });
}

}  // namespace mstrain
