// What an action throws, for tests of errors.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"

namespace mstrain {

// What `action` throws, as text; fails the test where it throws nothing.
template <class Exception, class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Exception& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

// The same of an Error; "no error" where it throws nothing, for whoever compares the text.
template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace mstrain
