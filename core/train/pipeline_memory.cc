// What a rank of a pipeline holds at most (core/train/pipeline.h).
#include <algorithm>
#include <map>

#include "core/runtime/buffer.h"
#include "core/train/pipeline.h"

namespace mstrain {
namespace {

// Memory as the allocator gives it out and keeps it: blocks of one size serve each other.
class Blocks {
 public:
  void take(int64_t bytes) {
    bytes = Allocator::rounded(bytes);
    auto& [now, most] = by_size_[bytes];
    most = std::max(most, ++now);
    live_ += bytes;
    most_live_ = std::max(most_live_, live_);
  }
  void give_back(int64_t bytes) {
    bytes = Allocator::rounded(bytes);
    --by_size_.at(bytes).now;
    live_ -= bytes;
  }
  int64_t most() const {
    int64_t sum = 0;
    for (const auto& [bytes, count] : by_size_) {
      sum += bytes * count.most;
    }
    return std::min(sum, most_live_ + Allocator::kCacheLimit);
  }

 private:
  struct Count {
    int64_t now = 0, most = 0;
  };
  std::map<int64_t, Count> by_size_;
  int64_t live_ = 0, most_live_ = 0;
};

}  // namespace

// As run() holds it, where messages are taken no sooner than they are waited for.
int64_t Pipeline::most_between_programs() const {
  struct Sent {
    size_t due = 0;
    Message message;
  };
  Blocks blocks;
  std::map<std::pair<int, int>, int> uses;  // by link and micro-batch: programs to come, messages
  std::vector<Sent> sent;
  int64_t under_way = 0;
  std::vector<size_t> asked(messages_.size(), 0);
  const auto bytes = [&](int link) { return cut_.links[static_cast<size_t>(link)].type.bytes(); };
  const auto hold = [&](const Message& it, int count) {
    blocks.take(bytes(it.link));
    uses.emplace(std::pair(it.link, it.micro_batch), count);
  };
  const auto let_go = [&](const Message& it) {
    const auto found = uses.find({it.link, it.micro_batch});
    if (--found->second == 0) {
      blocks.give_back(bytes(it.link));
      uses.erase(found);
    }
  };
  for (size_t turn = 0; turn < actions_.size(); ++turn) {
    const Action& action = actions_[turn];
    const size_t program = PipelineCut::index_of(action.chunk, action.work);
    if (stages_[program] == nullptr) {
      continue;
    }
    for (auto it = sent.begin(); under_way > inputs_.under_way && it != sent.end();) {
      if (it->due > turn) {
        ++it;
        continue;
      }
      under_way -= bytes(it->message.link);
      let_go(it->message);
      it = sent.erase(it);
    }
    const StageProgram& it = cut_.programs[program];
    const std::vector<int> micro_batches = micro_batches_of(action);
    for (const StageProgram::Source& source : it.inputs) {
      if (!source.is_link) {
        continue;
      }
      const int from = cut_.links[static_cast<size_t>(source.index)].from;
      const auto peer =
          static_cast<size_t>(chunk_rank_[static_cast<size_t>(PipelineCut::chunk_of(from))]);
      for (const int micro_batch : micro_batches) {
        while (!uses.contains({source.index, micro_batch})) {
          const Message& message = messages_[peer][asked[peer]++];
          hold(message, readers_here(cut_.links[static_cast<size_t>(message.link)]));
        }
      }
    }
    for (const int micro_batch : micro_batches) {
      for (const int link : it.links) {
        const StageLink& made = cut_.links[static_cast<size_t>(link)];
        const std::vector<int> peers = peers_of(made, rank_);
        hold({link, micro_batch}, readers_here(made) + static_cast<int>(peers.size()));
        for (const int to : peers) {
          sent.push_back({due(link, micro_batch, to), {link, micro_batch}});
          under_way += bytes(link);
        }
      }
    }
    for (const int micro_batch : micro_batches) {
      for (const StageProgram::Source& source : it.inputs) {
        if (source.is_link) {
          let_go({source.index, micro_batch});
        }
      }
    }
  }
  return blocks.most();
}

}  // namespace mstrain
