// The texts of groups compile for NVIDIA's processors: the compiler that a card's driver would be given them by.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "core/backends/cuda/compiler.h"
#include "core/backends/cuda/device_headers.h"
#include "core/backends/cuda/group.h"
#include "core/base/files.h"
#include "core/base/hash.h"
#include "core/compile/plan.h"
#include "core/data/simple_tokenizers.h"
#include "core/train/planned_run.h"
#include "core/train/session.h"
#include "suites/transformer/text/text_run.h"
#include "tests/conformance/cases.h"

#ifdef MSTRAIN_NVRTC
#include <nvrtc.h>
#endif

namespace mstrain::cuda {
namespace {

// Texts by the hash of what they are.
std::map<uint64_t, std::string>& recorded() {
  static std::map<uint64_t, std::string> it;
  return it;
}

// Plans as the back end `null` does, and notes what text each group would be.
const Backend* recording_backend() {
  static const Backend& it = []() -> Backend& {
    Backend table = *backend_named("null");
    table.name = "cuda texts";
    KernelEntry& fused = table.kernels.at("fused");
    fused.supports = has_group_text;
    fused.prepare = [](const KernelRequest& request) -> Kernel {
      const KernelText text = named(print_group(request));
      recorded()[hash_bytes(text.text).lo] = text.text;
      return {.run = [](const KernelMemory&) {}, .workspace_bytes = text.workspace_bytes};
    };
    return add_backend(std::move(table));
  }();
  return &it;
}

// The groups of a shipped configuration's step.
std::string texts_of(const std::string& file) {
  YamlNode tree = load_config(std::string(MSTRAIN_SOURCE_DIR) + "/configs/" + file,
                              std::vector<std::string>{"run.threads=2", "memory.limit_gb=1e6"});
  const std::unique_ptr<ModelRun> run = read_run(tree);
  auto& config = dynamic_cast<TextRun&>(*run);
  if (!config.network()->ids()) {
    config.settle(256, tree);
  }
  Context context = make_context(config.train);
  context.backend = recording_backend();
  const ContextScope scope(context);
  recorded().clear();
  plan_run(config.task(), config.train, context, memory_limit(config.train.memory, context), false);
  std::string all;
  for (const auto& [key, text] : recorded()) {
    all += text;
  }
  return all;
}

#ifdef MSTRAIN_NVRTC

// What kernels include, by the names that they say.
std::vector<std::pair<std::string, std::string>> headers() {
  std::vector<std::pair<std::string, std::string>> result;
  for (const DeviceHeader& header : device_headers()) {
    result.emplace_back(header.path, header.content);
  }
  for (const char* name :
       {"array", "bit", "cmath", "cstdint", "limits", "type_traits", "utility"}) {
    result.emplace_back(name, "#include \"core/backends/cuda/device/standard.h\"\n");
  }
  return result;
}

// What NVRTC says against a text; empty: it compiles, and `told` is what it says of each kernel.
std::string complaint(const std::string& text, const char* architecture,
                      std::string* told = nullptr) {
  const auto all = headers();
  std::vector<const char*> names, contents;
  for (const auto& [name, content] : all) {
    names.push_back(name.c_str());
    contents.push_back(content.c_str());
  }
  nvrtcProgram program = nullptr;
  if (nvrtcCreateProgram(&program, text.c_str(), "group.cu", static_cast<int>(all.size()),
                         contents.data(), names.data()) != NVRTC_SUCCESS) {
    return "the program cannot be made";
  }
  const std::string target = std::string("--gpu-architecture=") + architecture;
  const char* const options[] = {target.c_str(), "--std=c++20", "-default-device",
                                 "--ptxas-options=-v"};
  const nvrtcResult result =
      nvrtcCompileProgram(program, static_cast<int>(std::size(options)), options);
  size_t length = 0;
  nvrtcGetProgramLogSize(program, &length);
  std::string log(length, '\0');
  nvrtcGetProgramLog(program, log.data());
  size_t bytes = 0;
  const bool made =
      result == NVRTC_SUCCESS && nvrtcGetCUBINSize(program, &bytes) == NVRTC_SUCCESS && bytes > 0;
  nvrtcDestroyProgram(&program);
  if (told != nullptr) {
    *told = log;
  }
  return made ? "" : std::string(nvrtcGetErrorString(result)) + "\n" + log.substr(0, 4000);
}

TEST(CudaTexts, OfShippedConfigurationsCompileForThreeArchitectures) {
  const std::string gpt = texts_of("gpt_124m.yaml");
  EXPECT_NE(gpt.find("layer_norm_grad"), std::string::npos);
  for (const char* architecture : {"sm_80", "sm_90a", "sm_100"}) {
    if (kSanitized && architecture != std::string_view("sm_80")) {
      break;  // NVRTC is what takes the time
    }
    EXPECT_EQ(complaint(gpt, architecture), "") << architecture;
  }
  EXPECT_NE(texts_of("llama_160m.yaml").find("rms_norm_grad"), std::string::npos);
}

// The numbers before or after a word in what was said of each kernel.
std::vector<int> numbers(const std::string& told, const char* pattern) {
  std::vector<int> result;
  const std::regex expression(pattern);
  for (std::sregex_iterator it(told.begin(), told.end(), expression), end; it != end; ++it) {
    result.push_back(std::stoi((*it)[1]));
  }
  return result;
}

// What a later pass over a row needs stays in registers: but for a few that do not fit, no kernel has a stack.
TEST(CudaTexts, RowsOfShippedConfigurationsStayInRegisters) {
  for (const char* file : {"gpt_124m.yaml", "llama_160m.yaml"}) {
    std::string told;
    ASSERT_EQ(complaint(texts_of(file), "sm_90a", &told), "") << file;
    const std::vector<int> stacks = numbers(told, "([0-9]+) bytes stack frame");
    const std::vector<int> registers = numbers(told, "Used ([0-9]+) registers");
    ASSERT_GE(registers.size(), 5U) << told;
    ASSERT_EQ(stacks.size(), registers.size()) << told;
    EXPECT_LE(std::ranges::max(stacks), 32) << told;
    EXPECT_LE(std::ranges::count_if(stacks, [](int bytes) { return bytes > 0; }), 1) << told;
    fmt::print("{} on sm_90a: {} kernels, at most {} registers, {} bytes of stack\n", file,
               registers.size(), std::ranges::max(registers), std::ranges::max(stacks));
  }
}

// One sample of every operation that has a text, and attention in both 16-bit types.
TEST(CudaTexts, OfOperationsCompile) {
  std::map<std::string, std::string> texts;
  for (const TextEntry& entry : text_entries()) {
    const OpDef& op = *find_op(entry.op);
    for (const Case& it : has_samples(op) ? some(cases_of(op), 6) : std::vector<Case>()) {
      Types types;
      std::vector<ViewType> in, out;
      for (const SampleInput& input : it.sample.inputs) {
        types.push_back(input.type);
        in.push_back(ViewType::dense(input.type));
      }
      for (const TensorType& type : op.infer(types, it.sample.attrs)) {
        out.push_back(ViewType::dense(type));
      }
      const KernelRequest request{op, it.sample.attrs, in, out};
      if (entry_for(request, entry.architecture) == &entry) {
        const KernelText text = named(entry.print(request));
        if (!text.launches.empty()) {
          texts[text.launches[0].name] = text.text;
        }
      }
    }
  }
  const ViewType turned{{Dtype::kU8, {64, 32}}, {1, 64}}, dense = ViewType::dense(turned.type);
  const Attrs none;
  const KernelRequest copy{*find_op("copy"), none, std::span(&turned, 1), std::span(&dense, 1)};
  texts["turned"] = named(entry_for(copy, "sm_90a")->print(copy)).text;
  std::string all;
  for (const auto& [name, text] : texts) {
    all += text;
  }
  EXPECT_NO_THROW(compile_text(all, "sm_90a")) << texts.size() << " texts";
}

// A kernel of attention over and of its gradient, with everything beside q, k and v that there may be, or nothing.
std::string attention_texts(int64_t dim, bool with_all, const char* architecture) {
  const TensorType x{Dtype::kBF16, {2, 1024, 4, dim}}, lse{Dtype::kF32, {2, 4, 1024}};
  const TensorType table{Dtype::kBF16, {1, 32, 4}};
  Attrs attrs{{"causal", true}, {"scale", 0.125}};
  Types forward{x, x, x}, gradients{x, x, x};
  std::string op = "attention";
  if (with_all) {
    op = "attention_dropout";
    for (const char* name : {"bidirectional", "masked", "segmented", "placed"}) {
      attrs.set(name, true);
    }
    attrs.set("max_distance", int64_t{128});
    attrs.set("rate", 0.1);
    attrs.set("site", int64_t{1});
    attrs.set("whole", Shape{2, 4, 1024, 1024});
    const TensorType segments{Dtype::kI32, {2, 1024}};
    for (const TensorType& type :
         {TensorType{Dtype::kBF16, {1, 1, 1024, 1024}}, table, TensorType{Dtype::kBool, {2, 1024}},
          segments, segments, TensorType{Dtype::kI32, {2}}, TensorType{Dtype::kU32, {2}},
          TensorType{Dtype::kI32, {4}}}) {
      forward.push_back(type);
    }
    gradients.push_back(forward[3]);
    gradients.push_back(table);
  }
  std::string all;
  const auto add = [&](const std::string& name, const Types& in, const Types& out) {
    std::vector<ViewType> inputs, outputs;
    for (const TensorType& type : in) {
      inputs.push_back(ViewType::dense(type));
    }
    for (const TensorType& type : out) {
      outputs.push_back(ViewType::dense(type));
    }
    const KernelRequest request{*find_op(name), attrs, inputs, outputs};
    const TextEntry* const entry = entry_for(request, architecture);
    check(entry != nullptr, "{} has no text", name);
    all += named(entry->print(request)).text;
  };
  add(op, forward, {x, lse});
  Types backward{x};
  backward.insert(backward.end(), forward.begin(), forward.end());
  backward.insert(backward.end(), {x, lse});
  add(op + "_grad", backward, gradients);
  return all;
}

// Tiles of attention stay in registers.
TEST(CudaTexts, OfAttentionCompile) {
  for (const int64_t dim : {64, 128}) {
    for (const bool with_all : {false, true}) {
      for (const char* architecture : {"sm_80", "sm_90a", "sm_100"}) {
        const bool is_hopper = std::string_view(architecture) == "sm_90a";
        if ((with_all && !is_hopper) || (kSanitized && (dim != 64 || !is_hopper))) {
          continue;
        }
        std::string told;
        ASSERT_EQ(complaint(attention_texts(dim, with_all, architecture), architecture, &told), "");
        const std::vector<int> stacks = numbers(told, "([0-9]+) bytes stack frame");
        const std::vector<int> registers = numbers(told, "Used ([0-9]+) registers");
        ASSERT_EQ(registers.size(), with_all ? 7U : 4U) << told;
        EXPECT_EQ(told.find("serialized"), std::string::npos) << told;  // products of warp groups
        EXPECT_LE(std::ranges::max(stacks), dim == 64 ? 32 : 256) << told;
        fmt::print("attention of {}{} on {}: at most {} registers, {} bytes of stack\n", dim,
                   with_all ? " with biases, masks and dropout" : "", architecture,
                   std::ranges::max(registers), std::ranges::max(stacks));
      }
    }
  }
}

TEST(CudaTexts, MistakesAreNotAccepted) {
  EXPECT_NE(complaint("#include \"core/backends/cuda/device/kernel.cuh\"\n"
                      "extern \"C\" __global__ void k(float* x) { x[0] = scalar::no_such(1); }",
                      "sm_90a"),
            "");
}

#else

TEST(CudaTexts, OfShippedConfigurationsCompileForThreeArchitectures) {
  EXPECT_NE(texts_of("gpt_124m.yaml").find("layer_norm_grad"), std::string::npos);
  GTEST_SKIP() << "no CUDA toolkit: NVRTC compiles nothing";
}

#endif

}  // namespace
}  // namespace mstrain::cuda
