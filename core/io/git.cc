#include "core/io/git.h"

#include <algorithm>
#include <string_view>

#include "core/base/error.h"

namespace mstrain {
namespace {

constexpr uint64_t kMostBytes = 64 << 20;  // of packed-refs

std::string trimmed(std::string text) {
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

// The text of a small file; none where it is missing.
std::optional<std::string> text_of(FileSystem& files, const std::string& path) {
  return files.exists(path) && !files.is_directory(path)
             ? std::optional(trimmed(files.read(path, kMostBytes)))
             : std::nullopt;
}

bool is_commit(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Where HEAD lies: <work tree>/.git, or what the file .git of a linked work tree names.
std::optional<std::string> repository_of(FileSystem& files, const std::string& folder) {
  for (std::string at = folder;; at = parent_path(at)) {
    const std::string git = join_path(at, ".git");
    if (files.is_directory(git)) {
      return git;
    }
    constexpr std::string_view kLink = "gitdir: ";
    if (const auto link = text_of(files, git); link && link->starts_with(kLink)) {
      return join_path(at, link->substr(kLink.size()));
    }
    if (parent_path(at) == at) {
      return std::nullopt;
    }
  }
}

std::optional<std::string> packed(FileSystem& files, const std::string& repository,
                                  const std::string& name) {
  const std::string text = text_of(files, join_path(repository, "packed-refs")).value_or("");
  const std::string wanted = ' ' + name;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (line.ends_with(wanted) && is_commit(line.substr(0, line.size() - wanted.size()))) {
      return std::string(line.substr(0, line.size() - wanted.size()));
    }
    begin = end + 1;
  }
  return std::nullopt;
}

std::optional<std::string> find_commit(FileSystem& files, const std::string& folder) {
  const auto repository = repository_of(files, folder);
  const auto head = repository ? text_of(files, join_path(*repository, "HEAD")) : std::nullopt;
  constexpr std::string_view kBranch = "ref: ";
  if (!head || !head->starts_with(kBranch)) {
    return head && is_commit(*head) ? head : std::nullopt;
  }
  const std::string name = head->substr(kBranch.size());
  // Branches of a linked work tree lie in the repository that it shares.
  const auto shared = text_of(files, join_path(*repository, "commondir"));
  for (const std::string& place :
       {*repository, shared ? join_path(*repository, *shared) : *repository}) {
    if (const auto loose = text_of(files, join_path(place, name)); loose && is_commit(*loose)) {
      return loose;
    }
    if (auto found = packed(files, place, name)) {
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> git_commit(FileSystem& files, const std::string& folder) {
  try {
    return find_commit(files, folder);
  } catch (const IoError&) {
    return std::nullopt;
  }
}

}  // namespace mstrain
