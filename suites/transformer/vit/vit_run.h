// The configuration of a run that trains, evaluates or uses a ViT.
#pragma once

#include "core/data/image_config.h"
#include "core/data/image_set.h"
#include "suites/transformer/vit/network.h"

namespace mstrain::vit {

class VitRun final : public RunOf<VitConfig, VitNetwork, ModelRun> {
 public:
  ImageDataConfig data;

  std::shared_ptr<const Network> network() const override;
  void settle(int64_t ids, const YamlNode& tree) override;
  [[noreturn]] void fail_unsettled(const YamlNode& tree) const override;
  std::optional<int64_t> known_ids(FileSystem& files, const YamlNode& tree) const override;
  void open_data(FileSystem& files, const YamlNode& tree,
                 const std::optional<std::string>& folder) override;
  int64_t data_ids() const override { return images_.train->classes(); }
  bool holds_out() const override;
  void find_oddities_of(int64_t ids, const YamlNode& tree, Findings& findings) const override;
  TrainTask task() const override;
  TrainData samples(const Json& source) const override;
  LeastSize least_size() const override;
  std::vector<Overrides> smaller_samples() const override;

  // After open_data().
  const ImageParts& images() const { return images_; }
  int64_t image_size() const { return data.image_size.value_or(model.image_size); }

 private:
  void declare_data(ConfigFields& fields) override;
  void check(const YamlNode& tree) const override;
  // The labels that folders may have, by their number; empty: the folders are all, in their order. Sets labels_.
  std::vector<std::string> known_labels(FileSystem& files, const YamlNode& tree,
                                        const std::optional<std::string>& folder);

  ImageParts images_;
  std::vector<std::string> folders_;  // of the data's classes
  std::vector<std::string>
      labels_;  // what the head's rows are called before this run; empty: nothing
};

// model.type vit.
ModelEntry entry();

}  // namespace mstrain::vit
