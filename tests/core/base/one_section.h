// A configuration of one section, for tests of the section.
#pragma once

#include "core/base/config.h"

namespace mstrain {

template <class Section>
struct OneSection {
  const char* name;
  Section section;
  template <class V>
  void fields(V& v) {
    v(name, section, "");
  }
};

// The section `name` of the file test.yaml with that text.
template <class Section>
Section section_of(const char* name, const std::string& yaml) {
  OneSection<Section> file{name, {}};
  read_config(parse_yaml(yaml, "test.yaml"), file);
  return file.section;
}

}  // namespace mstrain
