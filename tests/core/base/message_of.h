// What an action throws, for tests of errors.
#pragma once

#include <gtest/gtest.h>

#include <string>

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

}  // namespace mstrain
