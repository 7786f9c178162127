#include "suites/reinforcement/env/dynamics.h"

namespace mstrain::reinforcement {

void Dynamics::save(ByteWriter& out) const {
  std::vector<double> state(static_cast<size_t>(spec().state_size));
  for (int64_t i = 0; i < size(); ++i) {
    get_state(i, state.data());
    out.put_all(state);
  }
}

void Dynamics::load(ByteReader& in) {
  const auto numbers = static_cast<size_t>(spec().state_size);
  for (int64_t i = 0; i < size(); ++i) {
    set_state(i, in.get_all<double>(numbers).data());
  }
}

}  // namespace mstrain::reinforcement
