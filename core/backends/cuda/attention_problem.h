// What texts of attention have in common: which forms there are, and the struct that says which one is computed.
#pragma once

#include "core/backends/cuda/printer.h"
#include "core/ops/attention_form.h"

namespace mstrain::cuda {

// Those of the forward pass. `q`: its place among the inputs; a gradient's follow the result and its logsumexp.
inline Types attention_types(const KernelRequest& request, size_t q) {
  Types types;
  for (size_t i = q; i < request.inputs.size() - 2 * q; ++i) {
    types.push_back(request.inputs[i].type);
  }
  return types;
}

// Whether attention is computed in tiles.
inline bool has_tiles_of_attention(const KernelRequest& request, size_t q) {
  const Types types = attention_types(request, q);
  const AttentionForm form(request.attrs, types);
  const TensorType &of_q = types[0], &of_v = types[2];
  const int64_t d = of_q.shape[3];
  const bool narrow = of_q.dtype == Dtype::kBF16 || of_q.dtype == Dtype::kF16;
  return narrow && d == of_v.shape[3] && d % 16 == 0 && d <= 128 && of_q.elements() > 0 &&
         types[1].elements() > 0 && of_q.shape[1] < (1 << 24) && types[1].shape[1] < (1 << 24);
}

// Numbers as text that have the bits of `x`.
inline std::string exactly(double x) { return fmt::format("{:a}F", static_cast<float>(x)); }

// A struct that says what is computed, and `beside`, which is what stands beside q, k and v.
class AttentionProblem {
 public:
  AttentionProblem(KernelPrinter& text, const KernelRequest& request, size_t q, size_t out)
      : text_(text),
        request_(request),
        q_(q),
        types_(attention_types(request, q)),
        form_(request.attrs, types_),
        dims_(check_attention(types_, form_, request.attrs)) {
    text_.open("struct @_Problem {{");
    print_dims(out);
    print_beside();
    text_.close();
    text_.line(";");
  }

  const AttentionForm& form() const { return form_; }
  const AttentionDims& dims() const { return dims_; }
  const Shape& shape(size_t input) const { return types_[input].shape; }
  uint64_t site() const {
    return form_.draw == 0 ? 0 : static_cast<uint64_t>(request_.attrs.integer("site"));
  }

  // A kernel that makes delta of a gradient's first input and its last but one, at the start of the workspace. Bytes of that.
  int64_t print_products(size_t out) {
    constexpr int64_t kThreads = 128;
    const int64_t rows = dims_.b * dims_.h * dims_.t, d = dims_.d;
    const int64_t lanes_of_row = d <= 16 ? 2 : d <= 32 ? 4 : d <= 64 ? 8 : 16;
    text_.begin_blocks("_products", ceil_div(rows * lanes_of_row, kThreads), kThreads);
    text_.line(
        "static_assert(kAttentionThreads == {} && AttentionShape<@_Problem>::kLanesOfRow == {});",
        kThreads, lanes_of_row);
    text_.line("AttentionShape<@_Problem>::products(b, in0, in{}, global<float>(workspace));", out);
    text_.end_blocks();
    return rows * 4;
  }

  // Within a kernel.
  void print_beside_of_kernel() {
    const auto operand = [&](size_t place, const char* format) {
      return place == 0 ? fmt::format("global<const {}::Stored>(nullptr)", format)
                        : fmt::format("in{}", q_ + place);
    };
    const std::string own = format_of(types_[0].dtype);
    const size_t keys = form_.segments == 0 ? 0 : form_.segments + 1;
    const size_t offset = form_.draw == 0 ? 0 : form_.draw + 1;
    text_.line(
        "const AttentionBeside<@_Problem> beside{{{}, {}, {}, {}, {}, {}, {}, {}, parameter}};",
        operand(form_.bias, own.c_str()), operand(form_.table, own.c_str()),
        operand(form_.mask, "Bool"), operand(form_.segments, "I32"), operand(keys, "I32"),
        operand(form_.start, "I32"), operand(form_.draw, "U32"), operand(offset, "I32"));
  }

 private:
  void print_dims(size_t out) {
    text_.line("using Format = {};", format_of(types_[0].dtype));
    text_.line("static constexpr int kDim = {};", dims_.d);
    text_.line(
        "static constexpr int64_t kBatch = {}, kQueries = {}, kKeys = {}, kHeads = {}, kGroup = "
        "{};",
        dims_.b, dims_.t, dims_.s, dims_.h, dims_.group());
    text_.line("static constexpr bool kCausal = {};", form_.causal);
    text_.line("static constexpr int64_t kWindow = {};", form_.causal ? form_.window : 0);
    text_.line("static constexpr float kScale = float({});", form_.scale);
    const auto strides = [&](char letter, const ViewType& view) {
      text_.line("static constexpr int64_t k{0}B = {1}, k{0}T = {2}, k{0}H = {3}, k{0}D = {4};",
                 letter, view.strides[0], view.strides[1], view.strides[2], view.strides[3]);
    };
    strides('Q', request_.inputs[q_]);
    strides('K', request_.inputs[q_ + 1]);
    strides('V', request_.inputs[q_ + 2]);
    strides('G', request_.inputs[0]);
    strides('O', out == 0 ? request_.outputs[0] : request_.inputs[out]);
  }

  // Whether an operand is there, with its strides: 0 where all that a dim counts share it.
  void print_operand(const char* flag, const char* name, size_t place, int rank) {
    if (flag != nullptr) {
      text_.line("static constexpr bool {} = {};", flag, place != 0);
    }
    for (int d = 0; d < rank; ++d) {
      const bool steps = place != 0 && types_[place].shape[d] > 1;
      text_.line("static constexpr int64_t k{}{} = {};", name, d,
                 steps ? request_.inputs[q_ + place].strides[d] : 0);
    }
  }
  void print_beside() {
    print_operand("kBiased", "Bias", form_.bias, 4);
    print_operand("kTabled", "Table", form_.table, 3);
    print_operand("kMasked", "Mask", form_.mask, 2);
    print_operand("kSegmented", "QuerySegments", form_.segments, 2);
    print_operand(nullptr, "KeySegments", form_.segments == 0 ? 0 : form_.segments + 1, 2);
    print_operand("kPlaced", "Start", form_.start, 1);
    print_operand("kDropped", "Key", form_.draw, 1);
    print_operand(nullptr, "Offset", form_.draw == 0 ? 0 : form_.draw + 1, 1);
    const Shape none{1, 1, 1, 1};
    const Shape& bias = form_.bias == 0 ? none : types_[form_.bias].shape;
    text_.line("static constexpr int64_t kBiasBatch = {}, kBiasHeads = {};", bias[0], bias[1]);
    const bool drawn = form_.draw != 0;
    const Shape& whole = drawn ? request_.attrs.ints("whole") : none;
    text_.line("static constexpr int64_t kWholeH = {}, kWholeT = {}, kWholeS = {};", whole[1],
               whole[2], whole[3]);
    text_.line("static constexpr float kKeep = {};",
               exactly(drawn ? 1 - request_.attrs.number("rate") : 1));
    print_buckets();
  }
  void print_buckets() {
    const RelativeBuckets buckets = form_.buckets.value_or(RelativeBuckets{0, 0, false});
    text_.line("static constexpr int kBuckets = {}, kTables = {};", buckets.count,
               form_.table == 0 ? 1 : types_[form_.table].shape[0]);
    text_.open("static int bucket_of(int distance) {{");
    text_.line("const int size = {};", buckets.bidirectional ? "distance < 0 ? -distance : distance"
                                                             : "distance < 0 ? -distance : 0");
    text_.line("int bucket = size < {0} ? size : {0};", buckets.exact());
    if (form_.table != 0) {
      const std::vector<int64_t> least = buckets.least_sizes();
      for (auto i = static_cast<size_t>(buckets.exact() + 1); i < least.size(); ++i) {
        text_.line("bucket += size >= {} ? 1 : 0;", least[i]);
      }
    }
    text_.line("return bucket{};", buckets.bidirectional ? fmt::format(" + (distance > 0 ? {} : 0)",
                                                                       buckets.of_direction())
                                                         : "");
    text_.close();
  }

  KernelPrinter& text_;
  const KernelRequest& request_;
  size_t q_;
  Types types_;
  AttentionForm form_;
  AttentionDims dims_;
};

}  // namespace mstrain::cuda
