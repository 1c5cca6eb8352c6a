// The few lines of test framework that the native tests need.
#ifndef CERNE_TESTS_CHECK_H_
#define CERNE_TESTS_CHECK_H_

#include <cstdio>
#include <cstdlib>

namespace cerne_test {

using Test = void (*)();

// Registers a test at start-up; `main` runs them all in order of registration.
struct Registration {
  Registration(const char* name, Test test);
};

}  // namespace cerne_test

#define CERNE_TEST(name)                                              \
  static void name();                                                 \
  static const cerne_test::Registration register_##name(#name, name); \
  static void name()

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                      \
    }                                                                                    \
  } while (false)

#endif  // CERNE_TESTS_CHECK_H_
