#include "core/train/checkpoint_writer.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "core/base/log.h"
#include "core/comm/communicator.h"
#include "core/tensor/host.h"

namespace mstrain {
namespace {

// Parts that two threads copy in turns: one alone does not reach the memory's speed.
constexpr int64_t kPartBytes = int64_t{4} << 20;

struct Part {
  std::span<std::byte> to;
  Tensor from;
  int64_t offset;
};

// Copies of `from` in `to`, whose tensors are used again.
void add_parts(const std::vector<StoredTensor>& from, std::vector<StoredTensor>& to,
               std::vector<Part>& parts) {
  to.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    Tensor target = std::move(to[i].value);
    to[i] = from[i];
    if (!from[i].value.defined()) {
      continue;
    }
    const Tensor source = dense(from[i].value);
    if (!target.defined() || !(target.type() == source.type())) {
      target = uninitialised_on_host(source.type());
    }
    to[i].value = std::move(target);
    const std::span<std::byte> into = HostWrite(to[i].value).bytes();
    for (int64_t at = 0; at < source.type().bytes(); at += kPartBytes) {
      const int64_t size = std::min(kPartBytes, source.type().bytes() - at);
      parts.push_back(
          {into.subspan(static_cast<size_t>(at), static_cast<size_t>(size)), source, at});
    }
  }
}

}  // namespace

CheckpointWriter::~CheckpointWriter() {
  try {
    wait();
  } catch (const CommError&) {
    // Of ranks that are lost training has heard as well.
  } catch (const std::exception& error) {
    log_error("{}", error.what());
  }
}

void CheckpointWriter::copy(const CheckpointContents& contents) {
  std::vector<Part> parts;
  add_parts(contents.model, copy_.model, parts);
  add_parts(contents.optimizer, copy_.optimizer, parts);
  thread_->parallel_for(static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Part& part = parts[static_cast<size_t>(i)];
      read_bytes(part.from, part.offset, part.to);
    }
  });
  copy_.progress = contents.progress;
  copy_.files = contents.files;
  copy_.model_file = contents.model_file;
}

void CheckpointWriter::submit(const CheckpointContents& contents, Write write) {
  wait();
  if (!thread_) {
    thread_.emplace(1);
  }
  copy(contents);
  pending_ = thread_->submit([this, write = std::move(write)] { write(copy_); });
}

bool CheckpointWriter::poll() {
  if (pending_.valid() && pending_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    wait();
  }
  return std::exchange(ended_, false);
}

void CheckpointWriter::wait() {
  if (pending_.valid()) {
    pending_.get();
    ended_ = true;
  }
}

}  // namespace mstrain
