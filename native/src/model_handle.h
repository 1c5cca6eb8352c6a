// What stands behind a model handle.
#ifndef CERNE_SRC_MODEL_HANDLE_H_
#define CERNE_SRC_MODEL_HANDLE_H_

#include <memory>

#include "handle.h"
#include "model/model.h"

struct cerne_model {
  uint64_t magic = kMagic;
  // Until it is built; null from then on.
  std::unique_ptr<cerne::ModelSource> source = std::make_unique<cerne::ModelSource>();
  std::shared_ptr<const cerne::Model> model;

  static constexpr uint64_t kMagic = 0x6365726e6d6f646cull;
  static constexpr const char* kName = "model";
};

#endif  // CERNE_SRC_MODEL_HANDLE_H_
