// What stands behind a sampler handle.
#ifndef CERNE_SRC_SAMPLER_HANDLE_H_
#define CERNE_SRC_SAMPLER_HANDLE_H_

#include "handle.h"
#include "sampler.h"

struct cerne_sampler {
  uint64_t magic = kMagic;
  cerne::Sampler sampler;

  static constexpr uint64_t kMagic = 0x6365726e73616d70ull;
  static constexpr const char* kName = "sampler";
};

#endif  // CERNE_SRC_SAMPLER_HANDLE_H_
