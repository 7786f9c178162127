// Many kernels as one launch: each has as many blocks of it as it would have of its own. What they are is printed as functions, once for
// all members that are alike; which member a block belongs to, and where its pointers stand, is found in a table.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <sstream>

#include "core/backends/cuda/text.h"
#include "core/ops/together.h"

namespace mstrain::cuda {
namespace {

// A member of the body as a request of its own, and where its operands are among those of all.
struct Member {
  const Node* node;
  std::vector<ViewType> inputs, outputs;
  std::vector<size_t> places;  // of its inputs, then of its outputs
  const TextEntry* entry = nullptr;

  KernelRequest request() const { return {*node->op, node->attrs, inputs, outputs}; }
};

std::vector<Member> members_of(const KernelRequest& request) {
  const Graph& body = *request.attrs.graph("body");
  std::map<Value, size_t> place_of;
  for (const Value& value : body.inputs()) {
    place_of.emplace(value, place_of.size());
  }
  std::vector<Member> result;
  size_t output = 0;
  for (NodeId id = 0; id < body.size(); ++id) {
    const Node& node = body.node(id);
    if (node.op == &kInputOp) {
      continue;
    }
    Member member{&node, {}, {}, {}};
    for (const Value& value : node.inputs) {
      member.inputs.push_back(request.inputs[place_of.at(value)]);
      member.places.push_back(place_of.at(value));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      member.outputs.push_back(request.outputs[output]);
      member.places.push_back(request.inputs.size() + output++);
    }
    const TextEntry* const entry = entry_for(member.request(), "");
    member.entry = entry != nullptr && entry->joins ? entry : nullptr;
    result.push_back(std::move(member));
  }
  return result;
}

// The parts of a text: what it includes, and the bodies of its kernels by their names.
struct Parts {
  std::vector<std::string> includes;
  std::map<std::string, std::string> bodies;
};
Parts parts_of(const std::string& text) {
  Parts parts;
  std::istringstream lines(text);
  std::string name;  // of the kernel that the line belongs to
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#include")) {
      parts.includes.push_back(line);
    } else if (line.starts_with("extern \"C\" __global__")) {
      const size_t begin = line.find(") ") + 2;
      name = line.substr(begin, line.find('(', begin) - begin);
    } else if (line == "}") {
      name.clear();
    } else if (!name.empty()) {
      parts.bodies[name] += line + "\n";
    }
  }
  return parts;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// A launch of a member.
struct Piece {
  size_t function;
  int64_t blocks;
  std::vector<Operand> operands;
};

class Joined {
 public:
  explicit Joined(const KernelRequest& request)
      : request_(request), operands_(request.inputs.size() + request.outputs.size()) {}

  KernelText print() {
    const std::vector<Member> members = members_of(request_);
    std::vector<int> readers(request_.inputs.size(), 0);
    for (const Member& member : members) {
      for (size_t i = 0; i < member.inputs.size(); ++i) {
        ++readers[member.places[i]];
      }
    }
    for (const Member& member : members) {
      add(member, readers);
    }
    for (const auto& [kind, pieces] : launches_) {
      print_kernel(kind.second, pieces);
    }
    std::string all;
    for (const std::string& include : includes_) {
      all += include + "\n";
    }
    all += "namespace mstrain::cuda {\n// Where a member's pointers stand.\n";
    all += "struct @_Operands {\n  void* const* at;\n};\n";
    result_.text = all + functions_text_ + kernels_text_ + "}  // namespace mstrain::cuda\n";
    return std::move(result_);
  }

 private:
  void add(const Member& member, const std::vector<int>& readers) {
    const KernelText text = member.entry->print(member.request());
    const Parts parts = parts_of(text.text);
    for (const std::string& include : parts.includes) {
      if (std::ranges::find(includes_, include) == includes_.end()) {
        includes_.push_back(include);
      }
    }
    const size_t inputs = member.inputs.size();
    // Over what another member reads nothing may lie: which of them is first is not known.
    for (const auto& [output, input] : text.in_place) {
      const size_t from = member.places[static_cast<size_t>(input)];
      if (readers[from] == 1) {
        const size_t to = member.places[inputs + static_cast<size_t>(output)];
        result_.in_place.emplace_back(static_cast<int>(to - request_.inputs.size()),
                                      static_cast<int>(from));
      }
    }
    std::vector<Operand> operands;
    for (size_t place : member.places) {
      operands.push_back({place});
    }
    operands.push_back({operands_, result_.workspace_bytes});
    operands.push_back({operands_ + 1});
    operands.push_back({operands_ + 2, static_cast<int64_t>(text.number)});  // that of all is 0
    result_.workspace_bytes += ceil_div(text.workspace_bytes, 64) * 64;
    for (size_t phase = 0; phase < text.launches.size(); ++phase) {
      const KernelLaunch& launch = text.launches[phase];
      launches_[{phase, launch.threads}].push_back(
          {function_of(parts.bodies.at(launch.name)), launch.blocks, operands});
    }
  }

  size_t function_of(const std::string& body) {
    const auto [known, fresh] = functions_.try_emplace(body, functions_.size());
    if (fresh) {
      functions_text_ += fmt::format(
          "void @_f{}(const @_Operands p, [[maybe_unused]] const unsigned own_block, "
          "[[maybe_unused]] const unsigned own_blocks) {{\n{}}}\n",
          known->second,
          replaced(replaced(body, "blockIdx.x", "own_block"), "gridDim.x", "own_blocks"));
    }
    return known->second;
  }

  // One kernel for all pieces of so many threads, launched for as many at a time as their pointers allow: the last pointer is the
  // number of the launch, which says where its pieces begin in the tables.
  void print_kernel(int threads, std::span<const Piece> pieces) {
    const std::string name = fmt::format("@_{}", kernels_++);
    std::vector<int64_t> starts;  // of pieces, in blocks of their launch, and where the launch ends
    std::vector<size_t> begins, bases, functions, all_functions;
    size_t most = 0;
    std::vector<KernelLaunch> launches;
    for (size_t at = 0; at < pieces.size();) {
      KernelLaunch launch{name, 0, threads};
      begins.push_back(starts.size());
      for (;
           at < pieces.size() && launch.operands.size() + pieces[at].operands.size() < kMostJoined;
           ++at) {
        const Piece& piece = pieces[at];
        starts.push_back(launch.blocks);
        bases.push_back(launch.operands.size());
        functions.push_back(piece.function);
        launch.blocks += piece.blocks;
        launch.operands.insert(launch.operands.end(), piece.operands.begin(), piece.operands.end());
      }
      starts.push_back(launch.blocks);
      bases.push_back(0);
      functions.push_back(0);
      most = std::max(most, launch.operands.size());
      launches.push_back(std::move(launch));
    }
    begins.push_back(starts.size());
    for (size_t i = 0; i < launches.size(); ++i) {
      launches[i].operands.resize(most, {operands_ + 2, 0});
      launches[i].operands.push_back({operands_ + 2, static_cast<int64_t>(i)});
      result_.launches.push_back(std::move(launches[i]));
    }
    const auto table = [&](const char* type, const char* of, const auto& numbers) {
      kernels_text_ += fmt::format("MSTRAIN_CONSTANT {} {}_{}[] = {{{}}};\n", type, name, of,
                                   fmt::join(numbers, ", "));
    };
    table("unsigned", "starts", starts);
    table("short", "begins", begins);
    table("short", "bases", bases);
    table("short", "functions", functions);
    kernels_text_ += fmt::format("struct {}_Pointers {{\n  void* at[{}];\n}};\n", name, most + 1);
    kernels_text_ += fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({0}) "
        "{1}(const MSTRAIN_WHERE_IT_IS {1}_Pointers all) {{\n"
        "  const unsigned launch = static_cast<unsigned>(number_at(all.at[{2}]));\n"
        "  unsigned member = {1}_begins[launch], end = {1}_begins[launch + 1] - 1;\n"
        "  while (end - member > 1) {{\n"
        "    const unsigned middle = (member + end) / 2;\n"
        "    if ({1}_starts[middle] <= blockIdx.x) {{ member = middle; }} else {{ end = middle; "
        "}}\n"
        "  }}\n"
        "  const unsigned block = blockIdx.x - {1}_starts[member];\n"
        "  const unsigned blocks = {1}_starts[member + 1] - {1}_starts[member];\n"
        "  const @_Operands p{{all.at + {1}_bases[member]}};\n"
        "  switch ({1}_functions[member]) {{\n",
        threads, name, most);
    for (const Piece& piece : pieces) {
      all_functions.push_back(piece.function);
    }
    std::ranges::sort(all_functions);
    const auto repeated = std::ranges::unique(all_functions);
    all_functions.erase(repeated.begin(), repeated.end());
    for (size_t function : all_functions) {
      kernels_text_ += fmt::format("    case {0}: @_f{0}(p, block, blocks); break;\n", function);
    }
    kernels_text_ += "  }\n}\n";
  }

  const KernelRequest& request_;
  size_t operands_;
  int kernels_ = 0;
  KernelText result_;
  std::vector<std::string> includes_;
  std::map<std::string, size_t> functions_;
  std::string functions_text_, kernels_text_;
  std::map<std::pair<size_t, int>, std::vector<Piece>> launches_;  // by phase and threads
};

bool has_together(const KernelRequest& request) {
  return std::ranges::all_of(members_of(request),
                             [](const Member& member) { return member.entry != nullptr; });
}

KernelText print_together(const KernelRequest& request) { return Joined(request).print(); }

}  // namespace

void add_together_text(std::vector<TextEntry>& entries) {
  entries.push_back({.op = together_op().name,
                     .print = print_together,
                     .supports = has_together,
                     .strided_inputs = true,
                     .splits = true});
}

}  // namespace mstrain::cuda
