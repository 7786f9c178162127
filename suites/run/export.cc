#include "suites/run/export.h"

#include <set>

#include "core/base/error.h"
#include "core/data/hf_simple.h"
#include "core/data/tokenizer.h"
#include "core/io/folder.h"
#include "suites/run/stored_model.h"

namespace mstrain {
namespace {

// What else Hugging Face keeps beside weights; none of it changes them.
constexpr const char* kCompanions[] = {"generation_config.json", "preprocessor_config.json",
                                       "tokenizer_config.json", "special_tokens_map.json",
                                       "added_tokens.json"};
constexpr uint64_t kMaxCompanionBytes = 16 << 20;

void check_output(FileSystem& files, const std::string& output) {
  if (files.exists(output) && (!files.is_directory(output) || !files.list(output).empty())) {
    throw IoError(fmt::format("{}: exists already; name a new directory", output));
  }
}

// The name in config.json of the element type that all tensors have; of several it is the widest.
std::string dtype_name(const std::vector<TensorEntry>& entries) {
  int bytes = 0;
  std::string name = "float32";
  for (const TensorEntry& entry : entries) {
    if (size_of(*entry.dtype) > bytes) {
      bytes = size_of(*entry.dtype);
      name = *entry.dtype == Dtype::kF64    ? "float64"
             : *entry.dtype == Dtype::kF32  ? "float32"
             : *entry.dtype == Dtype::kBF16 ? "bfloat16"
                                            : "float16";
    }
  }
  return name;
}

}  // namespace

void export_model(FileSystem& files, const std::string& model, const std::string& output) {
  check_output(files, output);
  const StoredModel stored = open_model(files, model);
  check_params(files, stored);

  const SafetensorsFolder weights(files, stored.folder);
  const Meaning meaning = meaning_in(weights, *stored.network);
  std::map<std::string, const SafetensorsFolder::Item*> parameters;
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (const SafetensorsFolder::Item& item : weights.items()) {
    const StoredMeaning is = meaning(item.entry->name);
    if (is.kind == StoredMeaning::Kind::kParameter) {
      parameters[is.name] = &item;
      tensors.push_back({is.name, *item.entry->dtype, item.entry->shape});
    }
  }

  AtomicFolder folder(files, output);
  SafetensorsWriter writer(folder.create(kWeightsFile), tensors, {{"format", "pt"}});
  for (const TensorEntry& entry : writer.entries()) {
    writer.append(entry.name, weights.data(*parameters.at(entry.name)));
  }
  writer.finish();
  OrderedJson config = stored.network->description(stored.description);
  config["dtype"] = dtype_name(writer.entries());
  folder.write("config.json", config.dump(2) + "\n");
  std::set<std::string> written;
  if (const auto tokenizer = stored_tokenizer(files, stored)) {
    for (const auto& parts : {tokenizer->files(), hugging_face_files(*tokenizer)}) {
      for (const TokenizerFile& file : parts) {
        folder.write(file.name, file.bytes);
        written.insert(file.name);
      }
    }
  }
  for (const char* name : kCompanions) {
    const std::string path = join_path(stored.folder, name);
    if (!written.contains(name) && files.exists(path)) {
      folder.write(name, files.read(path, kMaxCompanionBytes));
    }
  }
  folder.commit();
}

}  // namespace mstrain
