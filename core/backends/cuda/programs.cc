#include "core/backends/cuda/programs.h"

#include <cstring>
#include <map>
#include <mutex>

#include "core/backends/cuda/compiler.h"
#include "core/backends/cuda/device.h"
#include "core/base/error.h"

namespace mstrain::cuda {

constexpr int kMostSharedBytes = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

struct CardKernel::Program {
  std::string text;
  std::vector<KernelLaunch> launches;
  std::vector<Driver::Handle> functions = {};  // none: not compiled yet
  std::atomic<bool> ready = false;
};

// All texts by their names: equal ones are compiled once, and stay.
class Programs {
 public:
  std::shared_ptr<CardKernel::Program> add(const std::string& name, const KernelText& text) {
    const std::lock_guard lock(mutex_);
    auto& program = programs_[name];
    if (program == nullptr) {
      program = std::make_shared<CardKernel::Program>();
      program->text = text.text;
      program->launches = text.launches;
      pending_.push_back(program);
    }
    return program;
  }

  // Compiles everything that was added: a program's kernels are all known before its first one runs.
  void compile() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> texts;
    for (const auto& program : pending_) {
      texts.push_back(program->text);
    }
    const std::vector<std::string> codes =
        compiled(real_files(), cache_folder(), texts,
                 architecture_of(chosen_facts()->major, chosen_facts()->minor));
    bind_context();
    for (size_t i = 0; i < pending_.size(); ++i) {
      Driver::Handle module = nullptr;
      check_driver(driver().load_module(&module, codes[i].data()), "cuModuleLoadData");
      for (const KernelLaunch& launch : pending_[i]->launches) {
        Driver::Handle& function = pending_[i]->functions.emplace_back();
        check_driver(driver().find_function(&function, module, launch.name.c_str()),
                     "cuModuleGetFunction");
        if (launch.shared_bytes > 0) {
          check_driver(driver().set_attribute(function, kMostSharedBytes, launch.shared_bytes),
                       "cuFuncSetAttribute");
        }
      }
      pending_[i]->ready = true;
    }
    pending_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<CardKernel::Program>> programs_;
  std::vector<std::shared_ptr<CardKernel::Program>> pending_;
};

namespace {

Programs& programs() {
  static Programs* const it = new Programs();
  return *it;
}

struct Pointers {
  void* at[kMostPointers];
};

}  // namespace

CardKernel::CardKernel(KernelText text)
    : workspace_bytes_(text.workspace_bytes), in_place_(text.in_place), number_(text.number) {
  const KernelText own = named(std::move(text));
  launches_ = own.launches;
  if (!launches_.empty()) {
    program_ = programs().add(launches_[0].name, own);
  }
}

void CardKernel::launch(std::span<void* const> inputs, std::span<void* const> outputs,
                        void* workspace, Queue& queue) const {
  if (program_ == nullptr) {
    return;
  }
  if (!program_->ready) {
    programs().compile();
  }
  bind_context();
  Pointers pointers;
  size_t place = 0;
  for (const auto& list : {inputs, outputs}) {
    for (void* const address : list) {
      pointers.at[place++] = address;
    }
  }
  pointers.at[place++] = workspace;
  pointers.at[place++] = report_address();
  std::memcpy(&pointers.at[place], &number_, sizeof(number_));
  void* parameters[] = {&pointers};
  const Driver::Handle stream = stream_of(queue);
  for (size_t i = 0; i < launches_.size(); ++i) {
    const KernelLaunch& launch = launches_[i];
    const int64_t blocks = launch.shares
                               ? std::min<int64_t>(launch.blocks, chosen_facts()->processors)
                               : launch.blocks;
    check_driver(
        driver().launch(program_->functions[i], static_cast<unsigned>(blocks), 1, 1,
                        static_cast<unsigned>(launch.threads), 1, 1,
                        static_cast<unsigned>(launch.shared_bytes), stream, parameters, nullptr),
        "cuLaunchKernel");
  }
}

}  // namespace mstrain::cuda
