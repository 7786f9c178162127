#include "core/comm/recording_communicator.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace mstrain {
namespace {

using Clock = std::chrono::steady_clock;

struct AtTime : Event::State {
  explicit AtTime(Clock::time_point at) : at(at) {}
  bool done() const override { return Clock::now() >= at; }
  void wait() override { std::this_thread::sleep_until(at); }
  Clock::time_point at;
};

class RecordingCommunicator final : public Communicator {
 public:
  RecordingCommunicator(Mesh mesh, int rank, std::string name, std::shared_ptr<Recording> recording)
      : mesh_(std::move(mesh)),
        rank_(rank),
        name_(std::move(name)),
        recording_(std::move(recording)) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(mesh_.ranks()); }
  std::string_view name() const override { return name_; }

  Event all_reduce(Elements in, Elements, Reduction, std::string_view what) override {
    return exchange("all_reduce", size(), in.bytes(), what);
  }
  Event reduce_scatter(Elements in, Elements, std::span<const int64_t>, Reduction,
                       std::string_view what) override {
    return exchange("reduce_scatter", size(), in.bytes(), what);
  }
  Event all_gather(Elements, Elements out, std::span<const int64_t>,
                   std::string_view what) override {
    return exchange("all_gather", size(), out.bytes(), what);
  }
  Event all_to_all(Elements in, Elements out, std::span<const int64_t>, std::span<const int64_t>,
                   std::string_view what) override {
    return exchange("all_to_all", size(), std::max(in.bytes(), out.bytes()), what);
  }
  Event broadcast(Elements inout, int, std::string_view what) override {
    return exchange("broadcast", size(), inout.bytes(), what);
  }
  Event send(Elements in, int, std::string_view what) override {
    return exchange("send", 2, in.bytes(), what);
  }
  Event receive(Elements out, int, std::string_view what) override {
    return exchange("receive", 2, out.bytes(), what);
  }
  void barrier(std::string_view what) override { exchange("barrier", size(), 0, what).wait(); }

  std::unique_ptr<Communicator> split(int, std::string name) override {
    for (const MeshAxis& axis : mesh_.axes) {
      if (axis.name == name) {
        const auto place = static_cast<int>(mesh_.coordinate(rank_, name));
        return std::make_unique<RecordingCommunicator>(Mesh{{axis}}, place, std::move(name),
                                                       recording_);
      }
    }
    fail("ranks that are not there split along the axes of their mesh, {}; {} is none of them",
         mesh_.describe(), name);
  }

 private:
  Event exchange(std::string_view operation, int ranks, int64_t bytes, std::string_view what) {
    recording_->exchanges.push_back(
        {std::string(operation), name_, ranks, bytes, std::string(what)});
    if (recording_->seconds == nullptr) {
      return {};
    }
    const std::chrono::duration<double> lasts(recording_->seconds(recording_->exchanges.back()));
    free_ = std::max(free_, Clock::now()) + std::chrono::duration_cast<Clock::duration>(lasts);
    return Event(std::make_shared<AtTime>(free_));
  }

  Mesh mesh_;
  int rank_;
  std::string name_;
  std::shared_ptr<Recording> recording_;
  Clock::time_point free_ = Clock::now();  // when the last exchange ends
};

}  // namespace

std::unique_ptr<Communicator> recording_communicator(const Mesh& mesh, int rank,
                                                     std::shared_ptr<Recording> recording) {
  check(rank >= 0 && rank < mesh.ranks(), "rank {} of {}", rank, mesh.ranks());
  return std::make_unique<RecordingCommunicator>(mesh, rank, "all ranks", std::move(recording));
}

}  // namespace mstrain
