// What stands behind a context handle.
#ifndef CERNE_SRC_CONTEXT_HANDLE_H_
#define CERNE_SRC_CONTEXT_HANDLE_H_

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>

#include "model/context.h"
#include "model_handle.h"
#include "thread_pool.h"

struct cerne_context {
  explicit cerne_context(std::shared_ptr<const cerne::Model> of) : model(std::move(of)) {
    options = {cerne::hardware_threads(), std::min<size_t>(model->config().context, 4096), 1, 512};
  }

  uint64_t magic = kMagic;
  std::shared_ptr<const cerne::Model> model;
  cerne::ContextOptions options;
  std::atomic<bool> stop{false};
  std::optional<cerne::Context> running;  // made with the first sequence

  static constexpr uint64_t kMagic = 0x6365726e63747874ull;
  static constexpr const char* kName = "context";
};

namespace cerne {

// The context of a handle, made when it is first used.
inline Context& running(cerne_context* context) {
  cerne_context& self = alive(context);
  if (!self.running) self.running.emplace(self.model, self.options, self.stop);
  return *self.running;
}

}  // namespace cerne

#endif  // CERNE_SRC_CONTEXT_HANDLE_H_
