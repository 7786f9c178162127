#include "suites/reinforcement/train/central.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "core/base/error.h"
#include "core/tensor/host.h"
#include "suites/reinforcement/algorithms/sizes.h"
#include "suites/reinforcement/train/messages.h"

namespace mstrain::reinforcement {
namespace {

constexpr const char* kGradients = "gradients";
constexpr const char* kPublished = "parameters";

size_t elements_of(const Params& params) {
  int64_t sum = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    sum += params.tensor(i).elements();
  }
  return count(sum);
}

// Where a run fails, messages on their way are read from memory that must not go before: until they are there, or nobody will read them.
void outlive(const Event& sent) {
  try {
    sent.wait();
  } catch (const Error&) {
    // Whoever waits for a result is told; here nothing is waited for but the end.
  }
}

Elements floats(std::vector<float>& values) {
  return {values.data(), static_cast<int64_t>(values.size()), Dtype::kF32};
}

}  // namespace

std::vector<float> flat_of(const Params& params) {
  std::vector<float> flat;
  for (size_t i = 0; i < params.size(); ++i) {
    const HostRead read(dense(params.tensor(i)));
    flat.insert(flat.end(), read.values<float>().begin(), read.values<float>().end());
  }
  return flat;
}

void from_flat(std::span<const float> flat, Params& params) {
  for (auto& [name, value] : params.items()) {
    const size_t size = count(value.elements());
    value = tensor<float>(flat.first(size), value.shape());
    flat = flat.subspan(size);
  }
}

CentralServer::~CentralServer() {
  for (const Published& each : published_) {
    std::ranges::for_each(each.sent, outlive);
  }
}

Params CentralServer::gather(const Params& like) {
  std::vector<float> sum(elements_of(like));
  const auto learners = static_cast<float>(ranks_.size() - 1);
  std::string bytes(sizeof(int64_t) + sum.size() * sizeof(float), '\0');
  std::vector<float> pushed(sum.size());
  for (int peer = 1; peer < ranks_.size(); ++peer) {
    ranks_.receive(octets(bytes), peer, kGradients).wait();
    int64_t version = 0;
    std::memcpy(&version, bytes.data(), sizeof version);
    std::memcpy(pushed.data(), bytes.data() + sizeof version, pushed.size() * sizeof(float));
    const int64_t staleness = round_ - version;
    check(staleness >= 0 && staleness <= bound_,
          "central: a gradient of rank {} in round {} is of the parameters after round {}: the "
          "bound is {}",
          peer, round_, version, bound_);
    staleness_ = std::max(staleness_, staleness);
    std::ranges::transform(sum, pushed, sum.begin(), std::plus<>());
  }
  for (float& each : sum) {
    each /= learners;
  }
  Params out = like;
  from_flat(sum, out);
  return out;
}

void CentralServer::publish(const Params& params) {
  ++round_;
  Published& next = published_.emplace_back();
  next.flat = flat_of(params);
  for (int peer = 1; peer < ranks_.size(); ++peer) {
    next.sent.push_back(ranks_.send(floats(next.flat), peer, kPublished));
  }
  // A learner has at most so many versions before it: whoever pushed the next gradients has taken this one.
  while (static_cast<int64_t>(published_.size()) > bound_ + 1) {
    for (const Event& sent : published_.front().sent) {
      sent.wait();
    }
    published_.pop_front();
  }
}

void CentralServer::settle() {
  for (const Published& each : published_) {
    for (const Event& sent : each.sent) {
      sent.wait();
    }
  }
  published_.clear();
}

CentralLearner::~CentralLearner() {
  for (const auto& [bytes, sent] : sent_) {
    outlive(sent);
  }
}

std::vector<float> CentralLearner::receive(size_t elements) {
  std::vector<float> flat(elements);
  ranks_.receive(floats(flat), 0, kPublished).wait();
  ++received_;
  return flat;
}

void CentralLearner::exchange(const Params& gradients, Params& params) {
  ByteWriter message;
  message.put(version_);
  for (const float each : flat_of(gradients)) {
    message.put(each);
  }
  auto& [bytes, sent] = sent_.emplace_back(message.take(), Event());
  sent = ranks_.send(octets(bytes), 0, kGradients);
  ++round_;
  if (const int64_t wanted = round_ - bound_; wanted > version_) {
    if (waiting_.empty()) {
      waiting_.push_back(receive(elements_of(params)));
    }
    from_flat(waiting_.front(), params);
    waiting_.pop_front();
    ++version_;
  }
  while (static_cast<int64_t>(sent_.size()) > bound_) {
    sent_.front().second.wait();
    sent_.pop_front();
  }
}

void CentralLearner::settle(const Params& like) {
  while (received_ < round_) {
    waiting_.push_back(receive(elements_of(like)));
  }
  for (const auto& [bytes, sent] : sent_) {
    sent.wait();
  }
  sent_.clear();
}

void CentralLearner::save(ByteWriter& to) const {
  to.put(round_);
  to.put(version_);
  to.put<uint64_t>(waiting_.size());
  for (const std::vector<float>& each : waiting_) {
    to.put<uint64_t>(each.size());
    to.put_all(each);
  }
}

void CentralLearner::load(ByteReader& from) {
  round_ = from.get<int64_t>();
  received_ = round_;
  version_ = from.get<int64_t>();
  waiting_.resize(from.get<uint64_t>());
  for (std::vector<float>& each : waiting_) {
    const auto size = from.get<uint64_t>();
    each = from.get_all<float>(size);
  }
}

}  // namespace mstrain::reinforcement
