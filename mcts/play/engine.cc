#include "mcts/play/engine.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/base/error.h"
#include "mcts/play/tree_painter.h"

namespace mstrain::mcts::play {
namespace {

void span_of(const PictureNode& node, double& low, double& high) {
  low = std::min(low, node.value - 1e-6);
  high = std::max(high, node.value + 1e-6);
  for (const PictureNode& child : node.children) {
    span_of(child, low, high);
  }
}

}  // namespace

Engine::Engine(const Game& game, const Options& options, uint64_t seed, int64_t simulations,
               AnyEvaluator<AnyGame>* evaluator)
    : game_(game),
      rollout_{.rollouts = options.rollouts,
               .discount = static_cast<float>(options.search.discount)},
      evaluator_(evaluator),
      plans_a_run_(game.hides() || options.policy == "open_loop" || options.policy == "gumbel"),
      budget_(options.budget(simulations)) {
  const SearchConfig config = usable(options.search, seed);
  try {
    if (options.policy == "uct" && evaluator == nullptr) {
      own_ = game.playable->search(config, rollout_);
    } else if (!game.hides() && options.policy == "graph" && game.facts().chance) {
      throw ConfigError(fmt::format(
          "--policy: {} has chance, for which graphs have no nodes; expected another than graph",
          game.name));
    } else if (!game.hides() && options.policy == "graph" && game.facts().history) {
      throw ConfigError(fmt::format(
          "--policy: {} depends on earlier positions, which graphs do not know; expected another "
          "than graph",
          game.name));
    } else if (!game.hides()) {
      named_ = any_searches().make(options.policy, config);
    } else {
      throw ConfigError(fmt::format(
          "--policy: {} has hidden cards, which information-set search looks through; expected uct",
          game.name));
    }
  } catch (const ConfigError&) {
    throw;
  } catch (const Error& error) {  // choices that do not go together
    throw ConfigError(error.what());
  }
}

SearchConfig Engine::usable(SearchConfig config, uint64_t seed) const {
  if (config.solve && (game_.hides() || game_.facts().rewards)) {
    throw ConfigError(fmt::format(
        "--solve: {} has hidden cards or rewards on the way, where nothing is proven", game_.name));
  }
  if (game_.hides() && config.parallelism != Parallelism::kSerial) {
    throw ConfigError(fmt::format(
        "--parallelism: {} has hidden cards, which one thread searches; expected serial",
        game_.name));
  }
  config.seed = seed;
  return config;
}

void Engine::set_root(const AnyGame& state) {
  if (named_) {
    named_->set_root(state);
  } else {
    own_->set_root(state);
  }
  root_ = state;
}

void Engine::advance(Action action) {
  if (named_) {
    named_->advance(action);
  } else {
    own_->advance(action);
  }
  root_.apply(action);
}

Analysis Engine::think(const std::function<void(const Analysis&)>& show) {
  const int parts = plans_a_run_ ? 1 : 10;
  Analysis out;
  for (int part = 0; part < parts; ++part) {
    Budget share = budget_;
    share.simulations =
        budget_.simulations * (part + 1) / parts - budget_.simulations * part / parts;
    if (budget_.time) {
      share.time = *budget_.time / parts;
    }
    if (budget_.simulations > 0 && share.simulations == 0) {
      continue;
    }
    const uint64_t before = out.simulations;
    const double seconds = out.seconds;
    out = report(run(share));
    out.simulations += before;
    out.seconds += seconds;
    show(out);
  }
  return out;
}

Engine::Result Engine::run(const Budget& budget) {
  if (!named_) {
    return own_->run(budget);
  }
  if (evaluator_ != nullptr) {
    return named_->run(*evaluator_, budget);
  }
  AnyEvaluator<AnyGame> any(rollout_);
  return named_->run(any, budget);
}

Picture Engine::picture(const Analysis& a, int64_t nodes) const {
  Picture out;
  out.title =
      fmt::format("{}, {} simulations, best action {}", game_.name, a.simulations, a.best_action);
  out.board = a.drawing;
  out.low = static_cast<double>(game_.facts().min_return);
  out.high = static_cast<double>(game_.facts().max_return);
  if (own_ && own_->tree() != nullptr) {
    out.root = TreePainter(*own_, root_).paint(nodes, a.value);
  } else {  // no single tree, or one behind virtual calls: the root's actions
    out.root = {.player = -2, .visits = a.simulations, .value = a.value};
    for (const ActionRow& row : a.root) {
      out.root.children.push_back(
          {.action = row.action, .player = a.player, .visits = row.visits, .value = row.value});
    }
  }
  if (game_.facts().rewards) {  // results are open at the top, so the colours span what was found
    out.low = out.high = out.root.value;
    span_of(out.root, out.low, out.high);
  }
  return out;
}

Analysis Engine::report(const Result& result) {
  Analysis out;
  out.game = game_.name;
  out.position = game_.playable->position(root_);
  out.drawing = game_.playable->draw_for(root_, root_.player());
  out.player = root_.player();
  out.value = result.value;
  out.proven = result.proven;
  out.simulations = result.counters.simulations;
  out.nodes = result.nodes;
  out.tree_bytes = result.tree_bytes;
  out.seconds = result.counters.seconds;
  ActionBuffer legal;
  root_.legal(legal);
  const bool has_priors = std::any_of(result.edges.begin(), result.edges.end(),
                                      [](const auto& edge) { return edge.prior > 0; });
  const double uniform = 1.0 / static_cast<double>(legal.size());
  for (const Action action : legal) {
    const auto edge = std::find_if(result.edges.begin(), result.edges.end(),
                                   [&](const auto& each) { return each.action == action; });
    ActionRow row{.action = action_text(root_, action), .prior = uniform};
    if (edge != result.edges.end()) {
      row.visits = edge->visits;
      row.value = edge->value;
      row.prior = has_priors ? edge->prior : uniform;
      row.proven = edge->proven;
      row.weight = edge->weight;
    }
    out.root.push_back(row);
  }
  std::stable_sort(out.root.begin(), out.root.end(),
                   [](const ActionRow& a, const ActionRow& b) { return a.visits > b.visits; });
  chosen_ = result.action.value_or(legal[0]);  // none was found in the time that there was
  out.best_action = action_text(root_, chosen_);
  AnyGame along = root_;
  for (const Action action : result.principal_variation) {
    out.principal_variation.push_back(action_text(along, action));
    along.apply(action);
  }
  return out;
}

}  // namespace mstrain::mcts::play
