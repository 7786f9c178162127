// Movement by index arithmetic: which results are the input's memory with other strides. Alias rules of operations.
#pragma once

#include "core/ir/op.h"

namespace mstrain::alias {

std::optional<Aliased> reshape(const Attrs& attrs, std::span<const ViewType> in, size_t output);
std::optional<Aliased> transpose(const Attrs& attrs, std::span<const ViewType> in, size_t output);
std::optional<Aliased> broadcast(const Attrs& attrs, std::span<const ViewType> in, size_t output);
std::optional<Aliased> slice(const Attrs& attrs, std::span<const ViewType> in, size_t output);
std::optional<Aliased> split(const Attrs& attrs, std::span<const ViewType> in, size_t output);
std::optional<Aliased> flip(const Attrs& attrs, std::span<const ViewType> in, size_t output);
// Output i is input i.
std::optional<Aliased> each(const Attrs& attrs, std::span<const ViewType> in, size_t output);
// The same where there is one input.
std::optional<Aliased> only(const Attrs& attrs, std::span<const ViewType> in, size_t output);

}  // namespace mstrain::alias
