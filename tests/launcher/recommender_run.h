// A small recommender for tests of the command.
#pragma once

#include <string>
#include <vector>

namespace mstrain {

inline std::vector<std::string> recommender_run(const std::string& directory,
                                                const std::vector<std::string>& more) {
  std::vector<std::string> out{"--config",
                               MSTRAIN_SOURCE_DIR "/configs/wide_deep_quickstart.yaml",
                               "run.output_dir=" + directory,
                               "model.hidden=[8]",
                               "model.embedding_dim=4",
                               "data.synthetic.samples=3000",
                               "data.synthetic.fields=4",
                               "data.synthetic.vocab=200",
                               "batch.global=50",
                               "run.threads=1",
                               "log.interval=100"};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

}  // namespace mstrain
