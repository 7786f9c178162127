#include "core/ops/dot_general.h"
#include "core/ops/samples.h"

namespace mstrain {
namespace {

struct SampleDims {
  const char* dims;
  Shape a, b;
};

const SampleDims kSamples[] = {
    {"a,a->", {5}, {5}},
    {"ab,bc->ac", {3, 4}, {4, 5}},
    {"ab,ac->bc", {17, 9}, {17, 33}},
    {"ab,cb->ac", {6, 9}, {31, 9}},
    {"ab,ca->bc", {4, 3}, {5, 4}},
    {"abcd,abde->abce", {2, 3, 4, 5}, {2, 3, 5, 2}},
    {"abc,adb->acd", {2, 5, 4}, {2, 3, 5}},
    {"ab,bc->ac", {1, 1}, {1, 1}},
    {"ab,bc->ac", {0, 4}, {4, 3}},
    {"ab,bc->ac", {3, 0}, {0, 2}},
    // Projections to heads and from them, and their derivatives.
    {"abc,cdef->abdef", {2, 3, 4}, {4, 3, 2, 5}},
    {"abcd,cde->abe", {2, 3, 2, 4}, {2, 4, 5}},
    {"abc,abde->cde", {2, 3, 4}, {2, 3, 2, 5}},
    {"abc,dec->abde", {2, 3, 4}, {2, 3, 4}},
    {"abc,dce->abde", {2, 3, 4}, {3, 4, 2}},
    {"abcd,aecd->acbe", {2, 3, 2, 4}, {2, 5, 2, 4}},
    {"abcd,adce->acbe", {2, 2, 3, 5}, {2, 5, 3, 4}},
    // Dims that are summed over in two orders, free dims in turns, a batch dim at the end or alone.
    {"abc,cbd->ad", {3, 2, 4}, {4, 2, 5}},
    {"abc,dce->adbe", {2, 3, 4}, {3, 4, 2}},
    {"abc,dc->dab", {2, 3, 4}, {5, 4}},
    {"abc,bdc->adb", {2, 3, 4}, {3, 5, 4}},
    {"ab,ab->ab", {3, 4}, {3, 4}},
    {"ab,ab->a", {3, 4}, {3, 4}},
    {"ab,ba->", {3, 4}, {4, 3}},
    // No dim to sum over; vectors, scalars, dims of size 1.
    {"a,b->ab", {3}, {4}},
    {"ab,b->a", {3, 4}, {4}},
    {"a,ab->b", {3}, {3, 4}},
    {",ab->ba", {}, {3, 2}},
    {",->", {}, {}},
    {"abc,cd->abd", {1, 3, 1}, {1, 2}},
    {"abc,dbc->adb", {3, 1, 2}, {1, 1, 2}},
};

// A sample with epilogues. Signs of `lift` keep what enters relu away from its corner, where no derivative can be compared.
Sample sample(Dtype t, const SampleDims& it, const std::string& epilogue = {}, int bias_rank = 1,
              double lift = 0) {
  Sample result{{{{t, it.a}, -1, 1}, {{t, it.b}, -1, 1}}, {{"dims", std::string(it.dims)}}};
  if (epilogue.empty()) {
    return result;
  }
  const Types types{{t, it.a}, {t, it.b}};
  const Shape out = kDotGeneral.infer(types, result.attrs)[0].shape;
  result.attrs.set("epilogue", epilogue);
  result.attrs.set("scale", 0.25);
  for (const Epilogue& after : epilogues_of(result.attrs)) {
    if (after.kind == Epilogue::Kind::kBias) {
      const Shape last(std::span(out.end() - bias_rank, static_cast<size_t>(bias_rank)));
      result.inputs.push_back({{t, last}, lift - 1, lift + 1});
    } else if (after.input > 0) {
      result.inputs.push_back({{t, out}, -1, 1});
    }
  }
  if (epilogue.find("scale") == std::string::npos) {
    result.attrs = Attrs{{"dims", std::string(it.dims)}, {"epilogue", epilogue}};
  }
  return result;
}

}  // namespace

std::vector<Sample> samples::dot_general(Dtype t) {
  std::vector<Sample> result;
  for (const SampleDims& it : kSamples) {
    result.push_back(sample(t, it));
  }
  const SampleDims matrices{"ab,bc->ac", {7, 5}, {5, 6}};
  const SampleDims transposed{"ba,cb->ac", {5, 7}, {6, 5}};
  const SampleDims heads{"abc,cdef->abdef", {2, 3, 4}, {4, 3, 2, 5}};
  const SampleDims batches{"abcd,abde->abce", {2, 3, 4, 5}, {2, 3, 5, 2}};
  const SampleDims turned{"abc,bdc->adb", {2, 3, 4}, {3, 5, 4}};
  const SampleDims none{"ab,bc->ac", {3, 0}, {0, 2}};
  const SampleDims empty{"ab,bc->ac", {0, 4}, {4, 3}};
  for (const SampleDims& it : {matrices, transposed, heads, batches, turned, none, empty}) {
    for (const char* epilogue : {"bias", "add", "bias add"}) {
      result.push_back(sample(t, it, epilogue));
    }
  }
  result.push_back(sample(t, heads, "bias", 3));
  result.push_back(sample(t, heads, "add bias", 2));
  result.push_back(sample(t, heads, "bias bias add add", 5));
  if (!is_floating(t)) {
    return result;
  }
  for (const char* activation : {"gelu", "gelu_tanh", "silu"}) {
    result.push_back(sample(t, matrices, fmt::format("bias {}", activation)));
    result.push_back(sample(t, batches, fmt::format("{} add", activation)));
    result.push_back(sample(t, none, fmt::format("bias {}", activation)));
  }
  for (const SampleDims& it : {matrices, transposed, heads, batches, turned, none, empty}) {
    result.push_back(sample(t, it, "bias keep gelu_tanh"));
    result.push_back(sample(t, it, "gelu_tanh_grad"));
  }
  const SampleDims wide{"ab,cb->ac", {5, 7}, {16, 7}};  // as libraries want them
  result.push_back(sample(t, wide, "keep gelu_tanh"));
  result.push_back(sample(t, wide, "scale gelu_tanh_grad"));
  result.push_back(sample(t, heads, "keep gelu keep", 3));
  result.push_back(sample(t, heads, "scale gelu_grad add keep", 3));
  result.push_back(sample(t, matrices, "bias relu", 1, 8));
  result.push_back(sample(t, heads, "bias relu add", 3, -8));
  result.push_back(sample(t, matrices, "scale"));
  result.push_back(sample(t, turned, "scale bias silu add", 2));
  result.push_back(sample(t, transposed, "bias scale gelu add gelu_tanh"));
  return result;
}

}  // namespace mstrain
