// Key/value memory of many sequences: fixed pages, shared between sequences that were forked.
//
// A page holds kPagePositions positions of all layers and key/value heads. A sequence is a list of
// pages; a fork shares them, and whoever writes to a shared page first gets a copy of it.
#ifndef CERNE_SRC_MODEL_KV_CACHE_H_
#define CERNE_SRC_MODEL_KV_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/vector.h"
#include "zeroed_memory.h"

namespace cerne {

struct KvShape {
  size_t layers;
  size_t kv_heads;
  size_t head_dim;
  bool half;  // binary16, else binary32
};

class KvCache {
 public:
  // Memory is taken from the system as pages are used, at most `max_pages` of them.
  KvCache(const KvShape& shape, size_t max_pages);

  const KvShape& shape() const { return shape_; }
  size_t page_bytes() const { return page_bytes_; }
  size_t pages_in_use() const { return references_.size() - free_.size(); }
  size_t max_pages() const { return max_pages_; }

  // A page with one reference. Throws an invalid-argument Error when all are in use.
  uint32_t take();
  void share(uint32_t page) { ++references_[page]; }
  void release(uint32_t page);
  // A page with these contents that only the caller has: `page` itself, or a copy of it.
  uint32_t own(uint32_t page);

  // Where keys (then, kPagePositions * head_dim elements on, values) of a layer and head lie.
  uint8_t* data(uint32_t page, size_t layer, size_t kv_head) const {
    const size_t place = page * (shape_.layers * shape_.kv_heads) + layer * shape_.kv_heads;
    return memory_.data() + (place + kv_head) * head_bytes_;
  }
  PageView view(uint32_t page, size_t layer, size_t kv_head, size_t first, size_t last) const {
    const uint8_t* const keys = data(page, layer, kv_head);
    return {keys, keys + head_bytes_ / 2, shape_.head_dim, first, last};
  }
  // Stores the key and value of one position.
  void store(uint32_t page, size_t layer, size_t kv_head, size_t at, const float* key,
             const float* value) const;

 private:
  KvShape shape_;
  size_t head_bytes_;  // keys and values of one layer and head in a page
  size_t page_bytes_;
  size_t max_pages_;
  ZeroedArray<uint8_t> memory_;
  std::vector<uint32_t> references_;
  std::vector<uint32_t> free_;
};

}  // namespace cerne

#endif  // CERNE_SRC_MODEL_KV_CACHE_H_
