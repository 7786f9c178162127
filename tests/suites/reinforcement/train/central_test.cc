#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "tests/suites/reinforcement/train/runs.h"

namespace mstrain::reinforcement {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class CentralRun : public testing::Test {
 protected:
  // kSmallPpo by another algorithm, with advantages as they are: scaling is each learner's own.
  std::string train(const std::string& name, const std::string& type,
                    std::vector<std::string> changes, const std::atomic<bool>* stop = nullptr) {
    YamlNode tree = parse_yaml(kSmallPpo, "t");
    set_config(tree, "algorithm",
               parse_yaml("steps: 16\nminibatches: 2\nnormalize_advantages: false\n", "t"));
    const std::string directory = folder_ / name;
    changes.insert(changes.begin(), {"algorithm.type=" + type, "algorithm.epochs=2"});
    run_agent(to_yaml(tree), directory, changes, real_files(), stop);
    return directory;
  }
  static std::vector<std::string> central(int64_t actors, int64_t staleness) {
    return {"distribution.policy=central", fmt::format("distribution.actors={}", actors),
            fmt::format("distribution.max_staleness={}", staleness)};
  }
  static std::vector<Json> rows(const std::string& directory) {
    return read_metrics(real_files(), join_path(directory, kMetricsFile));
  }

  TemporaryFolder folder_;
};

TEST_F(CentralRun, WithoutStalenessAgreesWithOneLearner) {
  for (const std::string type : {"ppo", "a2c", "impala"}) {
    const Json single = rows(train(type, type, {})).front();
    for (const int64_t actors : {2, 3, 5}) {
      const Json found =
          rows(train(fmt::format("{}{}", type, actors), type, central(actors, 0))).front();
      EXPECT_EQ(found["staleness"], 0);
      for (const char* key : {"loss", "value_loss", "entropy", "grad_norm", "lr"}) {
        const double value = single[key].get<double>();
        EXPECT_NEAR(found[key].get<double>(), value, 1e-5 * std::max(1.0, std::abs(value)))
            << type << " " << actors << " " << key;
      }
      EXPECT_EQ(found["episodes"], single["episodes"]);
    }
  }
}

// Gradients are as stale as the bound allows and no staler; whoever is fast, and stopped and started again, the run is the same.
TEST_F(CentralRun, StaysWithinItsBoundAndGoesOnBitForBit) {
  const std::atomic<bool> stop = true;
  std::string weights;
  for (const int64_t bound : {0, 1, 3, 20}) {
    const std::string straight = train(fmt::format("straight{}", bound), "ppo", central(3, bound));
    const std::string stopped = fmt::format("stopped{}", bound);
    train(stopped, "ppo", central(3, bound), &stop);
    train(stopped, "ppo", central(3, bound));
    double most = 0;
    for (const Json& row : rows(straight)) {
      most = std::max(most, row.value("staleness", 0.0));
    }
    EXPECT_EQ(most, static_cast<double>(bound));
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "agent-0000.bin",
                             "agent-0001.bin", "agent-0002.bin"}) {
      EXPECT_TRUE(checkpoint_file(straight, file) == checkpoint_file(folder_ / stopped, file))
          << bound << " " << file;
    }
    EXPECT_NE(checkpoint_file(straight, "model.safetensors"), weights) << bound;
    weights = checkpoint_file(straight, "model.safetensors");
  }
}

TEST_F(CentralRun, RefusesWhatCannotBe) {
  const auto fails = [&](const std::string& type, std::vector<std::string> changes,
                         const std::string& message) {
    EXPECT_THAT([&] { train("bad", type, changes); },
                ThrowsMessage<ConfigError>(HasSubstr(message)));
  };
  fails("ppo", {"distribution.max_staleness=1"},
        "distribution.max_staleness: 1, and distribution.policy is single: expected 0, or central");
  fails("ppo", central(4, 0), "4 environments cannot be shared equally by 3 ranks");
  auto stops = central(3, 0);
  stops.push_back("algorithm.kl_stop=0.1");
  fails("ppo", stops, "algorithm.kl_stop: central: all learners take as many updates");
  EXPECT_THAT(
      [&] {
        run_agent("algorithm: {type: dqn}\nenvironment: {name: cartpole}\n", folder_ / "bad",
                  central(3, 0));
      },
      ThrowsMessage<ConfigError>(HasSubstr("expected single, single_learner_fine")));
  auto diverges = central(3, 1);
  diverges.insert(diverges.end(), {"optimizer.lr=1e30", "optimizer.clip_grad=null"});
  EXPECT_THAT([&] { train("diverges", "a2c", diverges); },
              ThrowsMessage<Error>(HasSubstr("the run diverged")));
}

}  // namespace
}  // namespace mstrain::reinforcement
