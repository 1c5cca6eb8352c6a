#include "system_memory.h"

#include <cstdio>

namespace cerne {

uint64_t available_memory() {
  std::FILE* const file = std::fopen("/proc/meminfo", "r");
  if (file == nullptr) return 0;
  char line[128];
  unsigned long long kibibytes = 0;
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    if (std::sscanf(line, "MemAvailable: %llu kB", &kibibytes) == 1) break;
  }
  std::fclose(file);
  return static_cast<uint64_t>(kibibytes) * 1024;
}

}  // namespace cerne
