// dot_general: f32 and bf16 through oneDNN, f16 (and bf16 where the processor lacks it) as f32, f64 through Eigen, integers
// by plain loops. Operands that no library takes as they lie are made dense first. Epilogues go into the library's product
// as far as it takes them; the others follow as elementwise kernels over the result.
#include <cstring>
#include <utility>

#include "core/backends/cpu/epilogues.h"
#include "core/backends/cpu/product.h"

namespace mstrain::cpu {
namespace {

using Kind = Epilogue::Kind;

int64_t padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Memory that a kernel's parts take from its workspace.
class Reserve {
 public:
  int64_t take(int64_t bytes) {
    const int64_t offset = bytes_;
    bytes_ += padded(bytes);
    return offset;
  }
  // Of what takes turns.
  void share(int64_t bytes) { shared_ = std::max(shared_, bytes); }
  int64_t shared() { return take(std::exchange(shared_, 0)); }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
  int64_t shared_ = 0;
};

// An input as the product reads it: as it is given, or a dense copy at `offset` of the workspace.
struct Operand {
  size_t input = 0;
  Kernel convert;
  int64_t offset = -1;

  void* address(const KernelMemory& memory) const {
    return offset < 0 ? memory.inputs[input] : static_cast<std::byte*>(memory.workspace) + offset;
  }
};

Kernel converted(const ViewType& view, Dtype dtype, int threads) {
  return view.type.dtype == dtype ? copy_kernel(view, threads) : cast_kernel(view, dtype, threads);
}

// The view with the dims `order` of `dims`, outermost first; others have size 1 or are repeated.
ViewType in_order(const ViewType& view, const std::string& dims, const std::string& order) {
  ViewType result{{view.type.dtype, {}}, {}};
  for (char letter : order) {
    const auto at = static_cast<int>(dims.find(letter));
    result.type.shape.push_back(view.type.shape[at]);
    result.strides.push_back(view.strides[at]);
  }
  return result;
}

class DotKernel {
 public:
  // Computes in `dtype`, the operands' own or f32 for those of 16 bits.
  DotKernel(const KernelRequest& request, Dtype dtype)
      : request_(request),
        dims_(dot_dims(request.attrs)),
        epilogues_(epilogues_of(request.attrs)),
        given_(request.inputs[0].type.dtype),
        dtype_(dtype),
        out_(request.outputs[0]),
        made_(dtype == Dtype::kBF16 ? out_.type.dtype : dtype),
        layout_(layout_of(dims_, request.inputs[0], request.inputs[1], out_.type.shape,
                          {given_ != dtype, given_ != dtype})) {
    layout_.product.dtype = dtype;
    layout_.product.result = made_;
    layout_.product.batch_invariant = request.batch_invariant;
  }

  // Without a run function where the library has no fast path for `dtype`.
  Kernel make() {
    Kernel product;
    size_t joined = most_joined();
    for (;; --joined) {
      product = make_product(joined);
      if (product.run || joined == 0) {
        break;
      }
    }
    return product.run ? around(std::move(product), joined) : product;
  }

 private:
  bool is_direct() const { return made_ == out_.type.dtype && !layout_.result; }

  // How many epilogues the library's product may make.
  size_t most_joined() const {
    if ((dtype_ != Dtype::kF32 && dtype_ != Dtype::kBF16) || layout_.result) {
      return 0;
    }
    // Programs differ in what they join. Bits do not where a sum is one part, which is added to one number or none.
    const bool invariant = layout_.product.batch_invariant && dtype_ == Dtype::kF32;
    if (invariant && packed_depth(layout_.product.k) < layout_.product.k) {
      return 0;
    }
    bool adds = false;
    for (size_t i = 0; i < epilogues_.size(); ++i) {
      const Kind kind = epilogues_[i].kind;
      if ((kind == Kind::kBias && (i > 0 || !is_of_columns(epilogues_[i]))) ||
          (kind == Kind::kAdd && (adds || (invariant && i > 0)))) {
        return i;
      }
      adds = adds || kind == Kind::kAdd;
    }
    return epilogues_.size();
  }

  // Whether a bias has an element for each column of the product.
  bool is_of_columns(const Epilogue& bias) const {
    const Shape& shape = request_.inputs[bias.input].type.shape;
    std::string letters;
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape[i] != 1) {
        letters.push_back(dims_.out[dims_.out.size() - static_cast<size_t>(shape.rank() - i)]);
      }
    }
    return letters == layout_.columns;
  }

  Kernel make_product(size_t joined) const {
    Product p = layout_.product;
    p.bias = joined > 0 && epilogues_[0].kind == Kind::kBias;
    p.after.assign(epilogues_.begin() + (p.bias ? 1 : 0),
                   epilogues_.begin() + static_cast<int64_t>(joined));
    if (dtype_ == Dtype::kF32 || dtype_ == Dtype::kBF16) {
      const size_t b = layout_.swapped ? 0 : 1;
      const bool b_is_kept = (request_.kept >> b & 1) != 0 && !layout_.copied[b];
      return onednn_product(p, request_.threads, b_is_kept);
    }
    return dtype_ == Dtype::kF64 ? eigen_product(p, request_.threads)
                                 : integer_product(p, request_.threads);
  }

  Operand operand(size_t input, Reserve& reserve) const {
    Operand result{input, {}, -1};
    if (const auto& order = layout_.copied[input]) {
      const ViewType view =
          in_order(request_.inputs[input], input == 0 ? dims_.a : dims_.b, *order);
      result.convert = converted(view, dtype_, request_.threads);
      result.offset = reserve.take(view.type.elements() * size_of(dtype_));
      reserve.share(result.convert.workspace_bytes);
    }
    return result;
  }

  Operand bias(size_t input, Reserve& reserve) const {
    Operand result{input, {}, -1};
    const ViewType& view = request_.inputs[input];
    if (view.type.dtype != made_ || !view.contiguous()) {
      result.convert = converted(view, made_, request_.threads);
      result.offset = reserve.take(view.type.elements() * size_of(made_));
      reserve.share(result.convert.workspace_bytes);
    }
    return result;
  }

  // The result's way from where the product has made it.
  Kernel restored() const {
    if (!layout_.result) {
      return cast_kernel(ViewType::dense({made_, out_.type.shape}), out_.type.dtype,
                         request_.threads);
    }
    Shape made;
    for (char letter : *layout_.result) {
      made.push_back(out_.type.shape[static_cast<int>(dims_.out.find(letter))]);
    }
    const Shape steps = contiguous_strides(made);
    ViewType view{{made_, out_.type.shape}, Shape::filled(out_.type.shape.rank(), 0)};
    for (int i = 0; i < made.rank(); ++i) {
      const char letter = (*layout_.result)[static_cast<size_t>(i)];
      view.strides[static_cast<int>(dims_.out.find(letter))] = steps[i];
    }
    return converted(view, out_.type.dtype, request_.threads);
  }

  // The product with its operands, its addend and its result brought to where it wants them, and the epilogues that it has
  // not made.
  Kernel around(Kernel product, size_t joined) const {
    Reserve reserve;
    std::vector<Operand> operands;
    for (size_t i :
         {layout_.swapped ? size_t{1} : size_t{0}, layout_.swapped ? size_t{0} : size_t{1}}) {
      operands.push_back(operand(i, reserve));
    }
    size_t addend = 0;
    for (size_t i = 0; i < joined; ++i) {
      if (epilogues_[i].kind == Kind::kBias) {
        operands.push_back(bias(epilogues_[i].input, reserve));
      } else if (epilogues_[i].kind == Kind::kAdd) {
        addend = epilogues_[i].input;
      }
    }
    if (product.packed.input >= 0) {
      product.packed.input = static_cast<int>(operands[1].input);
    }
    Kernel place_addend;
    if (addend > 0) {
      place_addend = converted(request_.inputs[addend], made_, request_.threads);
      reserve.share(place_addend.workspace_bytes);
    }
    int64_t result = -1;
    Kernel restore;
    if (!is_direct()) {
      result = reserve.take(out_.type.elements() * size_of(made_));
      restore = restored();
      reserve.share(restore.workspace_bytes);
    }
    const EpilogueSteps steps(request_, std::span(epilogues_).subspan(joined));
    reserve.share(steps.workspace_bytes());
    const int64_t scratch = reserve.shared();
    if (reserve.bytes() == 0 && !layout_.swapped && addend == 0 && steps.empty()) {
      return product;
    }
    const int64_t inner = reserve.take(product.workspace_bytes);
    Kernel kernel;
    kernel.workspace_bytes = reserve.bytes();
    kernel.packed = product.packed;
    if (addend > 0 && result < 0) {
      kernel.in_place = {{0, static_cast<int>(addend)}};
    }
    kernel.run = [=](const KernelMemory& memory) {
      std::byte* const base = static_cast<std::byte*>(memory.workspace);
      std::array<void*, 3> inputs{};
      for (size_t i = 0; i < operands.size(); ++i) {
        inputs[i] = operands[i].address(memory);
        if (operands[i].offset >= 0) {
          run_unary(operands[i].convert, memory.inputs[operands[i].input], inputs[i],
                    base + scratch);
        }
      }
      void* made = result < 0 ? memory.outputs[0] : base + result;
      if (addend > 0 && memory.inputs[addend] != made) {
        run_unary(place_addend, memory.inputs[addend], made, base + scratch);
      }
      product.run({std::span(inputs).first(operands.size()), std::span(&made, 1), base + inner,
                   memory.packed});
      if (result >= 0) {
        run_unary(restore, made, memory.outputs[0], base + scratch);
      }
      steps.run(memory, base + scratch);
    };
    return kernel;
  }

  const KernelRequest& request_;
  DotDims dims_;
  std::vector<Epilogue> epilogues_;
  Dtype given_, dtype_;
  ViewType out_;
  Dtype made_;  // in what the product writes its result
  ProductLayout layout_;
};

// Empty sums, and what is after them.
Kernel nothing_to_multiply(const KernelRequest& request) {
  const EpilogueSteps steps(request, epilogues_of(request.attrs));
  const auto bytes = static_cast<size_t>(request.outputs[0].type.bytes());
  return {[bytes, steps](const KernelMemory& memory) {
            std::memset(memory.outputs[0], 0, bytes);
            steps.run(memory, memory.workspace);
          },
          steps.workspace_bytes()};
}

Kernel prepare(const KernelRequest& request) {
  const Dtype dtype = request.inputs[0].type.dtype;
  if (request.outputs[0].type.elements() == 0) {
    return {[](const KernelMemory&) {}};  // what is empty has no address
  }
  if (request.inputs[0].type.elements() == 0) {
    return nothing_to_multiply(request);
  }
  if (dtype != Dtype::kF16) {
    if (Kernel kernel = DotKernel(request, dtype).make(); kernel.run) {
      return kernel;
    }
  }
  Kernel kernel = DotKernel(request, Dtype::kF32).make();
  check(kernel.run != nullptr, "dot_general: no library multiplies {} and {}",
        to_string(request.inputs[0].type), to_string(request.inputs[1].type));
  return kernel;
}

// One result, of epilogues that are elementwise operations of it.
bool supports(const KernelRequest& request) {
  return std::ranges::none_of(epilogues_of(request.attrs), [](const Epilogue& it) {
    return it.kind == Kind::kGradient || it.kind == Kind::kKeep;
  });
}

}  // namespace

void register_dot_general() {
  register_kernel(table(), "dot_general",
                  {.prepare = prepare, .supports = supports, .strided_inputs = true});
}

}  // namespace mstrain::cpu
