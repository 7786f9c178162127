// Names of files as text; nothing here touches a disk.
#pragma once

#include <string>
#include <string_view>

namespace mstrain {

std::string join_path(std::string_view directory, std::string_view name);
std::string parent_path(std::string_view path);  // "." for a bare name
std::string file_name(std::string_view path);    // the last component
// "~" and "~/…" with the user's home folder for the "~"; any other path, and where no home is known, as it is.
std::string expand_home(const std::string& path);
// A name beside `path` that no other process or thread uses: "<path>.tmp-<16 hex digits>".
std::string temporary_name(std::string_view path);
// True for one plain component: no separator, no "..", no ".", no control character, not empty.
bool is_plain_name(std::string_view name);

}  // namespace mstrain
