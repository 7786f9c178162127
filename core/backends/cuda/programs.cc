#include "core/backends/cuda/programs.h"

#include <cstring>
#include <map>
#include <mutex>

#include "core/backends/cuda/compiler.h"
#include "core/backends/cuda/device.h"
#include "core/backends/cuda/kept_files.h"
#include "core/base/error.h"

namespace mstrain::cuda {

struct CardKernel::Program {
  std::string text;
  std::vector<std::string> names;              // of its kernels
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
      for (const KernelLaunch& launch : text.launches) {
        program->names.push_back(launch.name);
      }
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
    static const std::string architecture = [] {
      const DeviceFacts facts = look_for_devices().devices.at(static_cast<size_t>(chosen_card()));
      return architecture_of(facts.major, facts.minor);
    }();
    const std::vector<std::string> codes =
        compiled(real_files(), cache_folder(), texts, architecture);
    bind_context();
    for (size_t i = 0; i < pending_.size(); ++i) {
      Driver::Handle module = nullptr;
      check_driver(driver().load_module(&module, codes[i].data()), "cuModuleLoadData");
      for (const std::string& name : pending_[i]->names) {
        pending_[i]->functions.emplace_back();
        check_driver(driver().find_function(&pending_[i]->functions.back(), module, name.c_str()),
                     "cuModuleGetFunction");
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
    check_driver(driver().launch(program_->functions[i], static_cast<unsigned>(launches_[i].blocks),
                                 1, 1, static_cast<unsigned>(launches_[i].threads), 1, 1, 0, stream,
                                 parameters, nullptr),
                 "cuLaunchKernel");
  }
}

}  // namespace mstrain::cuda
