#include "core/ir/text.h"

#include <malloc.h>

#include <atomic>
#include <bit>
#include <cstdlib>
#include <limits>
#include <new>

#include "tests/core/ir/programs.h"

namespace {
std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> peak_bytes{0};
}  // namespace

// Counts what this program allocates.
void* operator new(size_t size) {
  void* block = std::malloc(size == 0 ? 1 : size);
  if (block == nullptr) {
    throw std::bad_alloc();
  }
  live_bytes += static_cast<int64_t>(malloc_usable_size(block));
  peak_bytes = std::max(peak_bytes.load(), live_bytes.load());
  return block;
}
void operator delete(void* block) noexcept {
  live_bytes -= block == nullptr ? 0 : static_cast<int64_t>(malloc_usable_size(block));
  std::free(block);
}
void operator delete(void* block, size_t) noexcept { operator delete(block); }

namespace mstrain {
namespace {

// Bytes that `f` needs at its peak.
template <class F>
int64_t peak_of(F&& f) {
  const int64_t before = live_bytes;
  peak_bytes = before;
  f();
  return peak_bytes - before;
}

std::string error_of(std::string_view text) {
  try {
    parse_graph(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// A program with one node that carries `attr`.
GraphPtr with_attribute(const Attr& attr) {
  static const OpDef& op = *find_op("identity");
  auto graph = std::make_shared<Graph>();
  const Value x = graph->add_input({Dtype::kF32, {2}});
  const NodeId node = graph->add(op, {x}, {{"tag", int64_t{1}}, {"value", attr}}, {graph->type(x)});
  graph->set_outputs({{node, 0}});
  return graph;
}

TEST(GraphText, IsReadable) {
  const GraphPtr graph = program_of({{Dtype::kF32, {8, 128}}}, [](std::span<const Tensor> in) {
    const NameScope scope("h.3");
    const Tensors parts = split(in[0], {64, 64}, 1);
    return Tensors{parts[0] * parts[1], parts[1]};
  });
  EXPECT_EQ(to_text(*graph),
            "graph {\n"
            "  %0 = input() : f32[8, 128]\n"
            "  %1:2 = split(%0) {axis=1, sizes=[64, 64]} : f32[8, 64], f32[8, 64]  @\"h.3\"\n"
            "  %2 = mul(%1.0, %1.1) : f32[8, 64]  @\"h.3\"\n"
            "  return %2, %1.1\n"
            "}\n");
}

TEST(GraphText, SaysThePartOfTheStepBeforeTheScope) {
  const std::string text =
      "graph {\n"
      "  %0 = input() : f32[4]\n"
      "  %1 = exp(%0) : f32[4]  @backward\n"
      "  %2 = neg(%1) : f32[4]  @backward \"h.3\"\n"
      "  %3 = abs(%2) : f32[4]  @update \"optimizer\"\n"
      "  %4 = abs(%3) : f32[4]  @\"backward\"\n"
      "  return %4\n"
      "}\n";
  const GraphPtr graph = parse_graph(text);
  EXPECT_EQ(to_text(*graph), text);
  EXPECT_EQ(graph->node(1).place.part, StepPart::kBackward);
  EXPECT_EQ(graph->node(3).place.part, StepPart::kUpdate);
  EXPECT_EQ(graph->node(4).place.part, StepPart::kForward);
  EXPECT_THROW(
      parse_graph("graph { %0 = input() : f32[4] %1 = exp(%0) : f32[4] @sideward return %1 }"),
      Error);
}

TEST(GraphText, ParsesBackToTheSameProgram) {
  const GraphPtr graph = sample_program();
  const std::string text = to_text(*graph);
  const GraphPtr parsed = parse_graph(text);
  EXPECT_TRUE(*parsed == *graph) << text;
  EXPECT_EQ(parsed->hash(), graph->hash());
  EXPECT_EQ(to_text(*parsed), text);
}

TEST(GraphText, RandomProgramsParseBackToTheSameHash) {
  Rng rng(20240);
  for (int i = 0; i < 60; ++i) {
    const GraphPtr graph = random_program(rng, static_cast<int>(rng.between(0, 40)));
    const std::string text = to_text(*graph);
    const GraphPtr parsed = parse_graph(text);
    ASSERT_TRUE(*parsed == *graph) << text;
    ASSERT_EQ(parsed->hash(), graph->hash()) << text;
  }
}

TEST(GraphText, CarriesEveryKindOfAttributeExactly) {
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<Attr> attrs{true,
                          false,
                          int64_t{0},
                          std::numeric_limits<int64_t>::min(),
                          Dtype::kBF16,
                          Dtype::kBool,
                          Shape{},
                          Shape{-3, 0, 7},
                          std::string(),
                          std::string("a \"b\" \\ \n\t\x01 é #"),
                          sample_program()};
  for (const double x : {0.0, -0.0, 1.0, 0.1, -1e-300, 1e20, 5e-324, 1.7976931348623157e308,
                         infinity, -infinity, std::bit_cast<double>(uint64_t{0x7ff8000000000000}),
                         std::bit_cast<double>(uint64_t{0xfff8000000000001})}) {
    attrs.emplace_back(x);
  }
  for (const Attr& attr : attrs) {
    const GraphPtr graph = with_attribute(attr);
    const std::string text = to_text(*graph);
    EXPECT_TRUE(*parse_graph(text) == *graph) << text;
  }
}

TEST(GraphText, AllowsCommentsAndAnyLayout) {
  const GraphPtr graph =
      parse_graph("graph{# a program\n%7=input():f32[ 2 ] %9 = neg ( %7 )\n : f32[2] return %9}");
  EXPECT_EQ(to_text(*graph),
            "graph {\n  %0 = input() : f32[2]\n  %1 = neg(%0) : f32[2]\n  return %1\n}\n");
}

TEST(GraphText, ErrorsNameLineAndColumn) {
  EXPECT_EQ(error_of(""), "1:1: the text ends where 'graph' is expected");
  EXPECT_EQ(error_of("graph {\n  %0 = input() : f32[2]\n  %1 = transpos(%0) : f32[2]\n"),
            "3:8: unknown operation transpos; did you mean transpose?");
  EXPECT_EQ(error_of("graph {\n  %0 = neg(%1) : f32[2]\n  return %0\n}"),
            "2:13: %1 is not defined above");
  EXPECT_EQ(error_of("graph {\n  %0 = input() : f32[2]\n  %1 = neg(%0) : f32[3]\n  return %1\n}"),
            "3:4: neg: the results are f32[2]");
  EXPECT_EQ(error_of("graph {\n  %0 = input() : f31[2]\n"), "2:18: unknown dtype f31");
  EXPECT_EQ(error_of("graph {\n  %0 = input() : f32[-1]\n"), "2:22: a dim out of range");
  EXPECT_EQ(error_of("graph {\n  %0 = input() : f32[1,2,3,4,5,6,7,8,9,10,11]\n"),
            "2:43: too many dims");
  EXPECT_EQ(error_of("graph {\n  %0 = input() : f32[99999999, 99999999]\n"),
            "2:18: a tensor of more than 2^48 elements");
  EXPECT_EQ(error_of("graph { return } x"), "1:18: something follows the program");
  EXPECT_EQ(error_of("graph {\n %0 = input() : f32[]\n %0 = input() : f32[]"),
            "3:3: %0 is defined twice");
  EXPECT_EQ(error_of("graph {\n %0 = input() : f32[]\n return %0.1 }"),
            "3:10: %0 has 1 results, not a result 1");
  EXPECT_EQ(error_of("graph { %0 = input() : f32[]\n %1 = transpose(%0) {axes=5} : f32[] return }"),
            "2:3: transpose: attribute axes is of another kind");
  EXPECT_EQ(error_of("graph { %0 = full() {shape=[], shape=[]} : f32[] return }"),
            "1:32: attribute shape is given twice");
  EXPECT_EQ(error_of("graph { %0 = full() {value=99999999999999999999} : f32[] return }"),
            "1:28: '99999999999999999999' is no number of 64 bits");
  EXPECT_EQ(error_of("graph { %0 = full() {a=\"\\q\"} : f32[] return }"),
            "1:26: an unknown escape");
  EXPECT_EQ(error_of("graph { %0 = full() {a=\"b"), "1:25: a text that does not end");
}

TEST(GraphText, NestingIsBounded) {
  std::string text;
  for (int i = 0; i < 100000; ++i) {
    text += "graph { %0 = full() {a=";
  }
  std::string error;
  const int64_t bytes = peak_of([&] { error = error_of(text); });
  EXPECT_EQ(error, "1:760: programs are nested deeper than 32");
  EXPECT_LT(bytes, 1 << 20);
}

TEST(GraphText, MemoryIsProportionalToTheText) {
  std::string text = "graph {\n";
  for (int i = 0; i < 20000; ++i) {
    text += fmt::format("%{}=input():u8[]", i);
  }
  GraphPtr graph;
  const int64_t bytes = peak_of([&] { graph = parse_graph(text + "return}"); });
  EXPECT_EQ(graph->size(), 20000U);
  EXPECT_LT(bytes, 128 * static_cast<int64_t>(text.size()));
}

// One random change of a text: a byte, or a piece taken away, repeated, or copied from elsewhere.
std::string mutated(std::string text, Rng& rng) {
  const size_t at = rng.below(text.size());
  const size_t length = std::min<size_t>(rng.below(12) + 1, text.size() - at);
  switch (rng.below(5)) {
    case 0: text[at] = static_cast<char>(rng.below(256)); break;
    case 1: text.erase(at, length); break;
    case 2: text.insert(at, text.substr(at, length)); break;
    case 3: text.insert(at, text.substr(rng.below(text.size()), length)); break;
    default: text[at] = "%{}[]().,:=\"-0123456789einfg"[rng.below(28)];
  }
  return text;
}

TEST(GraphText, DamagedTextIsAnErrorOrAnotherValidProgram) {
  Rng rng(77);
  const std::string texts[] = {to_text(*sample_program()), to_text(*random_program(rng, 12))};
  int valid = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string text = texts[i % 2];
    for (uint64_t changes = rng.below(3) + 1; changes > 0; --changes) {
      text = mutated(text, rng);
    }
    try {
      GraphPtr graph;
      const int64_t bytes = peak_of([&] { graph = parse_graph(text); });
      ASSERT_LE(bytes, 65536 + 256 * static_cast<int64_t>(text.size())) << text;
      ASSERT_TRUE(*parse_graph(to_text(*graph)) == *graph) << text;
      ++valid;
    } catch (const Error& error) {
      ASSERT_TRUE(error.what()[0] >= '1' && error.what()[0] <= '9') << error.what();
    }
  }
  EXPECT_GT(valid, 0);
}

}  // namespace
}  // namespace mstrain
