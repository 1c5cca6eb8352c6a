// The C functions of models: argument checks around ModelSource and Model.
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "gguf_cursor.h"
#include "handle.h"
#include "mapped_file.h"
#include "model/kv_cache.h"
#include "model_handle.h"

using cerne::alive;
using cerne::guarded;
using cerne::invalid;
using cerne::Model;
using cerne::quoted;
using cerne::require;

namespace {

void check_threads(uint32_t num_threads) {
  if (num_threads >= 1 && num_threads <= 1024) return;
  throw invalid("the number of threads is " + std::to_string(num_threads) + "; allowed: 1 to 1024");
}

cerne_model& filling(cerne_model* model) {
  cerne_model& self = alive(model);
  require(self.model == nullptr, "the model is built; it cannot be changed");
  require(self.source != nullptr, "building the model failed; only destroy is allowed");
  return self;
}

const Model& built(const cerne_model* model) {
  const cerne_model& self = alive(model);
  require(self.model != nullptr, "the model is not built yet; call cerne_model_build");
  return *self.model;
}

std::shared_ptr<const Model> pack(const cerne::ModelSource& source, uint32_t num_threads,
                                  cerne_progress progress, void* user) {
  std::mutex one_at_a_time;
  std::function<bool(uint64_t, uint64_t)> hear;
  if (progress != nullptr) {
    hear = [&](uint64_t done, uint64_t total) {
      const std::lock_guard<std::mutex> lock(one_at_a_time);
      return progress(user, done, total) != 0;
    };
  }
  return std::make_shared<const Model>(source, num_threads, hear);
}

std::string name_of(const char* text, size_t length) {
  require(text != nullptr || length == 0, "a required pointer is null");
  return std::string(text == nullptr ? "" : text, length);
}

uint64_t page_bytes(const Model& model) {
  const cerne::ModelConfig& c = model.config();
  return cerne::KvCache({c.layers, c.kv_heads, c.head_dim, model.half_cache()}, 0).page_bytes();
}

}  // namespace

extern "C" {

cerne_status cerne_model_open(const char* path, size_t path_length, uint32_t num_threads,
                              cerne_progress progress, void* user, cerne_model** out) {
  return guarded([&]() -> cerne_status {
    require(path != nullptr && out != nullptr, "cerne_model_open: a required pointer is null");
    const std::string name(path, path_length);
    require(name.find('\0') == std::string::npos, "cerne_model_open: the path holds a zero byte");
    check_threads(num_threads);
    const cerne::MappedFile mapped(name);
    const cerne::GgufFile file(mapped.data(), mapped.size());
    auto made = std::make_unique<cerne_model>();
    made->model = pack(cerne::source_of(file), num_threads, progress, user);
    made->source = nullptr;
    *out = made.release();
    return CERNE_OK;
  });
}

cerne_status cerne_model_create(cerne_model** out) {
  return guarded([&]() -> cerne_status {
    require(out != nullptr, "cerne_model_create: a required pointer is null");
    *out = new cerne_model();
    return CERNE_OK;
  });
}

void cerne_model_destroy(cerne_model* model) { cerne::destroy(model); }

cerne_status cerne_model_set_string(cerne_model* model, const char* name, size_t name_length,
                                    const char* value, size_t value_length) {
  return guarded([&]() -> cerne_status {
    cerne_model& self = filling(model);
    const std::string key = name_of(name, name_length);
    const std::string text = name_of(value, value_length);
    if (key == "architecture") {
      self.source->architecture = text;
    } else {
      self.source->texts[key] = text;
    }
    return CERNE_OK;
  });
}

cerne_status cerne_model_set_number(cerne_model* model, const char* name, size_t name_length,
                                    double value) {
  return guarded([&]() -> cerne_status {
    cerne_model& self = filling(model);
    self.source->numbers[name_of(name, name_length)] = value;
    return CERNE_OK;
  });
}

cerne_status cerne_model_add_tensor(cerne_model* model, const char* name, size_t name_length,
                                    const char* type, size_t type_length, uint64_t rows,
                                    uint64_t width, const uint8_t* data, uint64_t num_bytes) {
  return guarded([&]() -> cerne_status {
    cerne_model& self = filling(model);
    const std::string key = name_of(name, name_length);
    const std::string kind = name_of(type, type_length);
    const cerne::TensorType* const found = cerne::find_tensor_type(kind);
    if (found == nullptr || found->dequantize == nullptr) {
      throw invalid("tensor " + quoted(key) + " has type " + quoted(kind) +
                    "; known: " + cerne::decodable_types());
    }
    const bool whole = rows > 0 && width > 0 && width % found->block_values == 0 &&
                       rows <= (uint64_t{1} << 32) && width <= (uint64_t{1} << 32);
    if (!whole || num_bytes / rows != width / found->block_values * found->block_bytes ||
        num_bytes % rows != 0) {
      throw invalid("tensor " + quoted(key) + " of " + std::to_string(rows) + " rows of " +
                    std::to_string(width) + " " + kind + " values cannot have " +
                    std::to_string(num_bytes) + " bytes");
    }
    require(data != nullptr, "cerne_model_add_tensor: a required pointer is null");
    if (!self.source->tensors.emplace(key, cerne::StoredTensor{found, data, rows, width}).second) {
      throw invalid("tensor " + quoted(key) + " is there already");
    }
    return CERNE_OK;
  });
}

cerne_status cerne_model_build(cerne_model* model, uint32_t num_threads, cerne_progress progress,
                               void* user) {
  return guarded([&]() -> cerne_status {
    cerne_model& self = filling(model);
    check_threads(num_threads);
    const std::unique_ptr<cerne::ModelSource> source = std::move(self.source);
    self.model = pack(*source, num_threads, progress, user);
    return CERNE_OK;
  });
}

cerne_status cerne_model_statistic(const cerne_model* model, const char* name, size_t name_length,
                                   uint64_t* value) {
  return guarded([&]() -> cerne_status {
    const Model& self = built(model);
    require(value != nullptr, "cerne_model_statistic: a required pointer is null");
    const std::string key = name_of(name, name_length);
    const cerne::ModelConfig& c = self.config();
    const std::pair<const char*, uint64_t> known[] = {{"vocab_size", c.vocab},
                                                      {"context", c.context},
                                                      {"layers", c.layers},
                                                      {"width", c.width},
                                                      {"ffn_width", c.ffn_width},
                                                      {"heads", c.heads},
                                                      {"kv_heads", c.kv_heads},
                                                      {"head_dim", c.head_dim},
                                                      {"weight_bytes", self.weight_bytes()},
                                                      {"page_bytes", page_bytes(self)},
                                                      {"page_positions", cerne::kPagePositions}};
    for (const auto& [known_name, number] : known) {
      if (key != known_name) continue;
      *value = number;
      return CERNE_OK;
    }
    throw invalid("unknown statistic " + quoted(key) +
                  "; known: vocab_size, context, layers, width, ffn_width, heads, kv_heads, "
                  "head_dim, weight_bytes, page_bytes, page_positions");
  });
}

const char* cerne_arithmetic(void) { return "cerne-1"; }

}  // extern "C"
