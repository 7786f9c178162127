// The reference backend: slow and obvious kernels that accumulate in double, the oracle of all
// others. Composites have no kernel here: they run by decomposition.
#pragma once

namespace mstrain {

// Fills the table of Backend::kReference; once, after register_all_ops().
void register_reference_kernels();

}  // namespace mstrain
