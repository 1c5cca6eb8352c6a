// The C function that encodes rows of values: argument checks, and rows shared out among threads.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "float_environment.h"
#include "formats/quantize.h"
#include "gguf_cursor.h"
#include "handle.h"
#include "thread_pool.h"

using cerne::Encoder;
using cerne::guarded;
using cerne::invalid;
using cerne::require;
using cerne::TensorType;

namespace {

constexpr uint32_t kMaxThreads = 1024;
// Values of one piece of work: some milliseconds.
constexpr uint64_t kPieceValues = 1 << 15;

struct Rows {
  const TensorType& type;
  const Encoder& encoder;
  const float* values;
  uint64_t num_rows, width;
  const float* importance;  // null, or `width` numbers of which the largest is 1
  uint8_t* blocks;

  uint64_t row_blocks() const { return width / type.block_values; }
};

std::string shortest(float value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", static_cast<double>(value));
  return text;
}

void check_values(const Rows& rows, uint64_t row) {
  const float* const x = rows.values + row * rows.width;
  const float limit = rows.encoder.limit;
  // One test for all: NaN fails it too.
  uint64_t bad = 0;
  for (uint64_t i = 0; i < rows.width; ++i) bad += x[i] >= -limit && x[i] <= limit ? 0 : 1;
  if (bad == 0) return;
  const auto within = [limit](float value) { return value >= -limit && value <= limit; };
  const float* const at = std::find_if_not(x, x + rows.width, within);
  throw invalid("row " + std::to_string(row) + ", column " + std::to_string(at - x) + " holds " +
                shortest(*at) + "; allowed for " + rows.type.name + ": finite and at most " +
                shortest(limit) + " in magnitude");
}

void encode_rows(const Rows& rows, uint64_t first, uint64_t end) {
  const cerne::FloatEnvironment environment;
  const uint64_t row_bytes = rows.row_blocks() * rows.type.block_bytes;
  for (uint64_t row = first; row < end; ++row) {
    check_values(rows, row);
    rows.encoder.encode(rows.values + row * rows.width, static_cast<size_t>(rows.row_blocks()),
                        rows.importance, rows.blocks + row * row_bytes);
  }
}

// Relative to the largest, so that no product over- or underflows; empty when none counts.
std::vector<float> relative(const float* importance, uint64_t width) {
  if (importance == nullptr) return {};
  float largest = 0;
  for (uint64_t i = 0; i < width; ++i) {
    if (!(importance[i] >= 0 && importance[i] <= 0x1.fffffep127f)) {
      throw invalid("the importance of column " + std::to_string(i) + " is " +
                    shortest(importance[i]) + "; allowed: finite and not negative");
    }
    largest = std::max(largest, importance[i]);
  }
  if (largest == 0) return {};
  const cerne::FloatEnvironment environment;
  std::vector<float> scaled(importance, importance + width);
  for (float& value : scaled) value /= largest;
  return scaled;
}

cerne_status encode_all(const Rows& rows, uint32_t num_threads, cerne_progress progress,
                        void* user) {
  const uint64_t piece = std::max<uint64_t>(1, kPieceValues / std::max<uint64_t>(1, rows.width));
  const uint64_t pieces = rows.num_rows / piece + (rows.num_rows % piece != 0 ? 1 : 0);
  const uint64_t wanted = num_threads == 0 ? cerne::hardware_threads() : num_threads;
  cerne::ThreadPool pool(static_cast<size_t>(std::min(std::max<uint64_t>(1, pieces), wanted)));
  const uint64_t round = 8 * pool.num_threads();
  for (uint64_t first = 0; first < pieces; first += round) {
    const uint64_t count = std::min(round, pieces - first);
    pool.parallel_for(static_cast<size_t>(count), [&](size_t index) {
      const uint64_t begin = (first + index) * piece;
      encode_rows(rows, begin, std::min(begin + piece, rows.num_rows));
    });
    const uint64_t done = std::min((first + count) * piece, rows.num_rows);
    if (progress != nullptr && progress(user, done, rows.num_rows) != 0) {
      cerne::set_last_error("the progress function stopped the encoding");
      return CERNE_STOPPED;
    }
  }
  return CERNE_OK;
}

}  // namespace

extern "C" cerne_status cerne_quantize_rows(const char* type, size_t type_length,
                                            const float* values, uint64_t num_rows, uint64_t width,
                                            const float* importance, uint32_t num_threads,
                                            cerne_progress progress, void* user, uint8_t* blocks,
                                            size_t capacity, size_t* num_bytes) {
  return guarded([&]() -> cerne_status {
    require(type != nullptr && num_bytes != nullptr,
            "cerne_quantize_rows: a required pointer is null");
    const std::string_view name(type, type_length);
    const TensorType* const found = cerne::find_encodable_type(name);
    if (found == nullptr) {
      throw invalid("there is no encoder of type " + cerne::quoted(name) +
                    "; allowed: " + cerne::encodable_types());
    }
    if (width % found->block_values != 0 || width == 0) {
      throw invalid("a row of " + std::to_string(width) + " values; allowed for " + found->name +
                    ": a multiple of " + std::to_string(found->block_values));
    }
    if (num_threads > kMaxThreads) {
      throw invalid(std::to_string(num_threads) + " threads; allowed: 0 to " +
                    std::to_string(kMaxThreads));
    }
    // A value takes at most four bytes on either side.
    if (num_rows > (UINT64_MAX >> 3) / width || num_rows * width > (SIZE_MAX >> 3)) {
      throw invalid(std::to_string(num_rows) + " rows of " + std::to_string(width) +
                    " values are more than memory can hold");
    }
    const uint64_t size = num_rows * (width / found->block_values) * found->block_bytes;
    require((values != nullptr && blocks != nullptr) || size == 0 || capacity < size,
            "cerne_quantize_rows: a required pointer is null");
    *num_bytes = static_cast<size_t>(size);
    if (capacity < size) {
      cerne::set_last_error("cerne_quantize_rows: the buffer is too small");
      return CERNE_BUFFER_TOO_SMALL;
    }
    const std::vector<float> scaled = relative(importance, width);
    const Rows rows{*found, *cerne::find_encoder(*found),
                    values, num_rows,
                    width,  scaled.empty() ? nullptr : scaled.data(),
                    blocks};
    return encode_all(rows, num_threads, progress, user);
  });
}
