// What is read from a file, as a template sees it.
#pragma once

#include "core/base/json.h"
#include "core/data/jinja/value.h"

namespace mstrain::jinja {

// Of a JSON value whose strings are UTF-8: these are from outside. Throws Error for an integer of more than 64 bits.
Value from_json(const OrderedJson& json);

}  // namespace mstrain::jinja
