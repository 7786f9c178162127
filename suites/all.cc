#include "suites/all.h"

#include "suites/recommender/run/entries.h"
#include "suites/reinforcement/alphazero/alphazero_run.h"
#include "suites/reinforcement/env/suite.h"
#include "suites/reinforcement/train/run_kind.h"
#include "suites/transformer/gpt/gpt_run.h"
#include "suites/transformer/llama/llama_run.h"
#include "suites/transformer/t5/t5_run.h"
#include "suites/transformer/vit/vit_run.h"

namespace mstrain {

// The first is what a configuration without model.type means.
void add_all_models() {
  add_model(gpt::entry());
  add_model(llama::entry());
  add_model(t5::entry());
  add_model(vit::entry());
  reinforcement::add_environment_suite();
  alphazero::add_alphazero();
  reinforcement::add_reinforcement();
  recommender::add_recommenders();
}

}  // namespace mstrain
