#include "embedding_cache/commit.h"

#include <algorithm>
#include <charconv>

#include "core/base/error.h"
#include "core/io/digest.h"

namespace mstrain::embedding_cache {
namespace {

constexpr std::string_view kVersion = "mstrain-embedding-cache 1\n";
constexpr std::string_view kVersionPrefix = "mstrain-embedding-cache ";
constexpr const char* kManifest = "MANIFEST.json";
constexpr const char* kCommits = "commits";
constexpr uint64_t kMaxManifestBytes = 256 << 20;
constexpr size_t kDigestLine = 64 + 1;

// "rows/000012.sst" or "state.bin": at most one folder, nothing that leads out.
bool is_safe_name(std::string_view name) {
  const size_t slash = name.find('/');
  return slash == std::string_view::npos
             ? is_plain_name(name)
             : is_plain_name(name.substr(0, slash)) && is_plain_name(name.substr(slash + 1));
}

}  // namespace

bool is_cache_directory(FileSystem& files, const std::string& directory) {
  return files.exists(join_path(directory, kDirectoryMarker));
}

void require_directory(FileSystem& files, const std::string& directory) {
  const std::string marker = join_path(directory, kDirectoryMarker);
  if (!files.exists(marker)) {
    throw IoError(fmt::format("{}: not a directory of an embedding cache: {} is missing", directory,
                              kDirectoryMarker));
  }
  const std::string text = files.read(marker, 4096);
  if (text == kVersion) {
    return;
  }
  if (text.starts_with(kVersionPrefix)) {
    throw IoError(
        fmt::format("{}: written in form {}, this library reads form 1", directory,
                    text.substr(kVersionPrefix.size(), text.find('\n') - kVersionPrefix.size())));
  }
  throw IoError(fmt::format("{}: {} is damaged", directory, kDirectoryMarker));
}

void claim_directory(FileSystem& files, const std::string& directory) {
  create_directories_durably(files, directory);
  const std::string marker = join_path(directory, kDirectoryMarker);
  if (!files.exists(marker)) {
    for (const std::string& name : files.list(directory)) {
      // What a first opening that was cut short may have left.
      if (name != "LOCK" && !name.starts_with(std::string(kDirectoryMarker) + ".tmp-")) {
        throw IoError(fmt::format(
            "{}: not a directory of an embedding cache: it holds {}; name an empty or new one",
            directory, name));
      }
    }
    write_file_atomic(files, marker, kVersion);
  }
  require_directory(files, directory);
  create_directories_durably(files, join_path(directory, kCommits));
}

std::string commit_folder(const std::string& directory, CommitId id) {
  return join_path(join_path(directory, kCommits), fmt::format("{:08}", id));
}

std::vector<CommitId> list_commit_folders(FileSystem& files, const std::string& directory) {
  std::vector<CommitId> out;
  const std::string parent = join_path(directory, kCommits);
  if (!files.exists(parent)) {
    return out;
  }
  for (const std::string& name : files.list(parent)) {
    CommitId id = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error == std::errc() && end == name.data() + name.size() && id > 0 &&
        fmt::format("{:08}", id) == name) {
      out.push_back(id);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

bool has_manifest(FileSystem& files, const std::string& directory, CommitId id) {
  return files.exists(join_path(commit_folder(directory, id), kManifest));
}

bool comes_from(const CommitInfo& commit, CommitId older) {
  return older <= commit.id && !commit.abandoned.contains(older);
}

void put_line(OrderedJson& json, const std::map<CommitId, uint64_t>& abandoned, const char* key,
              const CommitAt& at) {
  for (const auto& [id, step] : abandoned) {
    json["abandoned"].push_back(id);
    json["abandoned_steps"].push_back(step);
  }
  if (at.id != 0) {
    json[key] = {at.id, at.step};
  }
}

void take_line(const Json& json, std::map<CommitId, uint64_t>& abandoned, const char* key,
               CommitAt& at) {
  const std::vector<CommitId> ids = json.value("abandoned", std::vector<CommitId>());
  std::vector<uint64_t> steps = json.value("abandoned_steps", std::vector<uint64_t>());
  steps.resize(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    abandoned[ids[i]] = steps[i];
  }
  if (json.contains(key)) {
    at = {json.at(key).at(0).get<CommitId>(), json.at(key).at(1).get<uint64_t>()};
  }
}

void write_manifest(FileSystem& files, const std::string& directory, const CommitInfo& info) {
  OrderedJson json;
  json["format"] = "mstrain-embedding-cache-commit-1";
  json["id"] = info.id;
  json["parent"] = info.parent;
  json["step"] = info.step;
  json["seed"] = info.seed;
  json["store"] = info.store;
  json["options"] = info.options;
  put_line(json, info.abandoned, "taken", info.taken);
  json["tables"] = OrderedJson::array();
  for (const CommitTable& table : info.tables) {
    json["tables"].push_back(
        {{"name", table.name}, {"schema", table.schema}, {"rows", table.rows}});
  }
  json["files"] = OrderedJson::array();
  for (const StoreFile& file : info.files) {
    json["files"].push_back({{"name", file.name}, {"size", file.size}, {"digest", file.digest}});
  }
  std::string text = json.dump(1) + "\n";
  text += sha256_hex(text) + "\n";
  const std::string folder = commit_folder(directory, info.id);
  files.sync_directory(folder);
  files.sync_directory(parent_path(folder));
  write_file_atomic(files, join_path(folder, kManifest), text);
}

CommitInfo parse_manifest(std::string_view text, const std::string& name) {
  const auto damaged = [&](const char* message) {
    return IoError(fmt::format("{}: {}", name, message));
  };
  if (text.size() < kDigestLine || text.back() != '\n') {
    throw damaged("cut short");
  }
  const std::string_view body = text.substr(0, text.size() - kDigestLine);
  if (sha256_hex(body) != text.substr(body.size(), 64)) {
    throw damaged("does not match the digest in its last line");
  }
  const Json json = parse_json(body, name);
  CommitInfo info;
  try {
    if (json.at("format") != "mstrain-embedding-cache-commit-1") {
      throw damaged("of another format");
    }
    info.id = json.at("id").get<uint64_t>();
    info.parent = json.at("parent").get<uint64_t>();
    info.step = json.at("step").get<uint64_t>();
    info.seed = json.at("seed").get<uint64_t>();
    info.store = json.at("store").get<std::string>();
    info.options = json.at("options").get<std::string>();
    take_line(json, info.abandoned, "taken", info.taken);
    for (const Json& table : json.at("tables")) {
      info.tables.push_back({.name = table.at("name").get<std::string>(),
                             .schema = table.at("schema").get<std::string>(),
                             .rows = table.at("rows").get<uint64_t>()});
    }
    for (const Json& file : json.at("files")) {
      info.files.push_back({.name = file.at("name").get<std::string>(),
                            .size = file.at("size").get<uint64_t>(),
                            .digest = file.at("digest").get<std::string>()});
      if (!is_safe_name(info.files.back().name)) {
        throw damaged("names a file outside its folder");
      }
    }
  } catch (const Json::exception&) {
    throw damaged("lacks a field or has one of a wrong type");
  }
  return info;
}

CommitInfo read_manifest(FileSystem& files, const std::string& directory, CommitId id) {
  const std::string path = join_path(commit_folder(directory, id), kManifest);
  CommitInfo info = parse_manifest(files.read(path, kMaxManifestBytes), path);
  if (info.id != id) {
    throw IoError(fmt::format("{}: says that it is commit {}", path, info.id));
  }
  return info;
}

std::vector<std::string> verify_commit(FileSystem& files, const std::string& directory,
                                       CommitId id) {
  std::vector<std::string> problems;
  const std::string folder = commit_folder(directory, id);
  CommitInfo info;
  try {
    info = read_manifest(files, directory, id);
  } catch (const IoError& error) {
    return {error.what()};
  }
  for (const StoreFile& file : info.files) {
    const std::string path = join_path(folder, file.name);
    if (!files.exists(path)) {
      problems.push_back(path + ": missing");
      continue;
    }
    const StoreFile found = summarise_store_file(files, folder, file.name);
    if (found.size != file.size) {
      problems.push_back(
          fmt::format("{}: has {} bytes, the manifest says {}", path, found.size, file.size));
    } else if (found.digest != file.digest) {
      problems.push_back(fmt::format("{}: does not match its digest", path));
    }
  }
  return problems;
}

void retract_commit(FileSystem& files, const std::string& directory, CommitId id) {
  const std::string folder = commit_folder(directory, id);
  const std::string manifest = join_path(folder, kManifest);
  if (files.exists(manifest)) {
    files.remove(manifest);
    files.sync_directory(folder);
  }
}

void remove_commit(FileSystem& files, const std::string& directory, CommitId id) {
  retract_commit(files, directory, id);
  files.remove_all(commit_folder(directory, id));
}

}  // namespace mstrain::embedding_cache
