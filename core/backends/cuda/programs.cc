#include "core/backends/cuda/programs.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "core/backends/cuda/compiler.h"
#include "core/backends/cuda/device.h"
#include "core/backends/cuda/kept_files.h"
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

}  // namespace

CardKernel::CardKernel(KernelText text)
    : workspace_bytes_(text.workspace_bytes), in_place_(text.in_place), number_(text.number) {
  const KernelText own = named(std::move(text));
  launches_ = own.launches;
  if (!launches_.empty()) {
    program_ = programs().add(launches_[0].name, own);
  }
}

CardKernel::CardKernel(const KernelText& text, const KernelRequest& request) : CardKernel(text) {
  const bool joins = text.joins && text.launches.size() == 1 && text.workspace_bytes == 0 &&
                     !text.launches[0].shares;
  for (size_t i = 0; joins && i < request.inputs.size(); ++i) {
    inputs_.push_back(reach_of(request.inputs[i]));
  }
  for (size_t i = 0; joins && i < request.outputs.size(); ++i) {
    outputs_.push_back(reach_of(request.outputs[i]));
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
  CardLaunch launch;
  for (const auto& list : {inputs, outputs}) {
    launch.pointers.insert(launch.pointers.end(), list.begin(), list.end());
  }
  launch.pointers.insert(launch.pointers.end(), {workspace, report_address(), nullptr});
  std::memcpy(&launch.pointers.back(), &number_, sizeof(number_));
  const auto touch = [&](std::span<void* const> addresses, const std::vector<Reach>& reaches,
                         bool written) {
    for (size_t i = 0; i < reaches.size(); ++i) {
      const auto* const at = static_cast<const std::byte*>(addresses[i]);
      launch.touched.push_back({at + reaches[i].first, at + reaches[i].end, written});
    }
  };
  if (is_captured(queue)) {
    touch(inputs, inputs_, false);
    touch(outputs, outputs_, true);
  }
  for (size_t i = 0; i < launches_.size(); ++i) {
    const KernelLaunch& it = launches_[i];
    const int64_t blocks =
        it.shares ? std::min<int64_t>(it.blocks, chosen_facts()->processors) : it.blocks;
    launch.function = program_->functions[i];
    launch.blocks = static_cast<unsigned>(blocks);
    launch.threads = static_cast<unsigned>(it.threads);
    launch.shared_bytes = static_cast<unsigned>(it.shared_bytes);
    give(queue, launch);
  }
}

CardKernel dense_copy(const ViewType& view) {
  const ViewType to = ViewType::dense(view.type);
  const Attrs none;
  const OpDef& copy = *find_op("copy");
  const TextEntry& entry = *std::ranges::find(text_entries(), copy.name, &TextEntry::op);
  return CardKernel(entry.print({copy, none, std::span(&view, 1), std::span(&to, 1)}));
}

}  // namespace mstrain::cuda
