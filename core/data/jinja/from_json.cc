#include "core/data/jinja/from_json.h"

#include <limits>

#include "core/base/error.h"

namespace mstrain::jinja {

Value from_json(const OrderedJson& json) {
  switch (json.type()) {
    case OrderedJson::value_t::null: return None();
    case OrderedJson::value_t::boolean: return json.get<bool>();
    case OrderedJson::value_t::number_unsigned:
      check(json.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()},
            "{} is an integer of more than 64 bits", json.dump());
      return json.get<int64_t>();
    case OrderedJson::value_t::number_integer: return json.get<int64_t>();
    case OrderedJson::value_t::number_float: return json.get<double>();
    case OrderedJson::value_t::string:
      return Text(json.get_ref<const std::string&>(), /*from_outside=*/true);
    case OrderedJson::value_t::array: {
      List list;
      for (const OrderedJson& each : json) {
        list.items.push_back(from_json(each));
      }
      return list;
    }
    default: {
      Dict dict;
      for (const auto& [key, each] : json.items()) {
        dict.emplace_back(key, from_json(each));
      }
      return dict;
    }
  }
}

}  // namespace mstrain::jinja
