#include "suites/reinforcement/alphazero/agent.h"

#include "core/base/error.h"
#include "core/base/written_yaml.h"
#include "core/io/safetensors.h"
#include "core/tensor/params_file.h"
#include "core/train/checkpoint.h"
#include "suites/run/stored_model.h"

namespace mstrain::alphazero {
namespace {

constexpr int64_t kCache = 200000;

}  // namespace

AgentConfig::AgentConfig(const Config& config)
    : game(config.game),
      puct_c(config.algorithm.puct_c),
      gumbel_considered(config.algorithm.gumbel_considered),
      discount(config.algorithm.discount),
      network(config.network) {
  search_by(config.evaluation.search);
}

mcts::SearchConfig AgentConfig::search_config() const {
  return {.puct_c = puct_c,
          .gumbel_considered = gumbel_considered,
          .discount = discount,
          .solve = search == SearchKind::kPuct && discount == 1,
          .memory_limit = int64_t{1} << 28};
}

void AgentConfig::search_by(SearchKind kind) {
  search = kind;
  if (kind == SearchKind::kPuct) {
    discount = 1;  // what is proven needs no haste
  }
}

Agent::Agent(const AgentConfig& config, Params params, int threads, int64_t cache)
    : config_(config),
      game_(config.game, "game"),
      network_(game_, PolicyValueNetwork(config.network, game_), threads),
      caching_(network_, game_, cache) {
  network_.set_params(std::move(params));
}

std::unique_ptr<Agent> load_agent(FileSystem& files, const std::string& path, int threads) {
  const std::string folder = find_checkpoint(files, path);
  const std::string description = join_path(folder, kAgentFile);
  if (!files.exists(description)) {
    throw IoError(
        fmt::format("{}: is no checkpoint of AlphaZero: it has no {}", folder, kAgentFile));
  }
  AgentConfig config;
  read_config(read_written_yaml(files, description), config);
  const BoardGame game(config.game, description + ": game");
  Params params;
  std::vector<StoredTensor> stored;
  const SafetensorsFile file(files, join_path(folder, kModelFile));
  for (const ParamSpec& spec : PolicyValueNetwork(config.network, game).specs()) {
    // precision.params of its run says which type.
    const Dtype dtype = file.at(spec.name).dtype.value_or(spec.type.dtype);
    const Tensor value = uninitialised({dtype, spec.type.shape});
    params.set(spec.name, value);
    stored.push_back({.name = spec.name, .shape = spec.type.shape, .value = value});
  }
  load_tensors(files, folder, kModelFile, stored);
  return std::make_unique<Agent>(config, std::move(params), threads, kCache);
}

void save_agent(FileSystem& files, const std::string& folder, const AgentConfig& config,
                const Params& params) {
  create_directories_durably(files, folder);
  save_params(files, join_path(folder, kModelFile), params);
  write_file_atomic(files, join_path(folder, kAgentFile), to_yaml(write_config(config)));
}

}  // namespace mstrain::alphazero
