// Attention of bf16 alone on a card, forward and backward. Prints a line of JSON for each form: milliseconds, and TFLOP/s of the
// products that attention is defined by (4 b h t² d forward, half of them where it is causal; 2.5 times as many backward).
//
//   attention_on_gpu [--keep FOLDER] B,T,H,D[,KEY_HEADS[,full]] ...
//
// --keep writes what it computed for the first sequence: FOLDER/T_D_{q,k,v,g,out,dq,dk,dv}, bf16.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <sstream>

#include "benchmarks/gpu_timing.h"
#include "benchmarks/run_main.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/paths.h"

namespace mstrain {
namespace {

struct Form {
  int64_t b = 0, t = 0, h = 0, d = 0, key_heads = 0;
  bool causal = true;
};

Form form_of(const std::string& text) {
  std::stringstream words(text);
  std::vector<int64_t> numbers;
  Form form;
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "full") {
      form.causal = false;
    } else {
      numbers.push_back(std::stoll(word));
    }
  }
  check(numbers.size() == 4 || numbers.size() == 5, "{}: B,T,H,D[,KEY_HEADS[,full]] was expected",
        text);
  form.b = numbers[0];
  form.t = numbers[1];
  form.h = numbers[2];
  form.d = numbers[3];
  form.key_heads = numbers.back();
  if (numbers.size() == 4) {
    form.key_heads = form.h;
  }
  return form;
}

class Race {
 public:
  explicit Race(const Form& form) : form_(form) {
    const TensorType q{Dtype::kBF16, {form.b, form.t, form.h, form.d}};
    const TensorType k{Dtype::kBF16, {form.b, form.t, form.key_heads, form.d}};
    const TensorType lse{Dtype::kF32, {form.b, form.h, form.t}};
    const Attrs attrs{{"causal", form.causal},
                      {"scale", 1 / std::sqrt(static_cast<double>(form.d))}};
    forward_ = std::make_unique<gpu::Operation>("attention", Types{q, k, k}, attrs);
    backward_ =
        std::make_unique<gpu::Operation>("attention_grad", Types{q, q, k, k, q, lse}, attrs);
  }

  // The result and its logsumexp are the backward pass's last two inputs.
  void run() {
    for (size_t i = 0; i < 4; ++i) {
      const gpu::Memory& to = backward_->in[i];
      const std::vector<uint16_t> values =
          gpu::random_bf16(to.bytes() / 2, static_cast<uint32_t>(i));
      to.write(values.data());
      if (i > 0) {
        forward_->in[i - 1].write(values.data());
      }
    }
    const double forward = gpu::median_milliseconds([&] { forward_->launch(); });
    for (size_t i = 0; i < 2; ++i) {
      backward_->in[4 + i].write(forward_->out[i].read().data());
    }
    const double backward = gpu::median_milliseconds([&] { backward_->launch(); });
    const auto size = [](int64_t n) { return static_cast<double>(n); };
    const double flops = 4e-9 * size(form_.b * form_.h) * size(form_.t) * size(form_.t) *
                         size(form_.d) * (form_.causal ? 0.5 : 1);
    fmt::print(
        "{{\"b\": {}, \"t\": {}, \"h\": {}, \"d\": {}, \"key_heads\": {}, \"causal\": {}, "
        "\"forward_ms\": {:.4f}, \"backward_ms\": {:.4f}, \"forward_tflops\": {:.1f}, "
        "\"backward_tflops\": {:.1f}}}\n",
        form_.b, form_.t, form_.h, form_.d, form_.key_heads, form_.causal, forward, backward,
        flops / forward, 2.5 * flops / backward);
    std::fflush(stdout);
  }

  void keep(const std::string& folder) const {
    const auto write = [&](const char* name, const gpu::Memory& memory) {
      const std::vector<std::byte> all = memory.read();
      write_file_atomic(real_files(),
                        join_path(folder, fmt::format("{}_{}_{}", form_.t, form_.d, name)),
                        std::string(reinterpret_cast<const char*>(all.data()),
                                    all.size() / static_cast<size_t>(form_.b)));
    };
    const auto& in = backward_->in;
    const auto& out = backward_->out;
    write("g", in[0]);
    write("q", in[1]);
    write("k", in[2]);
    write("v", in[3]);
    write("out", in[4]);
    write("dq", out[0]);
    write("dk", out[1]);
    write("dv", out[2]);
  }

 private:
  Form form_;
  std::unique_ptr<gpu::Operation> forward_, backward_;
};

int run(int argc, char** argv) {
  const std::string missing = backend_named("cuda")->missing();
  check(missing.empty(), "{}", missing);
  std::string folder;
  std::vector<std::unique_ptr<Race>>
      races;  // prepared together, so that they are compiled together
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--keep") {
      check(++i < argc, "--keep: a folder was expected");
      folder = argv[i];
      continue;
    }
    races.push_back(std::make_unique<Race>(form_of(word)));
  }
  for (auto& race : races) {
    race->run();
    if (!folder.empty()) {
      race->keep(folder);
    }
    race.reset();
  }
  return 0;
}

}  // namespace
}  // namespace mstrain

int main(int argc, char** argv) { return mstrain::run_main(mstrain::run, argc, argv); }
