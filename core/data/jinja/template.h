// Templates of chats: as much of Jinja (jinja.palletsprojects.com, version 3.1) as chat templates use, with the settings that
// transformers gives it: trim_blocks, lstrip_blocks, break and continue, and its own tojson, raise_exception and strftime_now.
// What is left out is an error that names it, never another text: files, inheritance, call blocks, recursive loops, powers,
// formatting by %, the printing of lists, letters outside ASCII in upper and lower.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "core/data/jinja/syntax.h"
#include "core/data/jinja/value.h"

namespace mstrain::jinja {

// Immutable; any thread may render.
class Template {
 public:
  // `source` is UTF-8; `name` is that of its file. Throws IoError "<name>:<line>: ..." where it is no template, or has a tag that
  // is not supported.
  Template(std::string_view source, std::string name);

  // What it says of `variables`, at time `now`. Throws Error "<name>:<line>: ..." for what the template raises, for what is
  // undefined where a value is needed, for functions, filters and tests that are not supported, and where it does not come to an
  // end.
  Text render(const Dict& variables, std::time_t now) const;

 private:
  std::string name_;
  Body body_;
};

}  // namespace mstrain::jinja
