// What a run will meet, looked at before it starts.
#pragma once

#include "suites/run/model_run.h"

namespace mstrain {

// By arithmetic alone, in no time: throws PlanError where states or a step's samples take more than a thousand times `limit`
// bytes, which no plan could change. Larger numbers than that cannot be planned with.
void refuse_absurd(const ModelRun& run, int64_t limit);

// Opens what a run opens: data, tokenizer, model.init.from and run.output_dir. Returns how many tokens or labels the data
// have; none where it cannot be told, which is a finding where the network says its own number and an error else.
std::optional<int64_t> look_ahead(FileSystem& files, ModelRun& run, const YamlNode& tree,
                                  Findings& findings);

}  // namespace mstrain
