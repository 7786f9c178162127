// What the values of fields are called: by a dictionary of those that are frequent enough, or by their hashes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/base/files.h"
#include "embedding_cache/id_map.h"

namespace mstrain::recommender {

struct IdsConfig {
  enum class Mode { kDictionary, kHash };
  Mode mode = Mode::kDictionary;
  int64_t min_count = 10;
  int64_t buckets = 0;

  template <class V>
  void fields(V& v) {
    v("mode", mode, "what values of a field are called; dictionary: by preprocessing alone",
      rule::one_of({"dictionary", "hash"}));
    v("min_count", min_count,
      "of a dictionary: values that come less often share the id 0 of their field",
      rule::at_least(1));
    v("buckets", buckets, "of hashes: ids of a field, bags too, are below it; 0: hashes of 64 bits",
      rule::at_least(0));
  }
};

class FieldIds {
 public:
  virtual ~FieldIds() = default;
  // Any thread. `value`: its hash.
  virtual uint64_t id(size_t field, uint64_t value) const = 0;
  virtual uint64_t rows(size_t field) const = 0;  // ids are below it; 0: any of 64 bits
};

std::shared_ptr<const FieldIds> hashed_ids(uint64_t buckets);

// The values of a field that have ids, and how often they came: the most frequent has id 1, of equal ones the smaller hash comes first.
struct FieldDictionary {
  std::vector<uint64_t> values;  // ascending
  std::vector<uint32_t> ids;
};
void write_dictionary(FileSystem& files, const std::string& path,
                      const std::vector<FieldDictionary>& fields);
// Throws IoError that starts with the path, where it is none of so many fields.
std::shared_ptr<const FieldIds> read_dictionary(FileSystem& files, const std::string& path,
                                                size_t fields);

}  // namespace mstrain::recommender
