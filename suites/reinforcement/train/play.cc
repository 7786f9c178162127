#include "suites/reinforcement/train/play.h"

#include <fmt/core.h>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/written_yaml.h"
#include "core/io/atomic_file.h"
#include "core/io/images/gif.h"
#include "core/train/checkpoint.h"
#include "suites/reinforcement/run/play.h"
#include "suites/reinforcement/train/evaluation.h"
#include "suites/reinforcement/train/roles.h"
#include "suites/reinforcement/train/session.h"
#include "suites/run/stored_model.h"

namespace mstrain::reinforcement {
namespace {

constexpr int64_t kEpisodes = 5;
constexpr int kCentiseconds = 2;  // between pictures of a GIF

// Keeps the pictures of the first episode.
class Film final : public Spectator {
 public:
  std::vector<Image> frames;

  void begin(const EnvGroup& group) override { frames.push_back(group.env().picture(0)); }
  void step(const EnvGroup& group, std::span<const float> /*actions*/,
            std::span<const float> /*values*/, std::span<const uint8_t> over) override {
    if (over[0] == 0 && !group.ended(0)) {
      frames.push_back(group.env().picture(0));
    }
  }
};

// The environments that the agent was trained in, with their running statistics.
std::unique_ptr<VectorEnv> environments_of(FileSystem& files, const std::string& folder,
                                           const Config& config) {
  int64_t ranks = 0;
  for (const std::string& name : files.list(folder)) {
    ranks += name.starts_with("agent-") ? 1 : 0;
  }
  const std::string path = join_path(folder, kEnvironmentsFile);
  const Roles roles(config, ranks);
  check(ranks > 0 && roles.environments % roles.hosts() == 0,
        "{}: {} states of agents do not share {} environments", folder, ranks, roles.environments);
  // As PlacedEnvs::env() of the first rank: one where it has none.
  auto env = make_env(config.environment.env, roles.first_has_none() ? 1 : roles.each());
  env->load(files.read(path, uint64_t{1} << 40));
  return env;
}

int play(const Usage& usage, Arguments arguments, const std::atomic<bool>& stop) {
  std::optional<std::string> checkpoint;
  std::optional<std::string> gif;
  std::optional<int64_t> simulations;
  int64_t episodes = kEpisodes;
  int64_t seed = 0;
  const std::vector<Option> options{
      text_option("--checkpoint", "DIR", checkpoint, "a checkpoint, or a run"),
      {"--episodes", "N",
       [&](const std::string& text) { episodes = integer_value("--episodes", text); },
       "how many, side by side (5)"},
      {"--seed", "S", [&](const std::string& text) { seed = integer_value("--seed", text); },
       "of the environments (0)"},
      {"--sims", "N", [&](const std::string& text) { simulations = integer_value("--sims", text); },
       "simulations of a move, of an algorithm that searches (algorithm.simulations)"},
      text_option("--gif", "FILE", gif, "the first episode as a moving picture"),
  };
  if (!parse_options(usage, arguments, options)) {
    return kDone;
  }
  if (simulations.value_or(0) < 0) {
    throw ConfigError(fmt::format("--sims: expected at least 0, found {}", *simulations));
  }
  if (episodes < 1 || seed < 0) {
    throw ConfigError(episodes < 1
                          ? fmt::format("--episodes: expected at least 1, found {}", episodes)
                          : fmt::format("--seed: expected at least 0, found {}", seed));
  }
  FileSystem& files = real_files();
  const std::string folder = find_checkpoint(files, required(checkpoint, "--checkpoint DIR"));
  const std::string description = join_path(folder, kPlayedFile);
  YamlNode tree = read_written_yaml(files, description);
  if (simulations) {
    apply_overrides(tree, std::vector{fmt::format("algorithm.simulations={}", *simulations)});
  }
  const Config config = read_reinforcement(tree);
  const Context context{.threads = static_cast<int>(config.run.threads.value_or(1))};
  const ContextScope scope(context);
  const AgentEntry& entry = agent_of(config.algorithm->type);
  const std::unique_ptr<Player> player =
      entry.player(config, [&](const std::vector<StoredTensor>& tensors) {
        load_tensors(files, folder, kModelFile, tensors);
      });
  const std::unique_ptr<VectorEnv> trained_in = environments_of(files, folder, config);
  std::optional<AtomicFile> film_file;  // opened before there is work to lose
  if (gif) {
    film_file.emplace(files, *gif);
  }
  const HeedInterrupts heeds;
  Film film;
  const auto found = evaluate(config.environment.env, episodes, static_cast<uint64_t>(seed),
                              *player, trained_in.get(), stop, gif ? &film : nullptr);
  if (!found) {
    return kInterrupted;
  }
  if (film_file) {
    film_file->append(encode_gif(film.frames, kCentiseconds));
    film_file->commit();
  }
  for (size_t i = 0; i < found->episodes.size(); ++i) {
    fmt::print("episode {}: return {:.2f}, {} steps\n", i + 1, found->episodes[i].total,
               found->episodes[i].length);
  }
  fmt::print("mean of {}: return {:.2f}, {:.1f} steps\n", episodes, found->mean_return(),
             found->mean_length());
  return kDone;
}

}  // namespace

void add_play() {
  add_play_kind({kPlayedFile,
                 {{"play", "--checkpoint DIR [--episodes N] [--sims N] [--seed S] [--gif FILE]",
                   "plays episodes with the best action, and tells what they brought"},
                  play}});
}

}  // namespace mstrain::reinforcement
