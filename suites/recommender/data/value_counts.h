// How often each value of a field comes: counted by the piece of text, kept as files (N.value i64, ascending, and N.times u32 of field N), and
// merged without being held.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/io/safetensors.h"
#include "suites/recommender/data/field_ids.h"

namespace mstrain::recommender {

// `values`: of each field, in any order.
void write_counts(FileSystem& files, const std::string& path,
                  std::vector<std::vector<uint64_t>> values,
                  const std::map<std::string, std::string>& metadata);

// Names of the values of a field that come min_count times or more. Throws Error where there are 2^31 of them.
FieldDictionary merge_counts(const std::vector<SafetensorsFile>& counts, size_t field,
                             int64_t min_count);

}  // namespace mstrain::recommender
