// Errors inside the core, and the fence that turns them into status codes at the C boundary.
#ifndef CERNE_SRC_STATUS_H_
#define CERNE_SRC_STATUS_H_

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "cerne.h"

namespace cerne {

// Thrown inside the core only; `guarded` turns it into its status.
class Error : public std::runtime_error {
 public:
  Error(cerne_status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  cerne_status status() const { return status_; }

 private:
  cerne_status status_;
};

inline Error invalid(const std::string& message) { return Error(CERNE_INVALID_ARGUMENT, message); }

// Keeps the message for cerne_last_error on this thread; never throws.
void set_last_error(const char* message) noexcept;

// Runs `body` (returning a status) so that nothing escapes the C boundary.
template <typename Body>
cerne_status guarded(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const Error& error) {
    set_last_error(error.what());
    return error.status();
  } catch (const std::bad_alloc&) {
    set_last_error("out of memory");
    return CERNE_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    set_last_error(error.what());
    return CERNE_INTERNAL;
  } catch (...) {
    set_last_error("unknown failure in the core");
    return CERNE_INTERNAL;
  }
}

}  // namespace cerne

#endif  // CERNE_SRC_STATUS_H_
