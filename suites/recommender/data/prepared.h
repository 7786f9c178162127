// What `mstrain preprocess` makes of text: a folder of samples in files of a fixed width, with the dictionary that their ids come from.
//
//   prepared.json              written last: fields, numeric columns, parts, and what they were made of
//   dictionary.safetensors     N.value, N.id of field N, where ids come from one
//   part-00000.safetensors     ids [n, fields] i32 or i64, label [n] u8, numeric [n, columns] f32
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/files.h"
#include "suites/recommender/data/field_ids.h"
#include "suites/recommender/data/samples.h"
#include "suites/recommender/data/source_files.h"

namespace mstrain::recommender {

inline constexpr const char* kPreparedFile = "prepared.json";
inline constexpr const char* kDictionaryFile = "dictionary.safetensors";
std::string part_name(size_t part);

struct Prepared {
  std::string columns;  // what lines were read as: equal for equal data.csv and data.ids
  std::vector<std::pair<std::string, std::string>> keys;  // that make `columns`, as configured
  std::string input;                                      // the bytes that they come from
  std::string train;                                      // data.train, without its folder
  std::vector<SourceFile> files;                          // that it named
  SampleSchema schema;
  std::optional<std::string> other_label;  // beside data.csv.positive, where nobody named it
  bool has_dictionary = false;
  uint64_t buckets = 0;        // of hashes, where there is no dictionary
  std::vector<int64_t> parts;  // samples of each
  int64_t lines = 0, malformed = 0;
};

void write_prepared(FileSystem& files, const std::string& folder, const Prepared& prepared);
// Throws IoError that starts with the path; where there is none, it says how to make it.
Prepared read_prepared(FileSystem& files, const std::string& folder);

// Maps the parts; what is read of them is checked as it is read. Throws IoError.
std::shared_ptr<const SampleSource> open_prepared(FileSystem& files, const std::string& folder);
std::shared_ptr<const FieldIds> ids_of_prepared(FileSystem& files, const std::string& folder,
                                                const Prepared& prepared);

}  // namespace mstrain::recommender
