// Programs that do not compile, one for each CASE; messages_test.py reads what the compiler says of them.
#include "core/ops/elementwise.h"
#include "core/tensor/jit.h"
#include "core/transform/grad.h"

namespace mstrain {

struct NoFields {
  Tensor x;
};

struct HoldsAPointer {
  Tensor x;
  int* count = nullptr;
  template <class V>
  void fields(V& v) {
    v("x", x);
    v("count", count);
  }
};

void not_a_tree(const Tensor& x) {
#if CASE == 1
  jit([](const NoFields& s) { return s.x; })(NoFields{x});
#elif CASE == 2
  grad([](const HoldsAPointer& s) { return s.x; })(HoldsAPointer{x});
#elif CASE == 3
  flatten_tree(std::vector<NoFields>{{x}});
#else
  jit([](const Tensor& s, double scale) { return s * scale; })(x, 0.1);
#endif
}

}  // namespace mstrain
