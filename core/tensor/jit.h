// Graph mode: jit(f) records f once for each set of argument types, compiles the whole program and runs the plan.
//
//   auto step = jit([&](TrainState s, Batch b) { … return std::pair(s, loss); }, {.donate = {0}});
//   std::tie(state, loss) = step(std::move(state), batch);
//
// Tensors that vary are arguments; anything else that f uses is fixed when it is recorded. Numbers, enumerators and strings
// among the arguments are fixed too: f is recorded again for other ones, so that what changes often is better a tensor.
// Inside another transform a jitted function is simply f. Same numbers as eager mode.
//
// Threads may call one jitted function at once: programs are compiled one after the other, and runs of one program take
// turns. (Inside another transform they call f, as they are.)
//
// A run that throws (an id out of range, no memory) gives no result; a device that runs late throws where a result is read.
// Arguments that were given away with std::move are lost: they were perhaps half overwritten, and nobody can see them any
// more. Whatever else the caller holds keeps its value, also a donated argument of which it kept a copy, and the next run is
// as if the failed one had not been. So a step that must be survivable is given copies, or saved before.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <typeindex>

#include "core/runtime/context.h"
#include "core/tensor/tree.h"

namespace mstrain {

// Wide logits are chunked from a size on.
inline constexpr int64_t kAutoChunks = 0;

struct JitOptions {
  std::vector<int>
      donate;     // arguments whose memory the results may take over; pass them with std::move
  int level = 2;  // 0: operation by operation as in eager mode; 1: simplified; 2: fused as well
  std::string name = "jit";
  std::vector<std::string> rules_off = {};  // rules of fusion that are not used
  int64_t loss_chunks = kAutoChunks;        // see CompileOptions
  bool keeps_results = true;                // see CompileOptions
  bool tells = true;  // a line of the log says what a further program is compiled for
};

// What a compiled program needs, in bytes, before it runs.
struct ProgramMemory {
  int64_t inputs = 0;   // arguments and captured tensors
  int64_t outputs = 0;  // results that do not take over an argument
  int64_t arena = 0;    // everything between, workspace included
  // The most of each kind that lies in the arena at once; they take turns there, so that their sum may exceed it.
  int64_t gradients = 0, saved = 0, transient = 0, workspace = 0;
  int64_t packed = 0;  // of the workspace: packed forms of what a loop does not change
  int64_t host = 0;    // beside all of these, in the host's memory (core/ops/offload.h)
};

struct ProgramCost {
  double flops = 0;
  double bytes = 0;
  int64_t kernels = 0;
  double seconds = 0;     // at least, at the rates that the back end states; 0: it states none
  double link_bytes = 0;  // that stow() and fetch() copy between the device's memory and the host's
};

// What the name of a wait for what was begun earlier starts with.
inline constexpr std::string_view kWaitPrefix = "wait for ";

// One kernel as it ran. The texts live as long as the program.
struct KernelTime {
  std::string_view op, scope;
  StepPart part = StepPart::kForward;
  int64_t begin = 0, end = 0;  // nanoseconds of the steady clock
  double flops = 0, bytes = 0;
  // Of an exchange with other ranks: the axis of the mesh, which part of it this is, and, in what waits for it, when it was done
  // (0: nobody looked).
  enum class Half : uint8_t { kWhole, kBegin, kWait };
  std::string_view axis = {};
  Half half = Half::kWhole;
  int64_t done = 0;
};

// A compiled program.
class Program {
 public:
  virtual ~Program() = default;
  // Inputs as the graph's; `inputs` are released as soon as they are not needed, also where it throws (see above). One call
  // at a time.
  virtual Tensors run(Tensors inputs) = 0;
  virtual ProgramMemory memory() const = 0;
  virtual ProgramCost cost() const = 0;
  // The plan as text: one line a step.
  virtual std::string describe() const = 0;
  // What was fused and what was not, and why, where CompileOptions::explain_fusion asked for it.
  virtual std::string fusion() const = 0;
  // Appends every kernel that runs to `times`, which the caller owns, until called with null.
  virtual void profile(std::vector<KernelTime>* times) = 0;
};

struct CompileOptions {
  int level = 2;
  std::vector<std::string> rules_off = {};  // rules of fusion (core/compile/passes.h) not to use
  bool explain_fusion = false;              // keep what Program::fusion() tells
  std::vector<bool> donated;                // by graph input
  // From level 1 on: in how many chunks of rows the loss of a head and its gradients are computed, so that its logits
  // never exist as a whole. 1: in one.
  int64_t loss_chunks = kAutoChunks;
  // From level 1 on: the most bytes that a loop takes for weights in the layout that the machine's products like best,
  // made once for all rounds; the weights come in the order of the program. None: what the back end says.
  std::optional<int64_t> packed_bytes = {};
  // The memory of results that the caller has dropped serves later runs. False: it is free, and the caller of a program to which such a
  // result is donated is the only one who has it.
  bool keeps_results = true;
  // What forward leaves for backward waits in the host's memory where it has at least so many bytes, on devices that have such
  // memory. None: nothing does.
  std::optional<int64_t> offloaded_bytes = {};
};
using ProgramCompiler = std::unique_ptr<Program> (*)(const Graph& graph,
                                                     const CompileOptions& options);
void install_compiler(ProgramCompiler compiler);
// Compiles for the current context; allocates nothing until it first runs.
std::unique_ptr<Program> compile(const Graph& graph, const CompileOptions& options = {});

// The untyped half of a jitted function: compiled programs by argument types. Threads may use it at once.
class JitCache {
 public:
  explicit JitCache(JitOptions options) : options_(std::move(options)) {}
  class Entry {
   public:
    // One run at a time. Programs that wait for each other, as those of ranks do, are several entries.
    Tensors run(Tensors leaves);
    const void* form() const { return form_.get(); }

   private:
    friend class JitCache;
    std::mutex running_;
    std::unique_ptr<Program> program_;
    Tensors captures_;
    std::shared_ptr<void> form_;  // a result without tensors: how to put the outputs together
  };
  // The arguments of a call but for the tensors' values: what a program is recorded for.
  struct Form {
    std::type_index type;
    std::string paths;    // of the tensors, each ended by '\n'
    std::string statics;  // what is static, a line each: "1.rate = 0.1"
    friend bool operator==(const Form&, const Form&) = default;
  };
  // The program for arguments `leaves`; recorded by `f` on the first call with their types. `f` also gives the form of
  // the results. Lives as long as the cache.
  Entry& find(std::span<const Tensor> leaves, const Form& form, const std::vector<bool>& donated,
              const std::function<Tensors(std::span<const Tensor>, std::shared_ptr<void>&)>& f);
  // Throws where donate names an argument that a call of `arguments` has not.
  void check_donated(int arguments) const;
  // How often something was compiled, and why the last time.
  int64_t compile_count() const;
  std::string last_reason() const;
  const JitOptions& options() const { return options_; }

 private:
  struct Key {
    Form form;
    Types types;
    bool training, batch_invariant;
    const Backend* backend;
    int threads;
    const Device* device;
    const Ranks* ranks;
    friend bool operator==(const Key&, const Key&) = default;
  };
  std::string reason_for(const Key& key) const;
  const JitOptions options_;
  mutable std::mutex finding_;  // guards what follows
  std::deque<std::pair<Key, Entry>> entries_;
  int64_t compile_count_ = 0;
  std::string last_reason_;
};

template <class F>
class Jit {
 public:
  Jit(F f, JitOptions options)
      : f_(std::move(f)), cache_(std::make_shared<JitCache>(std::move(options))) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    using Result = std::decay_t<std::invoke_result_t<const F&, const std::decay_t<Args>&...>>;
    std::tuple<std::decay_t<Args>...> arguments(std::forward<Args>(args)...);
    if (Trace::innermost() != nullptr) {
      return std::apply([&](const auto&... a) -> Result { return f_(a...); }, arguments);
    }
    cache_->check_donated(static_cast<int>(sizeof...(Args)));
    JitCache::Form form{typeid(arguments), {}, {}};
    std::vector<bool> donated;
    Tensors leaves;
    // Leaves are moved out, so that donated ones are held by nobody else.
    int position = 0;
    LeafVisitor visitor(
        LeafVisitor::Access::kWrite,
        [&](const std::string& path, Tensor& leaf) {
          (form.paths += path) += '\n';
          leaves.push_back(std::move(leaf));
          leaf = Tensor();
          donated.push_back(is_donated(position));
        },
        [&](const std::string& path, const std::string& value) {
          form.statics += fmt::format("{} = {}\n", path, value);
        });
    std::apply([&](auto&... a) { ((visitor(std::to_string(position), a), ++position), ...); },
               arguments);

    JitCache::Entry& entry = cache_->find(
        leaves, form, donated, [&](std::span<const Tensor> traced, std::shared_ptr<void>& results) {
          const auto inner = with_leaves(arguments, traced);
          const Result result =
              std::apply([&](const auto&... a) -> Result { return f_(a...); }, inner);
          Tensors flat = flatten_tree(result);
          results = std::make_shared<Result>(with_leaves(result, Tensors(flat.size())));
          return flat;
        });
    return with_leaves(*static_cast<const Result*>(entry.form()), entry.run(std::move(leaves)));
  }

  int64_t compile_count() const { return cache_->compile_count(); }
  std::string last_reason() const { return cache_->last_reason(); }

 private:
  bool is_donated(int position) const {
    const std::vector<int>& donate = cache_->options().donate;
    return std::find(donate.begin(), donate.end(), position) != donate.end();
  }

  F f_;
  std::shared_ptr<JitCache> cache_;
};

template <class F>
Jit<std::decay_t<F>> jit(F&& f, JitOptions options = {}) {
  return Jit<std::decay_t<F>>(std::forward<F>(f), std::move(options));
}

}  // namespace mstrain
