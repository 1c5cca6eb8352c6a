// A file seen as read-only memory.
#ifndef CERNE_SRC_MAPPED_FILE_H_
#define CERNE_SRC_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace cerne {

// Pages are read when first touched. The file must not shrink meanwhile: the system stops a program
// that touches what is gone.
class MappedFile {
 public:
  // Throws an invalid-argument Error that says what is wrong, without the path.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // Null when the file is empty.
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace cerne

#endif  // CERNE_SRC_MAPPED_FILE_H_
