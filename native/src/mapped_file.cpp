#include "mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "status.h"

namespace cerne {
namespace {

[[noreturn]] void refuse(const char* what) {
  throw invalid(std::string(what) + ": " + std::strerror(errno));
}

// Closes a file descriptor; the mapping outlives it.
struct Descriptor {
  int number;
  ~Descriptor() { close(number); }
};

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  // Non-blocking, or opening a pipe would wait for somebody to write to it.
  const int number = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (number < 0) refuse("cannot open the file");
  const Descriptor descriptor{number};
  struct stat facts;
  if (fstat(descriptor.number, &facts) != 0) refuse("cannot read the file's size");
  if (!S_ISREG(facts.st_mode)) throw invalid("not a regular file");
  size_ = static_cast<size_t>(facts.st_size);
  if (size_ == 0) return;
  void* const mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor.number, 0);
  if (mapped == MAP_FAILED) refuse("cannot map the file into memory");
  data_ = static_cast<const uint8_t*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), size_);
}

}  // namespace cerne
