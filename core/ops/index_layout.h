// The layout rules of core/ops/index.cc.
#pragma once

#include "core/ir/layout.h"

namespace mstrain::index_layout {

std::vector<Way> gather(const LayoutRequest& request);
std::vector<Way> scatter_add(const LayoutRequest& request);
std::vector<Way> scatter_set(const LayoutRequest& request);
std::vector<Way> take_along(const LayoutRequest& request);
std::vector<Way> scatter_add_along(const LayoutRequest& request);

}  // namespace mstrain::index_layout
