// Whole runs by the command: what is written, and what other commands make of it.
#include <gmock/gmock.h>

#include "core/base/json.h"
#include "core/data/hf_simple.h"
#include "core/data/simple_tokenizers.h"
#include "core/io/events.h"
#include "core/train/metrics_file.h"
#include "tests/core/train/memory_disk.h"
#include "tests/launcher/command.h"

namespace mstrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Command, ATemperatureOfZeroIsGreedyAndExportSaysWhatItWrote) {
  const SmallRun run;
  ASSERT_EQ(run_command(run.arguments("run", {"schedule.total_steps=6"})).status, 0);
  const auto generate = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "--checkpoint", run.path("run"), "--prompt", "the cat",
                               "--tokens", "30"});
    const CommandResult result = run_command(more);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  EXPECT_EQ(generate({"--temperature", "0", "--seed", "5"}), generate({"--greedy"}));

  const CommandResult exported =
      run_command({"export", "--checkpoint", run.path("run"), "--output", run.path("out")});
  ASSERT_EQ(exported.status, 0) << exported.err;
  EXPECT_THAT(exported.out,
              AllOf(HasSubstr(run.path("out/model.safetensors") + ": "),
                    HasSubstr(run.path("out/config.json") + ": "), HasSubstr(" bytes\n")));
}

std::string spans_of(const SmallRun& run) {
  return "data: {task: span_corruption, train: " + run.path("text.txt") + ", seq_length: 16}\n";
}
// A T5 that learns them.
std::string small_t5(const SmallRun& run, const std::string& more) {
  return "run: {output_dir: " + run.path("run") +
         "}\nmodel: {type: t5, hidden_size: 16, d_kv: 8, ffn_hidden_size: 32, num_layers: 1, "
         "num_attention_heads: 2, " +
         more + "}\n" + spans_of(run);
}

TEST(Command, AVocabularyWithoutRoomForSentinelsIsToldHowMany) {
  const SmallRun run;
  const std::string file = run.path("t5.yaml");
  write_text(file, small_t5(run, "vocab_size: 263"));
  EXPECT_THAT(run_command({"--config", file, "--dry-run"}).err,
              HasSubstr("model.extra_ids: with 100 sentinels there are 358 tokens, and "
                        "the model has 263; say 5"));
  EXPECT_EQ(run_command({"--config", file, "--dry-run", "model.extra_ids=5"}).status, 0);
}

TEST(Command, ATokenizerWithFewerSentinelsThanSpansIsRefused) {
  const SmallRun run;
  for (const TokenizerFile& tokenizer : hugging_face_files(
           ByteTokenizer(), {.added = {"<pad>", "</s>", "<extra_id_1>", "<extra_id_0>"}})) {
    write_text(run.path("tokenizer/" + tokenizer.name), tokenizer.bytes);
  }
  const std::string file = run.path("t5.yaml");
  write_text(file, small_t5(run, "extra_ids: 100"));
  const auto dry = [&](const std::string& length) {
    return run_command({"--config", file, "--dry-run", "data.tokenizer=" + run.path("tokenizer"),
                        "data.seq_length=" + length});
  };
  EXPECT_EQ(dry("32").status, 0);
  const CommandResult refused = dry("48");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err,
              HasSubstr("data.tokenizer: has 2 sentinels, counted on from <extra_id_0>, but "
                        "samples have up to 3 spans"));
}

TEST(Command, RoomThatNoPairTakesCostsNothing) {
  const SmallRun run;
  std::string pairs;
  for (int i = 0; i < 12; ++i) {
    pairs += fmt::format("{{\"input\": \"sort {}21\", \"target\": \"12{}\"}}\n", i, i);
  }
  write_text(run.path("pairs.jsonl"), pairs);
  const std::string file = run.path("t5.yaml");
  const auto found = [&](int64_t room) {
    write_text(file, fmt::format("model: {{type: t5, hidden_size: 16, d_kv: 8, ffn_hidden_size: "
                                 "32, num_layers: 1, num_attention_heads: 2, extra_ids: 0}}\n"
                                 "data: {{task: pairs, train: {}, tokenizer: byte, packing: false, "
                                 "seq_length: {}}}\nschedule: {{total_steps: 3}}\nbatch: "
                                 "{{global: 4}}\nlog: {{interval: 1}}\nrun: {{output_dir: {}}}\n",
                                 run.path("pairs.jsonl"), room, run.path(fmt::format("{}", room))));
    const CommandResult plan = run_command({"--config", file, "--dry-run"});
    EXPECT_EQ(run_command({"--config", file}).status, 0);
    std::vector<double> out{std::stod(plan.out.substr(plan.out.find("\n  total") + 8))};
    for (const Json& row :
         read_metrics(real_files(), run.path(fmt::format("{}/metrics.jsonl", room)))) {
      out.push_back(row.value("loss", 0.0));
    }
    EXPECT_GE(out.size(), 4U);
    return out;
  };
  EXPECT_EQ(found(16), found(256));
}

// Whatever a file says of a model, one is evaluated as it is in its checkpoint.
TEST(Command, AnEvaluationByAnotherFileTakesTheModelOfTheCheckpoint) {
  const SmallRun run;
  const std::string batch = "batch: {global: 4}\n";
  const std::string trained = run.path("trained.yaml");
  write_text(trained, small_t5(run, "extra_ids: 7") +
                          "optimizer: {type: adamw, lr: 1.0e-3}\n"
                          "schedule: {total_steps: 2}\neval: {batches: 2}\n" +
                          batch);
  ASSERT_EQ(run_command({"--config", trained}).status, 0);
  const auto loss = [&](const std::string& model) {
    write_text(run.path("other.yaml"), model + "eval: {batches: 2}\n" + spans_of(run) + batch);
    const CommandResult result =
        run_command({"eval", "--checkpoint", run.path("run"), "--config", run.path("other.yaml")});
    EXPECT_EQ(result.status, 0) << model << result.err;
    return result.out.substr(0, result.out.find("  ("));
  };
  const CommandResult own = run_command({"eval", "--checkpoint", run.path("run")});
  EXPECT_EQ(loss("model: {type: t5}\n"), own.out.substr(0, own.out.find("  (")));
  EXPECT_EQ(loss("model: {type: t5, extra_ids: 3, hidden_size: 8}\n"), loss(""));
  EXPECT_EQ(loss(""), loss("model: {type: t5}\n"));

  // Nor does it matter that the file begins with a model of another size.
  ASSERT_EQ(run_command({"--config", trained, "model.hidden_size=8", "schedule.total_steps=1",
                         "run.output_dir=" + run.path("small")})
                .status,
            0);
  EXPECT_EQ(loss("model: {init: {from: " + run.path("small") + "}}\n"), loss(""));

  write_text(run.path("other.yaml"), "model: {type: gpt}\n" + spans_of(run) + batch);
  EXPECT_THAT(
      run_command({"eval", "--checkpoint", run.path("run"), "--config", run.path("other.yaml")})
          .err,
      HasSubstr("model.type: gpt differs from t5"));
}

// What a model gives is what it was trained for.
TEST(Command, AnEvaluationByAnotherFileIsOfTheHeadThatThereIs) {
  const SmallRun run;
  ASSERT_EQ(run_command(run.arguments("run", {"schedule.total_steps=2"})).status, 0);
  write_text(run.path("pairs.jsonl"), R"({"prompt": "the ", "chosen": "cat", "rejected": "hat"})"
                                      "\n"
                                      R"({"prompt": "the ", "chosen": "hat", "rejected": "cat"})");
  const std::string config = run.path("reward.yaml");
  write_text(config, "data: {train: " + run.path("pairs.jsonl") +
                         ", valid: " + run.path("pairs.jsonl") +
                         ", seq_length: 16}\nobjective: {type: reward}\nbatch: {global: 2}\n"
                         "eval: {batches: 1}\n");
  EXPECT_THAT(
      run_command({"eval", "--checkpoint", run.path("run"), "--config", config}).err,
      HasSubstr(
          "model.head: the checkpoint's is next_token, but the configuration asks for score"));
  ASSERT_EQ(run_command({"--config", config, "model.init.from=" + run.path("run"),
                         "run.output_dir=" + run.path("scores"), "schedule.total_steps=1",
                         "schedule.type=constant"})
                .status,
            0);
  // What the run began with is needed no more.
  real_files().remove_all(run.path("run"));
  for (const std::string& file : {config, run.path("scores/config.yaml")}) {
    EXPECT_EQ(run_command({"eval", "--checkpoint", run.path("scores"), "--config", file}).status,
              0);
  }
  EXPECT_THAT(
      run_command({"eval", "--checkpoint", run.path("scores"), "--config", run.config()}).err,
      HasSubstr(
          "model.head: the checkpoint's is score, but the configuration asks for next_token"));
  EXPECT_THAT(run_command({"generate", "--checkpoint", run.path("scores"), "--prompt", "the"}).err,
              HasSubstr("a model of scores writes no text"));
}

TEST(Command, TrainsEvaluatesGeneratesInspectsAndReports) {
  const SmallRun run;
  const CommandResult trained = run_command(run.arguments("run"));
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_THAT(trained.out, AllOf(HasSubstr("finished at step 40, eval loss "),
                                 HasSubstr("run/report.html in a browser")));
  EXPECT_THAT(trained.err, AllOf(HasSubstr("step 40/40  loss "), HasSubstr(" tokens/s  0:00 left"),
                                 HasSubstr("step 20  eval loss ")));
  const CommandResult again = run_command(run.arguments("run"));
  EXPECT_EQ(again.status, 0);
  EXPECT_THAT(again.out, HasSubstr("finished at step 40; raise schedule.total_steps to go on"));

  const CommandResult other = run_command(run.arguments("run", {"model.hidden_size=32"}));
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("model.hidden_size: 16, now 32"));

  const std::string checkpoint = run.path("run/checkpoints/step-00000040");
  double eval_loss = 0;
  for (const Json& row : read_metrics(real_files(), run.path("run/metrics.jsonl"))) {
    eval_loss = row.value("eval_loss", eval_loss);
  }
  // From the checkpoint itself, from the run, and with a configuration by name.
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"eval", "--checkpoint", checkpoint},
        std::vector<std::string>{"eval", "--checkpoint", run.path("run")},
        std::vector<std::string>{"eval", "--checkpoint", checkpoint, "--config", run.config()}}) {
    const CommandResult evaluated = run_command(arguments);
    ASSERT_EQ(evaluated.status, 0) << evaluated.err;
    EXPECT_THAT(evaluated.out, StartsWith("eval_loss "));
    EXPECT_NEAR(std::stod(evaluated.out.substr(10)), eval_loss, 1e-5);
  }

  const auto generate = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "--checkpoint", checkpoint, "--prompt", "the cat "});
    const CommandResult result = run_command(more);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, StartsWith("the cat "));
    return result.out;
  };
  const std::string greedy = generate({"--greedy", "--tokens", "30"});
  EXPECT_EQ(greedy.size(), 8 + 30 + 1U);  // prompt, tokens, line end
  EXPECT_EQ(generate({"--greedy", "--tokens", "30"}), greedy);
  EXPECT_EQ(generate({"--top-k", "1", "--tokens", "30"}), greedy);
  for (const char* weights : {"f32", "bf16", "int8", "nf4"}) {
    const std::string text = generate({"--greedy", "--tokens", "30", "--weights", weights});
    EXPECT_EQ(text.size(), greedy.size());
    EXPECT_EQ(generate({"--greedy", "--tokens", "30", "--weights", weights}), text);
  }
  EXPECT_EQ(generate({"--greedy", "--tokens", "30", "--weights", "f32"}), greedy);
  EXPECT_THAT(run_command({"generate", "--checkpoint", checkpoint, "--prompt", "the", "--weights",
                           "int8", "--tokens", "1"})
                  .err,
              HasSubstr("weights in int8: "));
  const std::string drawn = generate({"--seed", "3", "--tokens", "60", "--top-p", "0.95"});
  EXPECT_EQ(generate({"--seed", "3", "--tokens", "60", "--top-p", "0.95"}), drawn);
  EXPECT_NE(generate({"--seed", "4", "--tokens", "60", "--top-p", "0.95"}), drawn);
  EXPECT_THAT(run_command({"generate", "--checkpoint", checkpoint, "--prompt", "XYZ"}).err,
              HasSubstr("'X'"));
  EXPECT_THAT(
      run_command({"generate", "--checkpoint", checkpoint, "--prompt", "the", "--beams", "2"}).err,
      HasSubstr(
          "a gpt2 draws its tokens or takes the likeliest (--greedy), and searches with no beams"));
  EXPECT_THAT(
      run_command({"generate", "--checkpoint", checkpoint, "--prompt", "the cat sat on a mat",
                   "--tokens", "2"})
          .err,
      AllOf(HasSubstr("the prompt has 20 tokens, and the model sees 16: only the last 16 are read"),
            HasSubstr("prompt and text have 22 tokens, and the model sees 16: whenever these were "
                      "full, all but the newest 8 were forgotten")));

  EXPECT_THAT(
      run_command({"inspect", checkpoint}).out,
      AllOf(HasSubstr("every file has the size and digest"), HasSubstr("step 40, 160 samples"),
            HasSubstr("model: gpt2, "),
            HasSubstr("parameters in F32, hidden_size 16, num_layers 2, num_attention_heads 2, "
                      "max_position_embeddings 16, vocab_size "),
            HasSubstr("transformer.h.1.attn.c_attn.weight  F32 [16, 48]")));
  EXPECT_THAT(run_command({"inspect", run.path("run")}).out, HasSubstr("step-00000040: sound"));
  EXPECT_THAT(run_command({"inspect", join_path(checkpoint, "optimizer.safetensors")}).out,
              HasSubstr("transformer.wte.weight.exp_avg_sq"));
  EXPECT_THAT(run_command({"inspect", run.path("text.txt")}).out, HasSubstr("UTF-8 text"));
  const CommandResult missing = run_command({"inspect", run.path("nothing")});
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.err, HasSubstr("nothing: no such file"));

  const CommandResult report =
      run_command({"report", run.path("run"), run.path("run"), "--output", run.path("two.html")});
  EXPECT_EQ(report.status, 0) << report.err;
  EXPECT_THAT(real_files().read(run.path("two.html")), StartsWith("<!doctype html>"));

  int event_files = 0;
  for (const std::string& name : real_files().list(run.path("run"))) {
    if (name.starts_with("events.out.tfevents.")) {
      ++event_files;
      EXPECT_GT(read_events(real_files(), run.path("run/" + name)).events.size(), 10U);
    }
  }
  EXPECT_EQ(event_files, 1);
}

TEST(Command, ProfilesOnRequest) {
  const SmallRun run;
  const CommandResult result = run_command(run.arguments("run", {"profile.steps=2"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("profile of steps 10 to 11: " + run.path("run/profile.json")));
  const std::string text = real_files().read(run.path("run/profile.json"));
  EXPECT_THAT(text, HasSubstr("\"name\":\"transformer.h.1.mlp.c_fc dot_general"));
  EXPECT_GT(parse_json(text, "profile.json").at("traceEvents").size(), 100U);
  EXPECT_THAT(run_command(run.arguments("short", {"profile.steps=50"})).err,
              HasSubstr("warning: profile.steps: the run ended after 31 of 50"));
}

TEST(Command, ASweepIsInspectedAsOneAndNamesItsRuns) {
  const SmallRun run;
  const CommandResult swept = run_command(run.arguments(
      "sweep", {"schedule.total_steps=4", "sweep.keys.optimizer.lr=[1.0e-2, 2.5e-4]"}));
  ASSERT_EQ(swept.status, 0) << swept.err;
  const CommandResult story = run_command({"inspect", run.path("sweep")});
  EXPECT_EQ(story.status, 0) << story.err;
  EXPECT_THAT(story.out, AllOf(HasSubstr("sweep: sweep\n  status     finished\n"),
                               HasSubstr("  runs/000  optimizer.lr 0.01  finished, "),
                               HasSubstr("  runs/001  optimizer.lr 0.00025  finished, "),
                               HasSubstr(" at step 4, the best\n")));
  std::filesystem::remove(run.path("sweep/report.html"));
  const CommandResult page = run_command({"report", run.path("sweep")});
  EXPECT_EQ(page.out, run.path("sweep/report.html") + "\n") << page.err;
  EXPECT_THAT(real_files().read(run.path("sweep/report.html")), HasSubstr("\"method\":\"grid\""));
  const CommandResult evaluated = run_command({"eval", "--checkpoint", run.path("sweep")});
  EXPECT_EQ(evaluated.status, 1);
  EXPECT_THAT(evaluated.err, HasSubstr("sweep: is a sweep; name one of its runs, such as " +
                                       run.path("sweep/runs/00")));
  const CommandResult nowhere = run_command({"report", run.path("swep")});
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("swep: no such file or folder"));
}

TEST(Command, ASweepWithRunsThatFailedIsNoSuccess) {
  const SmallRun run;
  const CommandResult swept =
      run_command(run.arguments("sweep", {"schedule.total_steps=4", "schedule.warmup_steps=0",
                                          "sweep.keys.optimizer.lr=[1.0e-2, 1.0e30]"}));
  EXPECT_EQ(swept.status, 1);
  EXPECT_THAT(swept.out, HasSubstr("best eval_loss "));
  EXPECT_THAT(swept.err, HasSubstr("1 of 2 runs failed: 001; the same command tries it again"));
}

TEST(Command, WhatTheRateFinderWroteIsFoundInTheFolderOfItsRun) {
  const SmallRun run;
  const CommandResult found =
      run_command(run.arguments("run", {"run.mode=find_lr", "find_lr.steps=30"}));
  ASSERT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(run_command({"report", run.path("run")}).out,
            run.path("run/find_lr/report.html") + "\n");
  EXPECT_THAT(run_command({"inspect", run.path("run")}).out,
              StartsWith(run.path("run/find_lr") + ": run directory\n"));
}

TEST(Command, AnEvaluationThatIsNoNumberIsToldAndNoSuccess) {
  const SmallRun run;
  const CommandResult trained = run_command(run.arguments(
      "run", {"schedule.total_steps=3", "optimizer.lr=1e30", "optimizer.not_finite=skip",
              "schedule.warmup_steps=0", "eval.prompts=[]"}));
  EXPECT_THAT(trained.err, HasSubstr("step 3: the loss of the evaluation is "));
  EXPECT_THAT(trained.err + trained.out, testing::Not(HasSubstr("-nan")));
  const CommandResult evaluated = run_command({"eval", "--checkpoint", run.path("run")});
  EXPECT_EQ(evaluated.status, 1);
  EXPECT_THAT(evaluated.err, HasSubstr("the loss of the evaluation is "));
}

TEST(Command, InspectTellsARunsStory) {
  const SmallRun run;
  ASSERT_EQ(run_command(run.arguments("run", {"checkpoint.best=eval_loss"})).status, 0);
  const std::vector<std::string> more{"checkpoint.best=eval_loss", "schedule.total_steps=50",
                                      "--change", "optimizer.lr=0.003"};
  const CommandResult changed = run_command(run.arguments("run", more));
  ASSERT_EQ(changed.status, 0) << changed.err;
  EXPECT_THAT(changed.err, HasSubstr("from here on optimizer.lr: 0.01, now 0.003"));
  const CommandResult story = run_command({"inspect", run.path("run")});
  EXPECT_EQ(story.status, 0) << story.err;
  EXPECT_THAT(story.out,
              AllOf(HasSubstr("finished at step 50 of 50"), HasSubstr("best "),
                    HasSubstr("step 0 to 40: finished"), HasSubstr("step 40 to 50: finished"),
                    HasSubstr("optimizer.lr: 0.01, now 0.003"),
                    HasSubstr("mstrain --config " + run.config()),
                    HasSubstr("model.hidden_size: 16"), HasSubstr("step-00000050: sound")));
  EXPECT_THAT(real_files().read(run.path("run/report.html")), HasSubstr("\"before\":\"0.01\""));

  const CommandResult never =
      run_command(run.arguments("run", {"--change", "model.hidden_size=8"}));
  EXPECT_EQ(never.status, 2);
  EXPECT_THAT(never.err, AllOf(StartsWith("--change: model.hidden_size cannot change"),
                               HasSubstr("optimizer.lr")));
  const CommandResult restarted =
      run_command(run.arguments("run", {"model.hidden_size=8", "--restart"}));
  EXPECT_EQ(restarted.status, 0) << restarted.err;
  EXPECT_THAT(restarted.out, HasSubstr("finished at step 40"));
}

TEST(Command, ModesOfAConfiguration) {
  const SmallRun run;
  ASSERT_EQ(run_command(run.arguments("run")).status, 0);
  EXPECT_THAT(run_command(run.arguments("run", {"run.mode=eval"})).out, StartsWith("eval_loss "));
  EXPECT_THAT(run_command(run.arguments("run", {"run.mode=generate"})).out, StartsWith("the "));
  EXPECT_THAT(run_command(run.arguments("none", {"run.mode=benchmark"})).out,
              StartsWith("steps 40  median "));
  EXPECT_FALSE(real_files().exists(run.path("none")));
}

TEST(Command, ForwardNamesTheFileWhoseInputsDoNotSuffice) {
  const SmallRun run;
  write_text(run.path("t5.yaml"),
             "run: {name: t5, threads: 1}\n"
             "model: {type: t5, hidden_size: 8, d_kv: 4, ffn_hidden_size: 8, num_layers: 1,\n"
             "        num_attention_heads: 2}\n"
             "data: {task: span_corruption, train: " +
                 run.path("text.txt") +
                 ", tokenizer: {type: char}, seq_length: 16}\n"
                 "batch: {global: 2}\n"
                 "schedule: {total_steps: 1}\n");
  const CommandResult trained =
      run_command({"--config", run.path("t5.yaml"), "run.output_dir=" + run.path("t5")});
  ASSERT_EQ(trained.status, 0) << trained.err;
  std::string header = R"({"input_ids":{"dtype":"I32","shape":[1,2],"data_offsets":[0,8]}})";
  header.resize(72, ' ');
  write_text(run.path("in.safetensors"),
             std::string("\x48\0\0\0\0\0\0\0", 8) + header + std::string(8, '\0'));
  const CommandResult result =
      run_command({"forward", "--checkpoint", run.path("t5"), "--input", run.path("in.safetensors"),
                   "--output", run.path("out.safetensors")});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, StartsWith(run.path("in.safetensors") + ": neither decoder_input_ids"));
}

TEST(Command, FailuresWhileRunningAreStatus1AndWhatIsNotThereIs2) {
  const SmallRun run;
  const CommandResult no_data = run_command(run.arguments("run", {"data.train=/nowhere/text.txt"}));
  EXPECT_EQ(no_data.status, 2);
  EXPECT_THAT(no_data.err, StartsWith("command line: data.train: /nowhere/text.txt"));
  EXPECT_EQ(run_command({"watch", "/nowhere"}).status, 2);
  const CommandResult unwritable =
      run_command({"--config", run.config(), "run.output_dir=" + run.config() + "/run"});
  EXPECT_EQ(unwritable.status, 1);
  EXPECT_THAT(unwritable.err, StartsWith(run.config()));
  const CommandResult locked = [&] {
    const auto lock = [&] {
      real_files().create_directories(run.path("run"));
      return real_files().try_lock(run.path("run/.lock"));
    }();
    return run_command(run.arguments("run"));
  }();
  EXPECT_EQ(locked.status, 1);
  EXPECT_THAT(locked.err, HasSubstr("another mstrain is at work here"));
}

}  // namespace
}  // namespace mstrain
