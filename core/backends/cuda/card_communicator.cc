#include "core/backends/cuda/card_communicator.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "core/backends/cuda/device.h"
#include "core/backends/cuda/matmul_tuning.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/comm/mesh.h"

namespace mstrain::cuda {
namespace {

// What ranks tell each other of themselves, in numbers that are equal where the things are.
enum Fact : size_t { kMachine, kCard, kNccl, kFacts };
using Facts = std::array<int64_t, kFacts>;

int64_t number_of(Hasher& hasher) { return static_cast<int64_t>(hasher.finish().lo); }

std::vector<Facts> told(Communicator& world, const Facts& own) {
  std::vector<Facts> all(static_cast<size_t>(world.size()));
  const std::vector<int64_t> counts(all.size(), kFacts);
  Facts mine = own;
  world
      .all_gather({mine.data(), kFacts, Dtype::kI64},
                  {all.data(), static_cast<int64_t>(kFacts) * world.size(), Dtype::kI64}, counts,
                  "cards")
      .wait();
  return all;
}

int64_t this_machine() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  Hasher hasher;
  return number_of(hasher.add(std::string_view(name.data())));
}

// Why they do not exchange among themselves; empty: they do.
std::string hindrance(const std::vector<Facts>& ranks) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i][kNccl] == 0) {
      return i == 0 ? describe_nccl() : fmt::format("rank {} has no NCCL", i);
    }
    if (ranks[i][kNccl] != ranks[0][kNccl]) {
      return fmt::format("ranks 0 and {} have different versions of NCCL, {} and {}", i,
                         ranks[0][kNccl], ranks[i][kNccl]);
    }
    for (size_t j = 0; j < i; ++j) {
      if (ranks[i][kCard] == ranks[j][kCard]) {
        return fmt::format("ranks {} and {} share a card, and NCCL wants one for each", j, i);
      }
    }
  }
  return "";
}

}  // namespace

CardCommunicator::CardCommunicator(std::shared_ptr<Cards> cards, std::unique_ptr<Communicator> host)
    : cards_(std::move(cards)), host_(std::move(host)), group_(cards_, *host_) {
  if (host_->name() == kPipelineAxis && host_->size() > 1) {
    lanes_ = std::make_unique<CardLanes>(cards_, *host_);
  }
}

std::unique_ptr<Communicator> CardCommunicator::split(int colour, std::string name) {
  return std::make_unique<CardCommunicator>(cards_, host_->split(colour, std::move(name)));
}

std::unique_ptr<Communicator> connect_cards(std::unique_ptr<Communicator> world, double timeout_s) {
  const std::vector<DeviceFacts> cards = look_for_devices().devices;
  Facts own{this_machine(), 0, 0};
  const auto own_rank = static_cast<size_t>(world->rank());
  const std::vector<Facts> places = told(*world, own);
  const auto here =
      std::count_if(places.begin(), places.begin() + world->rank(),
                    [&](const Facts& other) { return other[kMachine] == own[kMachine]; });
  if (!cards.empty()) {
    const auto card = static_cast<size_t>(here) % cards.size();
    choose_card(static_cast<int>(card));
    Hasher hasher;
    hasher.add(own[kMachine])
        .add(std::string_view(cards[card].uuid.data(), cards[card].uuid.size()));
    own[kCard] = number_of(hasher);
    own[kNccl] = nccl().missing.empty() ? nccl().version : 0;
  }
  const std::vector<Facts> ranks = told(*world, own);
  if (std::ranges::any_of(ranks, [&](const Facts& it) { return it[kMachine] != own[kMachine]; })) {
    take_first_algorithms();
  }
  const std::string why = hindrance(ranks);
  if (!why.empty()) {
    if (own_rank == 0) {
      log_warning("exchanges between ranks go through the host: {}", why);
    }
    return world;
  }
  auto together = std::make_shared<Cards>(world->split(0, "world"), timeout_s);
  return std::make_unique<CardCommunicator>(std::move(together), std::move(world));
}

}  // namespace mstrain::cuda
