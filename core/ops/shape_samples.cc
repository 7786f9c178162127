#include "core/ops/samples.h"

namespace mstrain {
namespace {

SampleInput of(Dtype dtype, const Shape& shape) { return {{dtype, shape}, -2, 2}; }

}  // namespace

std::vector<Sample> samples::reshape(Dtype t) {
  return {{{of(t, {2, 6})}, {{"shape", Shape{3, 4}}}},
          {{of(t, {1})}, {{"shape", Shape{}}}},
          {{of(t, {0, 3})}, {{"shape", Shape{5, 0}}}}};
}
std::vector<Sample> samples::transpose(Dtype t) {
  return {{{of(t, {3, 5})}, {{"axes", Shape{1, 0}}}},
          {{of(t, {2, 3, 4, 5})}, {{"axes", Shape{0, 2, 1, 3}}}},
          {{of(t, {33, 65})}, {{"axes", Shape{1, 0}}}},
          {{of(t, {2, 0, 4})}, {{"axes", Shape{2, 0, 1}}}}};
}
std::vector<Sample> samples::broadcast(Dtype t) {
  return {{{of(t, {})}, {{"shape", Shape{3, 2}}}},
          {{of(t, {3, 1, 5})}, {{"shape", Shape{2, 3, 4, 5}}}},
          {{of(t, {1})}, {{"shape", Shape{0}}}}};
}
std::vector<Sample> samples::slice(Dtype t) {
  return {
      {{of(t, {7})}, {{"start", Shape{1}}, {"stop", Shape{6}}, {"step", Shape{2}}}},
      {{of(t, {4, 9})}, {{"start", Shape{0, 2}}, {"stop", Shape{3, 9}}, {"step", Shape{2, 3}}}},
      {{of(t, {4, 5})}, {{"start", Shape{2, 1}}, {"stop", Shape{2, 4}}, {"step", Shape{1, 1}}}}};
}
std::vector<Sample> samples::pad(Dtype t) {
  return {
      {{of(t, {3})}, {{"low", Shape{2}}, {"high", Shape{1}}, {"inner", Shape{0}}, {"value", 1.0}}},
      {{of(t, {2, 3})},
       {{"low", Shape{0, 1}}, {"high", Shape{1, 0}}, {"inner", Shape{2, 1}}, {"value", 0.0}}},
      {{of(t, {0, 2})},
       {{"low", Shape{1, 1}}, {"high", Shape{1, 0}}, {"inner", Shape{1, 0}}, {"value", 1.0}}}};
}
std::vector<Sample> samples::concat(Dtype t) {
  return {{{of(t, {2, 3}), of(t, {2, 1}), of(t, {2, 4})}, {{"axis", int64_t{1}}}},
          {{of(t, {2, 3}), of(t, {0, 3})}, {{"axis", int64_t{0}}}},
          {{of(t, {5})}, {{"axis", int64_t{0}}}}};
}
std::vector<Sample> samples::split(Dtype t) {
  return {{{of(t, {2, 9, 3})}, {{"axis", int64_t{1}}, {"sizes", Shape{4, 0, 5}}}},
          {{of(t, {6})}, {{"axis", int64_t{0}}, {"sizes", Shape{6}}}}};
}
std::vector<Sample> samples::flip(Dtype t) {
  return {{{of(t, {5})}, {{"axes", Shape{0}}}},
          {{of(t, {3, 4, 2})}, {{"axes", Shape{0, 2}}}},
          {{of(t, {3, 0})}, {{"axes", Shape{1}}}}};
}

std::vector<Sample> samples::copy(Dtype t) {
  return {{{of(t, {})}}, {{of(t, {3, 1025})}}, {{of(t, {0, 2})}}};
}

}  // namespace mstrain
