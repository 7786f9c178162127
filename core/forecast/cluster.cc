#include "core/forecast/cluster.h"

#include "core/base/error.h"
#include "core/base/missing_file.h"

namespace mstrain {
namespace {

constexpr uint64_t kLargestDescription = 1 << 20;

struct ClusterFile {
  Cluster cluster;

  template <class V>
  void fields(V& v) {
    v("cluster", cluster, "machines that a run is planned for");
  }
};

}  // namespace

Cluster parse_cluster(std::string_view text, const std::string& name,
                      const std::vector<std::string>& overrides) {
  YamlNode tree = parse_yaml(text, name);
  if (tree.is_map() && find_config(tree, "cluster") == nullptr) {
    YamlNode bare = tree;
    tree = YamlNode::map();
    set_config(tree, "cluster", std::move(bare));
  }
  apply_overrides(tree, overrides);
  ClusterFile file;
  read_config(tree, file);
  return file.cluster;
}

std::string to_text(const Cluster& cluster) { return to_yaml(write_config(ClusterFile{cluster})); }

Cluster read_cluster(FileSystem& files, const std::string& path,
                     const std::vector<std::string>& overrides) {
  check_exists(files, path);
  return parse_cluster(files.read(path, kLargestDescription), path, overrides);
}

}  // namespace mstrain
