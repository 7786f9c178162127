// Runs of models whose ranks share samples, weights, positions and layers, against those of one rank.
#pragma once

#include "core/train/metrics_file.h"
#include "suites/run/model_run.h"
#include "tests/amount.h"
#include "tests/suites/transformer/runs_on_ranks.h"

namespace mstrain {

class SharedWeights : public RunsOnRanks {
 protected:
  SharedWeights() : RunsOnRanks(2000) {}

  struct Division {
    int64_t data = 1, tensor = 1;
    std::string more = "";
    std::string run = "";
    int64_t context = 1;
    int64_t pipeline = 1;
  };

  static constexpr int kSteps = kSanitized ? 6 : 30;

  // Goes on in the directory `name`; the losses of all steps and evaluations so far.
  std::vector<double> train_on(const Division& given, const std::string& name,
                               const std::string& sections, int steps = kSteps) {
    const std::string output = folder_ / name;
    const YamlNode tree =
        parse_yaml(fmt::format("run: {{output_dir: {}, threads: 1{}}}\n{}\nlog: {{interval: 1}}\n"
                               "schedule: {{type: constant, total_steps: {}}}\n"
                               "parallel: {{data: {}, tensor: {}{}, context: {}, pipeline: {}}}\n",
                               output, given.run, sections, steps, given.data, given.tensor,
                               given.more, given.context, given.pipeline),
                   "run.yaml");
    const Mesh mesh = mesh_of(read_run(tree)->train.parallel,
                              given.pipeline * given.data * given.context * given.tensor);
    EXPECT_EQ(run_on(mesh, tree), Outcome::kFinished);
    std::vector<double> losses;
    for (const Json& row : read_metrics(real_files(), join_path(output, kMetricsFile))) {
      for (const char* key : {"loss", "grad_norm", "eval_loss"}) {
        if (row.contains(key)) {
          losses.push_back(row[key].get<double>());
        }
      }
    }
    EXPECT_GE(losses.size(), static_cast<size_t>(2 * steps));
    return losses;
  }

  static void expect_near(const std::vector<double>& found, const std::vector<double>& expected,
                          double relative) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], relative * std::abs(expected[i])) << "number " << i;
    }
  }

  void expect_same(const std::string& name, const std::string& sections,
                   const std::vector<Division>& divisions, double relative = 1e-5,
                   int steps = kSteps) {
    const std::vector<double> alone = train_on({}, name, sections, steps);
    int next = 0;
    for (const Division& division : divisions) {
      SCOPED_TRACE(fmt::format("{}: pipeline {} x data {} x context {} x tensor {}{}", name,
                               division.pipeline, division.data, division.context, division.tensor,
                               division.more));
      expect_near(train_on(division, fmt::format("{}_{}", name, next++), sections, steps), alone,
                  relative);
    }
  }

  std::string text(const std::string& more = "") {
    return "data: " + data_of_text(more) + "\nbatch: {global: 8, micro: 2}\neval: {interval: 5}\n";
  }
  std::string gpt(const std::string& more = "") {
    return "model: {type: gpt, hidden_size: 32, num_layers: 2, num_attention_heads: 4, "
           "max_position_embeddings: 16" +
           more + "}\n" + text();
  }
};

}  // namespace mstrain
