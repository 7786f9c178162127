#include "core/forecast/forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "core/forecast/report.h"
#include "core/forecast/search.h"
#include "tests/core/base/message_of.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

constexpr const char* kCluster = R"(cluster:
  nodes: 2
  gpus_per_node: 4
  device:
    name: test
    memory_gb: 10
    memory_gbps: 1000
    peak_tflops: {bf16: 100, fp32: 10}
    launch_us: 0
    achieved: {products: 1, attention: 1, memory: 1, links: 1}
  intra: {gbps: 100, latency_us: 0}
  inter: {gbps: 10, latency_us: 0}
)";

Cluster cluster_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_cluster(text, "cluster.yaml", overrides);
}

TEST(ClusterFile, IsReadWithAndWithoutItsFirstWordAndWithOverrides) {
  const Cluster whole = cluster_of(kCluster, {"cluster.nodes=4", "cluster.device.memory_gb=40"});
  EXPECT_EQ(whole.ranks(), 16);
  EXPECT_EQ(whole.device.memory_gb, 40);
  const Cluster bare = cluster_of(R"(nodes: 3
gpus_per_node: 2
device: {name: bare, memory_gb: 10, memory_gbps: 1000, peak_tflops: {fp32: 10}, launch_us: 0}
intra: {gbps: 100, latency_us: 0}
inter: {gbps: 10, latency_us: 0}
)");
  EXPECT_EQ(bare.device.name, "bare");
  EXPECT_EQ(bare.ranks(), 6);
}

TEST(ClusterFile, MistakesNameLineAndKey) {
  const auto message = [](std::string text, std::string_view from, std::string_view to) {
    text.replace(text.find(from), from.size(), to);
    return message_of<ConfigError>([&] { cluster_of(text); });
  };
  EXPECT_THAT(message(kCluster, "nodes: 2", "node: 2"),
              HasSubstr("cluster.yaml:2: cluster.node: unknown key; did you mean cluster.nodes?"));
  EXPECT_THAT(message(kCluster, "gpus_per_node: 4", "gpus_per_node: 0"),
              HasSubstr("cluster.yaml:3: cluster.gpus_per_node: expected an integer"));
  EXPECT_THAT(message(kCluster, "{gbps: 10, latency_us: 0}", "{latency_us: 0}"),
              HasSubstr("cluster.inter.gbps"));
  EXPECT_THAT(message(kCluster, "launch_us: 0", "launch_us: fast"),
              HasSubstr("cluster.device.launch_us: expected a number"));
}

TEST(ClusterFile, FuzzedTextsGiveAClusterOrAnError) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string text = kCluster;
    for (int edit = 0; edit < 3; ++edit) {
      const size_t at = random() % text.size();
      random() % 2 == 0 ? void(text.erase(at, 1 + random() % 9))
                        : void(text[at] = static_cast<char>(random() % 128));
    }
    try {
      EXPECT_GE(cluster_of(text).ranks(), 1);
    } catch (const Error& error) {
      EXPECT_STRNE(error.what(), "");
    }
  }
}

TEST(Rates, ARingMovesEachByteOnceLessAPartAndNodesAreReachedByAllTheirLinks) {
  const Cluster cluster = cluster_of(kCluster);
  const Group node = group_of(cluster, 4, 1);
  EXPECT_EQ(node.nodes, 1);
  EXPECT_NEAR(all_reduce_seconds(cluster, node, 1e9), 2 * 0.75 * 1e9 / 100e9, 1e-9);
  const Group both = group_of(cluster, 8, 1);  // four links of 10 between the nodes
  EXPECT_NEAR(reduce_scatter_seconds(cluster, both, 1e9), 7.0 / 8 * 1e9 / 40e9, 1e-9);
  const Group apart = group_of(cluster, 2, 4);  // one rank in each
  EXPECT_EQ(apart.per_node, 1);
  EXPECT_NEAR(all_gather_seconds(cluster, apart, 1e9), 0.5 * 1e9 / 10e9, 1e-9);
  EXPECT_NEAR(send_seconds(cluster, 1, 1e8), 1e-3, 1e-9);
  EXPECT_NEAR(send_seconds(cluster, 4, 1e8), 1e-2, 1e-9);
}

WorkItem product(double rows, double columns, double summed) {
  WorkItem item;
  item.kind = WorkKind::kProduct;
  item.dtype = Dtype::kBF16;
  item.rows = rows;
  item.columns = columns;
  item.summed = summed;
  return item;
}

TEST(Rates, AProductTakesItsArithmeticOrItsBytesAndWholeWavesOfTiles) {
  Cluster cluster = cluster_of(kCluster);
  EXPECT_NEAR(seconds_of(cluster.device, product(8192, 8192, 8192), {}),
              2 * 8192.0 * 8192 * 8192 / 100e12, 1e-6);
  EXPECT_NEAR(seconds_of(cluster.device, product(1, 8192, 8192), {}),
              2 * (8192.0 * 8192 + 2 * 8192) / 1000e9, 1e-6);
  cluster.device.units = 100;
  // 100 tiles fill the device once; one more column of them makes a second wave, as long as the first.
  const double full = seconds_of(cluster.device, product(2560, 1280, 8192), {});
  const double more = seconds_of(cluster.device, product(2560, 1281, 8192), {});
  EXPECT_GT(more, 1.1 * full);
  EXPECT_NEAR(seconds_of(cluster.device, product(2560, 2560, 8192), {}), 2 * full, 0.02 * full);
}

// Four layers of products alone: what a layout takes can be reckoned by hand.
Profile plain_profile() {
  Profile out;
  for (bool backward : {false, true}) {
    for (bool weights : {false, true}) {
      if (!backward && weights) {
        continue;
      }
      WorkItem item = product(1024, 4096, 4096);
      item.region = Region::kBlock;
      item.backward = backward;
      item.weights = weights;
      item.divides = weights ? Divides::kRows : Divides::kColumns;
      item.divided = true;
      out.items.push_back(item);
    }
  }
  RegionProfile& block = out.regions[static_cast<size_t>(Region::kBlock)];
  block.parameters = {4096.0 * 4096, 0};
  block.saved = {0, 1e9};
  out.parameters = 4096.0 * 4096;
  out.parameter_bytes = 2;
  out.gradient_bytes = 4;
  out.optimizer_bytes = 12 * out.parameters;
  return out;
}

ForecastInput input_of(const Cluster& cluster) {
  return {.cluster = cluster,
          .model = {.layers = 4, .heads = 8, .tokens = 64},
          .units_per_sample = 64,
          .global_batch = 32,
          .limit_bytes = cluster.device.memory_gb * 1e9,
          .model_flops = 4 * 3 * 2 * 1024.0 * 4096 * 4096,
          .dtype = Dtype::kBF16};
}

RunLayout layout_of(int64_t data, int64_t tensor, int64_t pipeline, int64_t micro_batches) {
  RunLayout out;
  out.data = data;
  out.tensor = tensor;
  out.pipeline = pipeline;
  out.stages.assign(static_cast<size_t>(pipeline), 4 / pipeline);
  out.micro = 32 / data / micro_batches;
  out.micro_batches = micro_batches;
  return out;
}

TEST(Forecast, PartsOfAStepAddUpToIt) {
  const Cluster cluster = cluster_of(kCluster);
  const Profile profile = plain_profile();
  for (const RunLayout& layout : {layout_of(8, 1, 1, 4), layout_of(4, 2, 1, 8),
                                  layout_of(1, 2, 4, 8), layout_of(2, 1, 4, 16)}) {
    const Forecast it = forecast(input_of(cluster), profile, layout);
    const Breakdown& parts = it.breakdown;
    EXPECT_NEAR(it.step_seconds,
                parts.products + parts.attention + parts.memory_bound +
                    parts.exposed_communication + parts.pipeline_bubble + parts.optimizer,
                1e-9 * it.step_seconds)
        << layout.describe();
  }
}

TEST(Forecast, APipelineWaitsAsLongAsItsScheduleSaysAndKeepsAsMuch) {
  const Cluster cluster = cluster_of(kCluster);
  const Forecast it = forecast(input_of(cluster), plain_profile(), layout_of(1, 2, 4, 8));
  // Stages have equal work and nothing to send: (p - 1) / m.
  EXPECT_NEAR(it.breakdown.pipeline_bubble / it.breakdown.products, 3.0 / 8, 1e-3);
  ASSERT_EQ(it.stages.size(), 4U);
  EXPECT_DOUBLE_EQ(it.stages[0].activations, 4e9);
  EXPECT_DOUBLE_EQ(it.stages[3].activations, 1e9);
  EXPECT_EQ(&it.largest(), &it.stages[0]);
}

TEST(Forecast, APictureEndsWithItsStepAndHasAllWork) {
  const Cluster cluster = cluster_of(kCluster);
  const Profile profile = plain_profile();
  for (const RunLayout& layout :
       {layout_of(8, 1, 1, 4), layout_of(1, 2, 4, 8), layout_of(2, 1, 4, 16)}) {
    const Timeline picture = planned_step(input_of(cluster), profile, layout);
    ASSERT_EQ(picture.ranks.size(), 8U);
    EXPECT_NEAR(picture.seconds, forecast(input_of(cluster), profile, layout).step_seconds,
                1e-9 * picture.seconds);
    for (size_t rank = 0; rank < 8; ++rank) {
      std::map<Bar::Kind, int64_t> count;
      double end = 0;
      for (const Bar& bar : picture.ranks[rank]) {
        ++count[bar.kind];
        EXPECT_GE(bar.begin, end - 1e-12);
        end = bar.end;
        if (bar.chunk >= 0) {
          EXPECT_EQ(bar.chunk, static_cast<int64_t>(rank) * layout.pipeline / 8);
        }
      }
      EXPECT_EQ(count[Bar::Kind::kForward], layout.micro_batches);
      EXPECT_EQ(count[Bar::Kind::kBackward], layout.micro_batches);
      EXPECT_EQ(count[Bar::Kind::kExchange], layout.data > 1 ? 1 : 0);
    }
  }
}

TEST(Forecast, RanksThatShareProcessorsTakeTurns) {
  const Cluster cluster = cluster_of(kCluster, {"cluster.nodes=1"});
  const Cluster shared = cluster_of(kCluster, {"cluster.nodes=1", "cluster.processors=2"});
  const Profile profile = plain_profile();
  const RunLayout data = layout_of(4, 1, 1, 4);
  const Forecast alone = forecast(input_of(cluster), profile, data);
  const Forecast crowded = forecast(input_of(shared), profile, data);
  EXPECT_DOUBLE_EQ(crowded.breakdown.products, 2 * alone.breakdown.products);
  const RunLayout stages = layout_of(1, 1, 4, 4);
  const Forecast few = forecast(input_of(shared), profile, stages);
  // Four stages of four micro-batches work on 16 of 28 places: two processors do nearly all of it in 16.
  EXPECT_GT(few.step_seconds, 1.05 * forecast(input_of(cluster), profile, stages).step_seconds);
  EXPECT_LT(few.step_seconds, 1.6 * forecast(input_of(cluster), profile, stages).step_seconds);
  const Breakdown& parts = few.breakdown;
  EXPECT_NEAR(few.step_seconds,
              parts.products + parts.attention + parts.memory_bound + parts.exposed_communication +
                  parts.pipeline_bubble + parts.optimizer,
              1e-9 * few.step_seconds);
}

TEST(Forecast, ZeroKeepsStatesInParts) {
  const Cluster cluster = cluster_of(kCluster);
  RunLayout layout = layout_of(8, 1, 1, 4);
  const double elements = 4 * 4096.0 * 4096;
  for (int64_t stage = 0; stage <= 3; ++stage) {
    layout.zero = stage;
    const RankMemory memory = forecast(input_of(cluster), plain_profile(), layout).largest();
    EXPECT_DOUBLE_EQ(memory.optimizer, 12 * elements / (stage >= 1 ? 8 : 1));
    EXPECT_DOUBLE_EQ(memory.gradients, 4 * elements / (stage >= 1 ? 8 : 1));
    EXPECT_DOUBLE_EQ(memory.parameters, 2 * elements / (stage >= 3 ? 8 : 1));
    layout.reduction = ReductionOrder::kFast;
    EXPECT_DOUBLE_EQ(forecast(input_of(cluster), plain_profile(), layout).largest().gradients,
                     4 * elements / (stage >= 2 ? 8 : 1));
    layout.reduction = ReductionOrder::kExact;
  }
}

TEST(Forecast, CountsWhatARankHoldsBesideItsSteps) {
  const Cluster cluster = cluster_of(kCluster);
  ForecastInput input = input_of(cluster);
  const RunLayout layout = layout_of(4, 1, 2, 4);
  const RankMemory steps = forecast(input, plain_profile(), layout).stages[0];
  BesideSteps beside{.held = {.frozen = 1 << 30, .whole = 2 << 20, .outside = 3 << 20},
                     .evaluation = 4 << 20};
  input.beside = [&](const RunLayout&) { return beside; };
  const RankMemory all = forecast(input, plain_profile(), layout).stages[0];
  EXPECT_DOUBLE_EQ(all.frozen, 1 << 30);
  EXPECT_DOUBLE_EQ(all.weights, 2 << 20);
  EXPECT_DOUBLE_EQ(all.outside, 3 << 20);
  EXPECT_DOUBLE_EQ(all.evaluation, 4 << 20);
  EXPECT_DOUBLE_EQ(all.snapshot, 0);
  EXPECT_DOUBLE_EQ(all.total(), steps.total() + (1 << 30) + (9 << 20));
  beside.held.copies = true;
  beside.held.whole_of_stages = true;
  const RankMemory more = forecast(input, plain_profile(), layout).stages[0];
  EXPECT_DOUBLE_EQ(more.snapshot, steps.parameters + steps.optimizer);
  EXPECT_DOUBLE_EQ(more.weights, (2 << 20) + steps.parameters);  // the other stage has as many
  // A search takes none that only its steps would fit.
  const Profile profile = plain_profile();
  const ProfileOf profiles = [&](const RunLayout&) -> const Profile& { return profile; };
  EXPECT_FALSE(search_layouts(input, profiles, layout, {}, 1).best.empty());
  beside.held.frozen = 10'000'000'000;
  EXPECT_TRUE(search_layouts(input, profiles, layout, {}, 1).best.empty());
}

TEST(Forecast, ExchangesGradientsAndParametersAsOftenAsARunDoes) {
  const Cluster cluster = cluster_of(kCluster);
  const double elements = 4 * 4096.0 * 4096;
  const Group ranks = group_of(cluster, 8, 1);
  const double scatter = reduce_scatter_seconds(cluster, ranks, 4 * elements);
  const double sums = all_gather_seconds(cluster, ranks, 4 * elements);
  const double gather = all_gather_seconds(cluster, ranks, 2 * elements);
  RunLayout layout = layout_of(8, 1, 1, 4);
  layout.regather = Regather::kAlways;
  for (const auto& [stage, order, seconds] :
       {std::tuple(0, ReductionOrder::kExact, 4 * scatter + sums),
        {0, ReductionOrder::kFast, scatter + sums},
        {1, ReductionOrder::kExact, 4 * scatter + gather},
        {1, ReductionOrder::kFast, scatter + gather},
        {2, ReductionOrder::kFast, 4 * scatter + gather},
        {3, ReductionOrder::kExact, 4 * scatter + 4 * 2 * gather}}) {
    layout.zero = stage;
    layout.reduction = order;
    layout.overlap = {};
    const Breakdown some = forecast(input_of(cluster), plain_profile(), layout).breakdown;
    EXPECT_NEAR(some.data, seconds, 1e-9 * seconds) << stage;
    EXPECT_EQ(some.tensor, 0);
    EXPECT_LT(some.exposed_communication, seconds);
    layout.overlap = {.gradients = false, .parameters = false};
    const Breakdown none = forecast(input_of(cluster), plain_profile(), layout).breakdown;
    EXPECT_NEAR(none.exposed_communication, seconds, 1e-9 * seconds) << stage;
  }
}

// What fits keeps what it gathered, as a run does.
TEST(Forecast, GathersParametersAgainWhereMemoryDoesNotAllowToKeepThem) {
  const Cluster cluster = cluster_of(kCluster);
  RunLayout layout = layout_of(8, 1, 1, 4);
  layout.zero = 3;
  ForecastInput input = input_of(cluster);
  const auto planned = [&](Regather regather) {
    layout.regather = regather;
    return forecast(input, plain_profile(), layout);
  };
  const Forecast never = planned(Regather::kNever);
  const Forecast always = planned(Regather::kAlways);
  EXPECT_LT(never.breakdown.data, always.breakdown.data);
  EXPECT_GT(never.largest().total(), always.largest().total());
  EXPECT_DOUBLE_EQ(planned(Regather::kAuto).breakdown.data, never.breakdown.data);
  input.limit_bytes = (never.largest().total() + always.largest().total()) / 2;
  EXPECT_DOUBLE_EQ(planned(Regather::kAuto).breakdown.data, always.breakdown.data);
}

TEST(Forecast, SequenceParallelismSharesWhatTensorParallelismKeepsWhole) {
  const Cluster cluster = cluster_of(kCluster);
  RunLayout layout = layout_of(2, 4, 1, 4);
  EXPECT_DOUBLE_EQ(forecast(input_of(cluster), plain_profile(), layout).largest().activations, 4e9);
  layout.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(forecast(input_of(cluster), plain_profile(), layout).largest().activations, 1e9);
}

TEST(Search, FindsWhatFitsAndSaysWhyTheRestLost) {
  const Cluster cluster = cluster_of(kCluster);
  const Profile profile = plain_profile();
  const ProfileOf profiles = [&](const RunLayout&) -> const Profile& { return profile; };
  const SearchResult result =
      search_layouts(input_of(cluster), profiles, layout_of(8, 1, 1, 4), {}, 4);
  ASSERT_FALSE(result.best.empty());
  for (const Forecast& it : result.best) {
    EXPECT_TRUE(it.fits());
    EXPECT_GE(it.step_seconds, result.best[0].step_seconds);
  }
  for (const Forecast& it : result.too_large) {
    EXPECT_THAT(reason(it, &result.best[0]), HasSubstr("needs"));
  }
  for (const Forecast& it : result.slower) {
    EXPECT_NE(reason(it, &result.best[0]), "");
  }
  const SearchResult fixed = search_layouts(input_of(cluster), profiles, layout_of(2, 4, 1, 4),
                                            {"parallel.tensor", "batch.micro"}, 4);
  for (const Forecast& it : fixed.best) {
    EXPECT_EQ(it.layout.tensor, 4);
    EXPECT_EQ(it.layout.micro, 4);
  }
}

struct RunFile {
  TrainConfig config;
  template <class V>
  void fields(V& v) {
    config.fields_before_model(v);
    config.fields_after_data(v);
  }
};

RunLayout resolved(const std::string& text) {
  const YamlNode tree = parse_yaml(text, "my.yaml");
  RunFile file;
  read_config(tree, file);
  return resolve_layout(file.config, tree, cluster_of(kCluster),
                        {.layers = 12, .heads = 12, .tokens = 1024}, 1);
}

TEST(RunLayout, ImpossibleOnesNameTheNearestPossible) {
  const std::pair<const char*, const char*> cases[] = {
      {"parallel: {tensor: 3}",
       "my.yaml:1: parallel.tensor: tensor 3 x pipeline 1 x context 1 = 3 "
       "does not divide the cluster's 8 ranks; the nearest that does: "
       "tensor=2 or 4"},
      {"parallel: {data: 3, tensor: 2}", "= 6 ranks, but the cluster has 8; say data=4 or -1"},
      {"parallel: {tensor: 8}", "8 does not divide the model's 12 heads; the nearest that do: 6"},
      {"parallel: {pipeline: 8}\nbatch: {global: 64}",
       "12 layers do not divide into 8 parts; the nearest that do: 6 or 4 or 12; or say which has "
       "how many, as parallel.stage_layout=[1,1,2,2,2,2,1,1]"},
      {"parallel: {pipeline: 4}\nbatch: {global: 4}",
       "4 ranks need as many micro-batches, but a "
       "step has 2"},
      {"batch: {global: 12}", "8 does not divide batch.global 12; the nearest that do: 6 or 4"},
      {"batch: {global: 48, micro: 4}", "does not divide the 6 samples of a rank"},
      {"parallel: {schedule: zbw}",
       "'zbw' is none of gpipe, 1f1b, interleaved, zb_h1, zbv, and no file; did you "
       "mean zbv?"},
      {"parallel: {pipeline: 2, virtual_pipeline: 2}\nbatch: {global: 64}",
       "2 parts a rank are for parallel.schedule: interleaved"},
      {"parallel: {pipeline: 2, stage_layout: [6, 5]}\nbatch: {global: 64}",
       "11 layers in 2 parts, but the model has 12 and the pipeline 2"},
      {"parallel: {context: 8, copies: 2}\nbatch: {global: 1}",
       "2 does not divide the 1 samples of a micro-batch"}};
  for (const auto& [text, expected] : cases) {
    EXPECT_THAT(message_of<ConfigError>([&, text = text] { resolved(text); }), HasSubstr(expected))
        << text;
  }
  EXPECT_EQ(resolved("parallel: {tensor: 2}\nbatch: {global: 8}").data, 4);
}

// Keys that the search is to find are not held against what was asked for.
TEST(RunLayout, ThatIsToBeFoundIsCheckedAsFarAsItIsDecided) {
  const auto begun = [](const std::string& text, const std::set<std::string>& decided) {
    const YamlNode tree = parse_yaml(text, "my.yaml");
    RunFile file;
    read_config(tree, file);
    return decided_layout(file.config, tree, cluster_of(kCluster),
                          {.layers = 12, .heads = 12, .tokens = 1024}, decided);
  };
  const struct {
    const char* text;
    std::set<std::string> decided;
  } kPossible[] = {
      {"batch: {global: 12}", {}},
      {"parallel: {data: 2}\nbatch: {global: 12}", {"parallel.data"}},
      {"parallel: {tensor: 2}\nbatch: {global: 2}", {"parallel.tensor"}},
      {"parallel: {copies: 2}\nbatch: {global: 8}",
       {"parallel.copies", "parallel.tensor", "parallel.pipeline", "parallel.context"}},
      {"parallel: {stage_layout: [5, 7]}", {"parallel.stage_layout"}},
      {"parallel: {pipeline: 8}", {"parallel.pipeline"}},
      {"parallel: {schedule: interleaved, virtual_pipeline: 2}",
       {"parallel.schedule", "parallel.virtual_pipeline"}}};
  for (const auto& [text, decided] : kPossible) {
    EXPECT_NO_THROW(begun(text, decided)) << text;
  }
  const struct {
    const char* text;
    std::set<std::string> decided;
    const char* expected;
  } kImpossible[] = {
      {"parallel: {tensor: 3}", {"parallel.tensor"}, "tensor=2 or 4"},
      {"parallel: {data: 3}", {"parallel.data"}, "parallel.data: data 3"},
      {"parallel: {data: 8}\nbatch: {global: 12}", {"parallel.data"}, "8 does not divide"},
      {"batch: {global: 12}",
       {"parallel.tensor", "parallel.pipeline", "parallel.context"},
       "8 does not divide batch.global 12"},
      {"parallel: {stage_layout: [5, 8]}", {"parallel.stage_layout"}, "13 layers in 2 parts"}};
  for (const auto& [text, decided, expected] : kImpossible) {
    EXPECT_THAT(message_of<ConfigError>([&, text = text, &keys = decided] { begun(text, keys); }),
                HasSubstr(expected))
        << text;
  }
}

TEST(RunLayout, OfAPlanIsWhatItsKeysSay) {
  RunLayout layout = layout_of(1, 2, 4, 8);
  layout.stages = {1, 1, 1, 1};
  layout.sequence_parallel = true;
  YamlNode tree = YamlNode::map();
  apply_overrides(tree, layout.keys());
  apply_overrides(tree, std::vector<std::string>{"batch.global=32"});
  RunFile file;
  read_config(tree, file);
  const RunLayout again = resolve_layout(file.config, tree, cluster_of(kCluster),
                                         {.layers = 4, .heads = 8, .tokens = 64}, 1);
  EXPECT_EQ(again.keys(), layout.keys());
}

}  // namespace
}  // namespace mstrain
