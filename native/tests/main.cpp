#include <string>
#include <utility>
#include <vector>

#include "check.h"

namespace {

std::vector<std::pair<const char*, cerne_test::Test>>& tests() {
  static std::vector<std::pair<const char*, cerne_test::Test>> all;
  return all;
}

}  // namespace

cerne_test::Registration::Registration(const char* name, Test test) {
  tests().emplace_back(name, test);
}

// With arguments: runs only the tests named.
int main(int argc, char** argv) {
  size_t ran = 0;
  for (const auto& [name, test] : tests()) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; ++i) wanted = wanted || std::string(argv[i]) == name;
    if (!wanted) continue;
    test();
    std::printf("ok %s\n", name);
    ++ran;
  }
  std::printf("%zu tests passed\n", ran);
  return ran == 0 ? 1 : 0;
}
