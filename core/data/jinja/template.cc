#include "core/data/jinja/template.h"

#include "core/data/jinja/evaluator.h"
#include "core/data/jinja/parser.h"

namespace mstrain::jinja {

Template::Template(std::string_view source, std::string name)
    : name_(std::move(name)), body_(parse(source, name_)) {}

Text Template::render(const Dict& variables, std::time_t now) const {
  return Evaluator(variables, name_, now).run(body_);
}

}  // namespace mstrain::jinja
