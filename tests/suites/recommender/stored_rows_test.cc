#include "suites/recommender/run/stored_rows.h"

#include <gmock/gmock.h>

#include "core/base/error.h"
#include "core/io/atomic_file.h"
#include "suites/recommender/run/export_rows.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain::recommender {
namespace {

using testing::HasSubstr;

constexpr const char* kNone = "no error";

OrderedJson described(const std::vector<FieldSpec>& fields,
                      const std::vector<std::string>& numeric) {
  const SampleSchema schema{numeric, fields};
  return description_of(Tables(schema, {}));
}

TEST(StoredRows, AreOfTheFeaturesThatARunHas) {
  const TemporaryFolder folder;
  const std::vector<FieldSpec> fields{
      {.name = "user"}, {.name = "city"}, {.name = "day", .rows = 7}};
  const OrderedJson written = described(fields, {"x", "age"});
  const auto refusal = [&](const std::vector<FieldSpec>& of,
                           const std::vector<std::string>& numeric, const OrderedJson& there) {
    write_file_atomic(real_files(), folder / kRowsFile, there.dump());
    return error_of(
        [&] { expect_features_of(real_files(), folder.path(), described(of, numeric)); });
  };
  EXPECT_EQ(refusal(fields, {"x", "age"}, written), kNone);
  EXPECT_THAT(refusal({fields[1], fields[0], fields[2]}, {"x", "age"}, written),
              HasSubstr("rows.json: field city is number 1 there and 0 here"));
  EXPECT_THAT(refusal(fields, {"age", "x"}, written),
              HasSubstr("numbers are [x, age] there, and [age, x] here"));
  EXPECT_THAT(refusal({fields[0], fields[1]}, {"x", "age"}, written),
              HasSubstr("field day is none that this run looks up"));
  EXPECT_THAT(refusal(fields, {"x", "age"}, described({fields[0], fields[1]}, {"x", "age"})),
              HasSubstr("has no field day"));
  EXPECT_THAT(refusal({fields[0], fields[1], {.name = "day", .rows = 8}}, {"x", "age"}, written),
              HasSubstr("field day is {"));
  OrderedJson earlier = written;
  earlier.erase("numeric");
  EXPECT_EQ(refusal(fields, {"age", "x"}, earlier), kNone);
}

TEST(StoredRows, OfBagsSayHowTheyArePooled) {
  const TemporaryFolder folder;
  const auto of = [](embedding_cache::Pooling pooling) {
    return described({{.name = "genres", .is_bag = true, .pooling = pooling}}, {});
  };
  OrderedJson written = of(embedding_cache::Pooling::kMean);
  OrderedJson& field = written.at("tables").at(0).at("fields").at(0);
  EXPECT_EQ(field.at("pooling"), "mean");
  const auto refusal = [&](embedding_cache::Pooling pooling) {
    write_file_atomic(real_files(), folder / kRowsFile, written.dump());
    return error_of([&] { expect_features_of(real_files(), folder.path(), of(pooling)); });
  };
  EXPECT_EQ(refusal(embedding_cache::Pooling::kMean), kNone);
  EXPECT_THAT(refusal(embedding_cache::Pooling::kSum), HasSubstr("field genres is {"));
  field.erase("pooling");  // as earlier versions wrote it
  EXPECT_EQ(refusal(embedding_cache::Pooling::kSum), kNone);
}

}  // namespace
}  // namespace mstrain::recommender
