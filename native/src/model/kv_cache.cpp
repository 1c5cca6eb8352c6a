#include "model/kv_cache.h"

#include <cstring>
#include <string>

#include "status.h"

namespace cerne {

KvCache::KvCache(const KvShape& shape, size_t max_pages)
    : shape_(shape),
      head_bytes_(2 * kPagePositions * shape.head_dim * (shape.half ? 2 : 4)),
      page_bytes_(head_bytes_ * shape.layers * shape.kv_heads),
      max_pages_(max_pages),
      memory_(page_bytes_ * max_pages) {}

uint32_t KvCache::take() {
  if (!free_.empty()) {
    const uint32_t page = free_.back();
    free_.pop_back();
    references_[page] = 1;
    return page;
  }
  if (references_.size() == max_pages_) {
    throw invalid("the key/value memory is full: all " + std::to_string(max_pages_) + " pages of " +
                  std::to_string(kPagePositions) + " positions are in use; drop a sequence");
  }
  references_.push_back(1);
  return static_cast<uint32_t>(references_.size() - 1);
}

void KvCache::release(uint32_t page) {
  if (--references_[page] == 0) free_.push_back(page);
}

uint32_t KvCache::own(uint32_t page) {
  if (references_[page] == 1) return page;
  const uint32_t copy = take();
  std::memcpy(data(copy, 0, 0), data(page, 0, 0), page_bytes_);
  release(page);
  return copy;
}

void KvCache::store(uint32_t page, size_t layer, size_t kv_head, size_t at, const float* key,
                    const float* value) const {
  uint8_t* const keys = data(page, layer, kv_head);
  uint8_t* const values = keys + head_bytes_ / 2;
  const VectorKernels& kernels = vector_kernels();
  if (shape_.half) {
    kernels.store_half(key, value, shape_.head_dim, at, reinterpret_cast<uint16_t*>(keys),
                       reinterpret_cast<uint16_t*>(values));
  } else {
    kernels.store_float(key, value, shape_.head_dim, at, reinterpret_cast<float*>(keys),
                        reinterpret_cast<float*>(values));
  }
}

}  // namespace cerne
