// How operations come on: what they ask MPI for, and what the engine does with what has ended.
#include <algorithm>

#include "core/base/clock.h"
#include "core/comm/mpi_engine.h"

namespace mstrain {

void MpiOperation::wait() {
  if (!done()) {
    engine_.help(*this);
  }
  if (!done()) {
    ++waiters_;
    engine_.hurry();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done(); });
    --waiters_;
  }
  if (state_ == kFailed) {
    engine_.throw_failure();
  }
}

void MpiOperation::end(bool well, Clock::time_point now) {
  ended_ = nanoseconds(now);
  state_ = well ? kDone : kFailed;
  if (waiters_ > 0) {  // whoever is one later looks once more
    { const std::lock_guard lock(mutex_); }
    changed_.notify_all();
  }
}

int MpiOperation::tag(int exchange) const {
  return is_point() ? engine_.tags_
                    : 2 * static_cast<int>(sequence_ % (engine_.tags_ / 2)) + exchange;
}

void MpiOperation::send(const void* data, int64_t bytes, int peer, int tag, int token) {
  MPI_Request request = MPI_REQUEST_NULL;
  bytes_ += bytes;
  check_mpi(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, group_->comm, &request),
            "MPI_Isend");
  engine_.add(request, {this, token, peer});
}

void MpiOperation::receive(void* data, int64_t bytes, int peer, int tag, int token) {
  MPI_Request request = MPI_REQUEST_NULL;
  bytes_ += bytes;
  check_mpi(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, group_->comm, &request),
            "MPI_Irecv");
  engine_.add(request, {this, token, peer});
}

void MpiOperation::collective(MPI_Request request, int token) {
  engine_.add(request, {this, token, MpiEngine::kEverybody});
}

void MpiOperation::look_on() {
  ++pending_;
  ++engine_.looking_;
  looks_ = true;
}

void MpiOperation::look_no_more() {
  --pending_;
  --engine_.looking_;
  looks_ = false;
}

void MpiEngine::note_last(std::string_view operation, std::string_view what,
                          const MpiGroup& group) {
  last_.clear();
  if (!what.starts_with(operation)) {
    last_.append(operation).append(" ");
  }
  last_.append(what).append(" of ").append(group.name);
}

void MpiEngine::begin(const std::shared_ptr<MpiOperation>& operation) {
  if (failed_ || finalized_) {
    operation->end(false, Clock::now());
    return;
  }
  if (operation->kind_ == MpiOperation::Kind::kCollective) {
    operation->sequence_ = operation->group_->begun++;
  }
  try {
    note_last("", operation->what_, *operation->group_);
    active_.push_back(operation);
    is_fresh_ = true;
    operation->begin();
  } catch (const std::exception& error) {  // MPI's own, or memory that is not there
    fail_job({1, fmt::format("rank {}: {}", rank(), error.what()), true}, {}, Origin::kHere);
    if (!operation->done()) {  // it is none of active_
      operation->end(false, Clock::now());
    }
    return;
  }
  end_if_complete(operation.get());
}

void MpiEngine::add(MPI_Request request, Request meaning) {
  requests_.push_back(request);
  meanings_.push_back(meaning);
  if (meaning.operation != nullptr) {
    ++meaning.operation->pending_;
  }
}

bool MpiEngine::look_on() {
  bool came_on = false;
  for (size_t i = 0; i < active_.size() && !failed_;) {
    MpiOperation& operation = *active_[i];
    if (operation.looks_ && operation.look()) {
      came_on = true;
      operation.waited_ = operation.asked_ = 0;
      if (operation.pending_ == 0) {
        end_if_complete(&operation);
        continue;
      }
    }
    ++i;
  }
  return came_on;
}

bool MpiEngine::poll() {
  if (looking_ > 0 && look_on()) {
    return true;
  }
  const auto count = static_cast<int>(requests_.size());
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int complete = 0;
  const int error =
      MPI_Testsome(count, requests_.data(), &complete, indices_.data(), statuses_.data());
  if (error == MPI_ERR_IN_STATUS) {
    for (int i = 0; i < complete; ++i) {
      check_mpi(statuses_[static_cast<size_t>(i)].MPI_ERROR, "MPI_Testsome");
    }
  }
  check_mpi(error, "MPI_Testsome");
  if (complete <= 0) {
    return false;
  }
  std::vector<Request> ended = std::move(spare_);
  ended.clear();
  std::sort(indices_.begin(), indices_.begin() + complete, std::greater<>());
  for (int i = 0; i < complete; ++i) {
    const auto at = static_cast<size_t>(indices_[static_cast<size_t>(i)]);
    ended.push_back(meanings_[at]);
    requests_[at] = requests_.back();
    meanings_[at] = meanings_.back();
    requests_.pop_back();
    meanings_.pop_back();
  }
  for (const Request& request : ended) {
    if (request.operation != nullptr) {
      MpiOperation& operation = *request.operation;
      --operation.pending_;
      operation.waited_ = operation.asked_ = 0;  // it gets on
      if (!failed_) {
        operation.advance(request.token);
        end_if_complete(&operation);
      }
    } else if (request.token == kHeard) {
      const Message message = incoming_;
      listen();
      heed(message);
    } else {
      outgoing_.remove_if([&](const Outgoing& each) { return each.token == request.token; });
    }
  }
  spare_ = std::move(ended);
  return true;
}

void MpiEngine::end_if_complete(MpiOperation* operation) {
  if (operation->pending_ > 0) {
    return;
  }
  const auto at = std::find_if(active_.begin(), active_.end(),
                               [&](const auto& each) { return each.get() == operation; });
  const std::shared_ptr<MpiOperation> kept = *at;
  active_.erase(at);
  polled_ = Clock::now();
  kept->end(true, polled_);
}

}  // namespace mstrain
