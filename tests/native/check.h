// CHECK for the native tests: reports the failing line and goes on; main returns report().
#pragma once
#include <cstdio>

inline int failures = 0;

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                                  \
    }                                                                              \
  } while (0)

inline int report(const char* name) {
  std::printf("%s: %s\n", name, failures ? "FAILED" : "ok");
  return failures != 0;
}
