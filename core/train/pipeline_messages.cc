// The messages between the ranks of a pipeline: who sends what to whom, in which order, and how much is under way.
#include <algorithm>
#include <map>

#include "core/schedule/order.h"
#include "core/schedule/simulate.h"
#include "core/train/pipeline_run.h"

namespace mstrain {
namespace {

Elements elements_of(const std::byte* data, const TensorType& type) {
  return {const_cast<std::byte*>(data), type.elements(), type.dtype};
}

// Operations, and bytes moved as one each.
double work_of(const Graph* graph) {
  double sum = 0;
  for (NodeId id = 0; graph != nullptr && id < graph->size(); ++id) {
    const Node& node = graph->node(id);
    if (node.op->cost != nullptr) {
      const Cost cost = node.op->cost(graph->types(node.inputs), node.outputs, node.attrs);
      sum += cost.flops + cost.bytes;
    }
  }
  return sum;
}

}  // namespace

// Other ranks whose programs read `link`, which rank `from` makes.
std::vector<int> Pipeline::peers_of(const StageLink& link, int from) const {
  std::vector<int> peers;
  for (int program : link.to) {
    const int peer = chunk_rank_[static_cast<size_t>(PipelineCut::chunk_of(program))];
    if (peer != from && std::find(peers.begin(), peers.end(), peer) == peers.end()) {
      peers.push_back(peer);
    }
  }
  return peers;
}

void Pipeline::plan_messages(const Schedule& schedule) {
  messages_.resize(static_cast<size_t>(schedule.ranks));
  for (const Action& action : schedule.actions) {
    if (action.rank == rank_ || action.work == Work::kUpdate) {
      continue;
    }
    for (int micro_batch : micro_batches_of(action)) {
      for (int link : cut_.program(action.chunk, action.work).links) {
        const std::vector<int> peers = peers_of(cut_.links[static_cast<size_t>(link)], action.rank);
        if (std::find(peers.begin(), peers.end(), rank_) != peers.end()) {
          messages_[static_cast<size_t>(action.rank)].push_back({link, micro_batch});
        }
      }
    }
  }
}

// By a timetable in which programs take as long as they have operations. What one action waits for begins before it there, and so
// waits never go in a circle, whatever the times.
void Pipeline::plan_sends(const Schedule& schedule) {
  const ActionOrder order(schedule);
  std::vector<double> begin(order.size());
  std::vector<ChunkTimes> times;
  for (int chunk = 0; chunk < cut_.chunks(); ++chunk) {
    const auto time = [&](Work work) { return 1 + work_of(cut_.program(chunk, work).graph.get()); };
    times.push_back({time(Work::kForward), time(Work::kBackward), time(Work::kWeights)});
  }
  for (const SimulatedAction& it : simulate(schedule, times).actions) {
    begin[order.id(it.action)] = it.begin;
  }
  const auto begin_of = [&](const Action& action) { return begin[order.id(action)]; };
  for (auto it = actions_.begin(); it != actions_.end(); ++it) {
    for (const int link : cut_.program(it->chunk, it->work).links) {
      std::map<int, double> taken;  // by peer
      for (const int program : cut_.links[static_cast<size_t>(link)].to) {
        const StageProgram& reader = cut_.programs[static_cast<size_t>(program)];
        const int peer = chunk_rank_[static_cast<size_t>(reader.chunk)];
        const double at = begin_of({peer, reader.work, reader.chunk, it->micro_batch});
        const auto [found, is_new] = taken.emplace(peer, at);
        found->second = std::min(found->second, at);
      }
      taken.erase(rank_);
      for (const auto& [peer, at] : taken) {
        const auto beside = std::find_if(
            it + 1, actions_.end(), [&](const Action& action) { return begin_of(action) >= at; });
        due_[{link, it->micro_batch, peer}] = static_cast<size_t>(beside - actions_.begin()) + 1;
      }
    }
  }
}

size_t Pipeline::due(int link, int micro_batch, int peer) const {
  return due_.at({link, micro_batch / inputs_.copies, peer});
}

int Pipeline::readers_here(const StageLink& link) const {
  return static_cast<int>(std::count_if(link.to.begin(), link.to.end(), [&](int program) {
    return chunk_rank_[static_cast<size_t>(PipelineCut::chunk_of(program))] == rank_;
  }));
}

// "the result of F0.3", for errors.
std::string Pipeline::name_of(const Message& message) const {
  const StageProgram& from =
      cut_.programs[static_cast<size_t>(cut_.links[static_cast<size_t>(message.link)].from)];
  return "the result of " + to_string(Action{.work = from.work,
                                             .chunk = from.chunk,
                                             .micro_batch = message.micro_batch / inputs_.copies});
}

// Messages of a peer come in its order: what is asked for has all those before it asked for.
void Pipeline::ask(int peer, const Message& wanted, Run& run) const {
  const std::vector<Message>& messages = messages_[static_cast<size_t>(peer)];
  size_t& asked = run.asked[static_cast<size_t>(peer)];
  while (!run.held.contains({wanted.link, wanted.micro_batch})) {
    check(asked < messages.size(), "rank {} of the pipeline does not send link {}", peer,
          wanted.link);
    const Message& next = messages[asked++];
    const StageLink& link = cut_.links[static_cast<size_t>(next.link)];
    Run::Held held{.readers = readers_here(link)};
    if (run.links != nullptr) {
      held.value = receive_tensor(*run.links, link.type, peer, name_of(next));
    } else {
      held.coming.emplace(link.type);
      held.arrived = run.ranks.receive(elements_of(held.coming->bytes().data(), link.type), peer,
                                       name_of(next));
    }
    run.held.emplace(std::pair(next.link, next.micro_batch), std::move(held));
  }
}

Tensor Pipeline::take(int link, int micro_batch, Run& run) const {
  const int from = cut_.links[static_cast<size_t>(link)].from;
  const int peer = chunk_rank_[static_cast<size_t>(PipelineCut::chunk_of(from))];
  if (peer != rank_) {
    ask(peer, {link, micro_batch}, run);
  }
  const auto found = run.held.find({link, micro_batch});
  Run::Held& held = found->second;
  if (held.coming) {
    held.arrived.wait();
    held.value = held.coming->finish();
    held.coming.reset();
  }
  if (--held.readers > 0) {
    return held.value;
  }
  Tensor value = std::move(held.value);
  run.held.erase(found);
  return value;
}

void Pipeline::hand_on(int link, int micro_batch, const Tensor& value, Run& run) const {
  const StageLink& it = cut_.links[static_cast<size_t>(link)];
  const std::string name = name_of({link, micro_batch});
  for (int peer : peers_of(it, rank_)) {
    Run::Sent sent{due(link, micro_batch, peer), it.type.bytes(), {}, {}, {}};
    if (run.links != nullptr) {
      sent.value = value;
      sent.gone = send_tensor(*run.links, value, peer, name);
    } else {
      sent.read.emplace(value);
      sent.gone = run.ranks.send(elements_of(sent.read->data(), it.type), peer, name);
    }
    run.sent.push_back(std::move(sent));
  }
  if (const int readers = readers_here(it); readers > 0) {
    run.held.emplace(std::pair(link, micro_batch), Run::Held{.value = value, .readers = readers});
  }
}

// Lets go of what has gone, and sees to it that no more is on its way before an action than the plan counts.
void Pipeline::settle(size_t action, Run& run) const {
  std::erase_if(run.sent, [](const Run::Sent& sent) { return sent.gone.done(); });
  int64_t bytes = 0;
  for (const Run::Sent& sent : run.sent) {
    bytes += sent.bytes;
  }
  for (auto sent = run.sent.begin(); bytes > inputs_.under_way && sent != run.sent.end();) {
    if (sent->due > action) {
      ++sent;
      continue;
    }
    sent->wait();
    bytes -= sent->bytes;
    sent = run.sent.erase(sent);
  }
}

}  // namespace mstrain
