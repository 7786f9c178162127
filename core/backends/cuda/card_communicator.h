// Communicators of ranks that have a card each.
#pragma once

#include <memory>

#include "core/backends/cuda/card_group.h"
#include "core/comm/device_links.h"

namespace mstrain::cuda {

// What lies in the host's memory goes as `host` carries it, also what it splits into.
class CardCommunicator final : public Communicator, public DeviceLinks {
 public:
  CardCommunicator(std::shared_ptr<Cards> cards, std::unique_ptr<Communicator> host);

  // What lies on the cards.
  CardGroup& on_cards() { return group_; }

  bool are_there() const override { return lanes_ != nullptr; }
  Event send_on_device(Elements in, int peer, const Event& after, std::string_view what) override {
    return lanes_->send(in, peer, after, what);
  }
  Event receive_on_device(Elements out, int peer, const Event& after,
                          std::string_view what) override {
    return lanes_->receive(out, peer, after, what);
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::string_view name() const override { return host_->name(); }
  Event all_reduce(Elements in, Elements out, Reduction reduction, std::string_view what) override {
    return host_->all_reduce(in, out, reduction, what);
  }
  Event reduce_scatter(Elements in, Elements out, std::span<const int64_t> counts,
                       Reduction reduction, std::string_view what) override {
    return host_->reduce_scatter(in, out, counts, reduction, what);
  }
  Event all_gather(Elements in, Elements out, std::span<const int64_t> counts,
                   std::string_view what) override {
    return host_->all_gather(in, out, counts, what);
  }
  Event all_to_all(Elements in, Elements out, std::span<const int64_t> sends,
                   std::span<const int64_t> receives, std::string_view what) override {
    return host_->all_to_all(in, out, sends, receives, what);
  }
  Event broadcast(Elements inout, int root, std::string_view what) override {
    return host_->broadcast(inout, root, what);
  }
  Event send(Elements in, int peer, std::string_view what) override {
    return host_->send(in, peer, what);
  }
  Event receive(Elements out, int peer, std::string_view what) override {
    return host_->receive(out, peer, what);
  }
  void barrier(std::string_view what) override { host_->barrier(what); }
  std::unique_ptr<Communicator> split(int colour, std::string name) override;

 private:
  std::shared_ptr<Cards> cards_;
  std::unique_ptr<Communicator> host_;
  CardGroup group_;
  std::unique_ptr<CardLanes> lanes_;  // along the pipeline
};

// Takes a card for this rank, that of its place among the ranks of its machine where these are more than the cards, in turn, and
// connects them: Backend::connect. Where they cannot be, `world` itself, and a warning says why.
std::unique_ptr<Communicator> connect_cards(std::unique_ptr<Communicator> world, double timeout_s);

}  // namespace mstrain::cuda
