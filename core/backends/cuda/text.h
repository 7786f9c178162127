// Kernels as text, whoever compiles it: NVRTC for a card, or the host's compiler for the emulator. docs/cuda.md
//
// A kernel takes Pointers (device/kernel.cuh): inputs, outputs, workspace, where it reports a bad value (Report), and a number.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/kernel.h"

namespace mstrain::cuda {

inline constexpr size_t kMostPointers = 160;
inline constexpr size_t kMostOperands = kMostPointers - 3;  // inputs and outputs

// How a text says the address or number at `place` among its own.
inline std::string pointer_text(size_t place) {
  return "p.at[first + " + std::to_string(place) + "]";
}
// Where its own begin: `count` of them, behind those of the rows of blocks before it; or where it is always alone.
inline std::string first_text(size_t count) {
  return "const int first = static_cast<int>(blockIdx.y) * " + std::to_string(count) + ";";
}
inline constexpr const char* kFirstAlone = "constexpr int first = 0;";

struct KernelLaunch {
  std::string name;  // "@" stands for the text's own
  int64_t blocks = 1;
  int threads = 32;
  int shared_bytes = 0;  // that it asks for beside declarations
  bool shares = false;   // any number of blocks do the work; best as many as the card runs at once
};

struct KernelText {
  std::string text;  // in which "@" stands for its name
  std::vector<KernelLaunch> launches = {};
  int64_t workspace_bytes = 0;
  std::vector<std::pair<int, int>> in_place = {};  // as in Kernel
  // What differs among operations that are alike otherwise, so that they share their code: `parameter` in texts, the last of the
  // pointers by its bits.
  uint64_t number = 0;
  // Whether several runs of it may be one launch: it has one kernel, which keeps to its operands, and finds its pointers behind
  // those of other runs, by its row of the grid (`first`).
  bool joins = false;
};

// The text under the name that its content gives it: "kernel_" and 16 digits.
KernelText named(KernelText text);

// How an operation of one family is printed.
struct TextEntry {
  std::string_view op;
  KernelText (*print)(const KernelRequest&) = nullptr;
  bool (*supports)(const KernelRequest&) = nullptr;  // null: all
  bool strided_inputs = false;
  std::string_view architecture = {};  // that alone; empty: all
};
// Of all operations that have a text; those of one architecture before the others. A request whose outputs have no elements has none.
const std::vector<TextEntry>& text_entries();
// The first that serves the request on that architecture; null: none does.
const TextEntry* entry_for(const KernelRequest& request, std::string_view architecture);

// What a kernel found wrong: written by it where all can see, read by the host when it waits.
struct Report {
  int64_t operation = 0;  // 1 + its place in kReporters; 0: nothing
  int64_t id = 0, position = 0, limit = 0;
};
inline constexpr std::array<std::string_view, 10> kReporters = {
    "gather",  "take_along",    "scatter_add",        "scatter_set", "scatter_add_along",
    "one_hot", "cross_entropy", "cross_entropy_grad", "bag_sum",     "learn_rows"};
std::string message_of(const Report& report);

// The bytes that a view covers, from its address.
struct Reach {
  int64_t first = 0, end = 0;
};
Reach reach_of(const ViewType& view);
// Whether places within all of them are short numbers. Offsets within views may be longer than their elements are many.
bool is_short(std::span<const ViewType> inputs, std::span<const ViewType> outputs);

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The families, each in its file.
void add_move_texts(std::vector<TextEntry>& entries);
void add_index_texts(std::vector<TextEntry>& entries);
void add_reduce_texts(std::vector<TextEntry>& entries);
void add_sort_texts(std::vector<TextEntry>& entries);
void add_random_texts(std::vector<TextEntry>& entries);
void add_float8_texts(std::vector<TextEntry>& entries);
void add_image_texts(std::vector<TextEntry>& entries);
void add_product_texts(std::vector<TextEntry>& entries);
void add_loss_texts(std::vector<TextEntry>& entries);
void add_table_row_texts(std::vector<TextEntry>& entries);
void add_warp_group_attention_texts(std::vector<TextEntry>& entries);
void add_attention_texts(std::vector<TextEntry>& entries);

}  // namespace mstrain::cuda
