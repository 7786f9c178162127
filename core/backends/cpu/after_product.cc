#include "core/backends/cpu/after_product.h"

#include <algorithm>

#include "core/base/error.h"

namespace mstrain::cpu {
namespace {

TileLoop activation_loop(std::string_view name) {
  const ElementwiseLoops& table = *loops().elementwise;
  for (int i = 0; i < table.count; ++i) {
    if (table.rows[i].name == name) {
      return table.rows[i].f32;
    }
  }
  fail("{}: no loop applies it to a product", name);
}

}  // namespace

bool AfterProduct::serves(const Product& p) {
  const bool adds_late = std::any_of(p.after.begin(), p.after.end(), [&](const Epilogue& e) {
    return e.kind == Epilogue::Kind::kAdd && p.after.size() > 1;
  });
  return p.dtype == Dtype::kF32 && p.result == Dtype::kF32 && !adds_late;
}

AfterProduct::AfterProduct(const Product& p) {
  for (const Epilogue& epilogue : p.after) {
    switch (epilogue.kind) {
      case Epilogue::Kind::kAdd: adds_ = true; break;
      case Epilogue::Kind::kScale:
        steps_.push_back({nullptr, static_cast<float>(epilogue.scale)});
        break;
      default: steps_.push_back({activation_loop(epilogue.activation->name), 1.0F}); break;
    }
  }
}

void AfterProduct::take_steps(float* row, int64_t n) const {
  for (const Step& step : steps_) {
    for (int64_t j = 0; step.activation != nullptr && j < n; j += kTile) {
      const void* const from = row + j;
      step.activation(std::min<int64_t>(kTile, n - j), &from, row + j);
    }
    for (int64_t j = 0; step.activation == nullptr && j < n; ++j) {
      row[j] *= step.factor;
    }
  }
}

}  // namespace mstrain::cpu
