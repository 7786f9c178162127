#include "suites/recommender/run/entries.h"

#include "core/base/error.h"
#include "suites/recommender/dcn_v2/model.h"
#include "suites/recommender/deepfm/model.h"
#include "suites/recommender/dlrm/model.h"
#include "suites/recommender/run/export_rows.h"
#include "suites/recommender/run/network.h"
#include "suites/recommender/run/preprocess.h"
#include "suites/recommender/run/recommender_run.h"
#include "suites/recommender/run/rows_folder.h"
#include "suites/recommender/run/score.h"
#include "suites/recommender/wide_deep/model.h"

namespace mstrain::recommender {
namespace {

template <class Config, bool has_weights, auto logits>
class RunOf final : public RecommenderRun {
 public:
  Config model;

  std::shared_ptr<const Network> network() const override {
    return std::make_shared<RecommenderNetwork<Config>>(model, has_weights, logits);
  }
  void take_network(const Network& network) override {
    model = dynamic_cast<const RecommenderNetwork<Config>&>(network).config();
  }

  static ModelEntry entry(const std::string& type) {
    return {type,
            {kModelTypePrefix + type},
            [] { return std::unique_ptr<ModelRun>(std::make_unique<RunOf>()); },
            [](const Json& json, const std::string& source,
               const Holds&) -> std::shared_ptr<const Network> {
              const auto section = json.find("model");
              mstrain::check(section != json.end(), "{}: model is missing", source);
              Config config;
              try {
                read_config(parse_yaml(section->dump(), source), config);
              } catch (const ConfigError& error) {
                throw Error(error.what());
              }
              return std::make_shared<RecommenderNetwork<Config>>(config, has_weights, logits);
            },
            export_rows};
  }

 protected:
  void declare_model(ConfigFields& keys) override { model.fields(keys); }
  FieldsConfig& shape() override { return model; }
  std::optional<std::optional<std::vector<std::string>>> weights_of() const override {
    if constexpr (has_weights) {
      return model.wide_fields;
    } else {
      return std::nullopt;
    }
  }
  Tower tower() const override {
    if constexpr (requires { model.top; }) {
      return {"model.top", model.top};
    } else {
      return {"model", model};
    }
  }
  std::function<Tensor(const Params&, const Features&)> model_function() const override {
    return [config = model](const Params& p, const Features& x) { return logits(config, p, x); };
  }
};

using WideDeepRun = RunOf<wide_deep::Config, wide_deep::kHasWeights, wide_deep::logits>;
using DeepFmRun = RunOf<deepfm::Config, deepfm::kHasWeights, deepfm::logits>;
using DlrmRun = RunOf<dlrm::Config, dlrm::kHasWeights, dlrm::logits>;
using DcnV2Run = RunOf<dcn_v2::Config, dcn_v2::kHasWeights, dcn_v2::logits>;

}  // namespace

void add_recommenders() {
  add_model(WideDeepRun::entry("wide_deep"));
  add_model(DeepFmRun::entry("deepfm"));
  add_model(DlrmRun::entry("dlrm"));
  add_model(DcnV2Run::entry("dcn_v2"));
  add_command(preprocess_command());
  add_command(score_command());
  add_folder_kind(prepared_folder());
  add_folder_kind(rows_folder());
}

}  // namespace mstrain::recommender
