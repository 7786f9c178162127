// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mstrain {

std::string grouped(int64_t value);      // "124,439,808"
std::string short_number(double value);  // "832", "12.3k", "4.56M"
std::string gigabytes(int64_t bytes);    // "4.31 GB", of 10^9 bytes
std::string clock_text(double seconds);  // "1:23:45", "4:05"
std::string utc_text(double time);       // of seconds since 1970: "2030-01-31T23:59:59Z"

// `value`; of what is no number the one that prints as "nan", where a processor's own may print as "-nan".
double without_sign_of_nan(double value);

std::vector<int64_t> divisors(int64_t n);  // of n >= 1, ascending; takes sqrt(n) steps

}  // namespace mstrain
