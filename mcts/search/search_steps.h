// Runs in rounds: leaves are gathered under virtual loss, evaluated together, and finished in their order; by run() in deterministic
// batches, or by a host that calls gather() and scatter(). Included by search.h.
#pragma once

#include "mcts/search/search.h"

namespace mstrain::mcts {

template <GameState S, class P>
void Search<S, P>::run_deterministic(Any& evaluator, Pacer& pacer) {
  bool more = !root_is_done(*trees_[0], pacer);
  while (more) {
    gather_round(std::min(config_.batch, pacer.left()), is_eager(evaluator.priors()));
    evaluate_parallel(evaluator, items_);
    scatter_round(items_);
    more = goes_on_after_round(pacer);
  }
}

// Descends until `most` descents have ended in a leaf or in a terminal state, or until there were as many collisions as
// allowed. Fills items_, gathered_ and finished_.
template <GameState S, class P>
void Search<S, P>::gather_round(int64_t most, bool eager) {
  plain_ = most == 1;
  finished_ = 0;
  items_.clear();
  if (plain_) {
    gather_leaves<Access::kPlain>(1, eager);
  } else {
    gather_leaves<Access::kTracked>(static_cast<size_t>(most), eager);
  }
}

template <GameState S, class P>
template <Access kAccess>
void Search<S, P>::gather_leaves(size_t most, bool eager) {
  Tree<S, P>& tree = *trees_[0];
  const auto max_collisions =
      config_.max_collisions > 0 ? static_cast<size_t>(config_.max_collisions) : most;
  size_t collisions = 0;
  while (static_cast<size_t>(finished_) < most && collisions < max_collisions) {
    Descent& d = descent(gathered_);
    const Outcome outcome = tree.template descend<kAccess>(d, simulation_++, eager);
    if (outcome == Outcome::kCollision) {
      tree.template abandon<kAccess>(d);
      ++collisions;
      continue;
    }
    ++finished_;
    if (outcome == Outcome::kTerminal) {
      tree.template finish<kAccess>(d);
      continue;
    }
    ++gathered_;
    items_.push_back(d.item);
  }
}

template <GameState S, class P>
void Search<S, P>::scatter_round(std::span<const EvalItem<S>> items) {
  for (size_t i = 0; i < items.size(); ++i) {
    descents_[i]->item.values = items[i].values;
    if (plain_) {
      trees_[0]->template finish<Access::kPlain>(*descents_[i]);
    } else {
      trees_[0]->template finish<Access::kTracked>(*descents_[i]);
    }
  }
  gathered_ = 0;
}

template <GameState S, class P>
bool Search<S, P>::goes_on_after_round(Pacer& pacer) {
  make_room(*trees_[0], pacer, extra_);
  const bool more = pacer.go_on(finished_) && !root_is_done(*trees_[0], pacer);
  extra_.seconds = pacer.seconds();
  stop_ = pacer.stop();
  return more;
}

template <GameState S, class P>
size_t Search<S, P>::gather(EvalBatch<S>& batch, size_t max_leaves, const Budget& budget,
                            bool with_priors) {
  check(config_.parallelism != Parallelism::kRoot,
        "search: gather() works on one tree; this search has several");
  check(gathered_ == 0, "search: gather() before the last batch came back to scatter()");
  check(max_leaves > 0, "search: gather() of 0 leaves");
  batch.items = {};
  if (!pacer_) {
    Pacer pacer(budget, config_.solve);
    begin_run(budget);
    pacer_ = pacer;
    more_ = !root_is_done(*trees_[0], *pacer_);
    stop_ = pacer_->stop();
  } else if (budget != pacer_->budget()) {
    pacer_->limit(budget);
    more_ = pacer_->go_on(0) && !root_is_done(*trees_[0], *pacer_);
  }
  try {
    while (more_ && gathered_ == 0) {
      const auto leaves = static_cast<int64_t>(std::min<size_t>(max_leaves, INT32_MAX));
      gather_round(std::min(leaves, pacer_->left()), is_eager(with_priors));
      if (gathered_ == 0) {
        more_ = goes_on_after_round(*pacer_);
      }
    }
  } catch (...) {
    reset_after_error();
    throw;
  }
  batch.items = std::span(items_).first(gathered_);
  return gathered_;
}

template <GameState S, class P>
void Search<S, P>::scatter(const EvalBatch<S>& batch) {
  check(batch.items.size() == gathered_, "search: scatter() of {} leaves; {} were gathered",
        batch.items.size(), gathered_);
  if (gathered_ == 0) {
    return;
  }
  extra_.evaluations += gathered_;
  ++extra_.batches;
  try {
    scatter_round(batch.items);
  } catch (...) {
    reset_after_error();
    throw;
  }
  more_ = goes_on_after_round(*pacer_);
}

}  // namespace mstrain::mcts
