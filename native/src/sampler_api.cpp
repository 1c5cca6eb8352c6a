// The C functions of samplers: argument checks around Sampler.
#include <string>

#include "sampler_handle.h"

using cerne::alive;
using cerne::guarded;
using cerne::require;

extern "C" {

cerne_status cerne_sampler_create(cerne_sampler** out) {
  return guarded([&]() -> cerne_status {
    require(out != nullptr, "cerne_sampler_create: out is null");
    *out = new cerne_sampler();
    return CERNE_OK;
  });
}

void cerne_sampler_destroy(cerne_sampler* sampler) { cerne::destroy(sampler); }

cerne_status cerne_sampler_set_integer(cerne_sampler* sampler, const char* name, size_t name_length,
                                       int64_t value) {
  return guarded([&]() -> cerne_status {
    cerne_sampler& self = alive(sampler);
    require(name != nullptr, "cerne_sampler_set_integer: the name is null");
    self.sampler.params.set_integer(std::string(name, name_length), value);
    return CERNE_OK;
  });
}

cerne_status cerne_sampler_set_number(cerne_sampler* sampler, const char* name, size_t name_length,
                                      double value) {
  return guarded([&]() -> cerne_status {
    cerne_sampler& self = alive(sampler);
    require(name != nullptr, "cerne_sampler_set_number: the name is null");
    self.sampler.params.set_number(std::string(name, name_length), value);
    return CERNE_OK;
  });
}

cerne_status cerne_sampler_add_bias(cerne_sampler* sampler, uint32_t token, double bias) {
  return guarded([&]() -> cerne_status {
    alive(sampler).sampler.add_bias(token, bias);
    return CERNE_OK;
  });
}

cerne_status cerne_sampler_accept(cerne_sampler* sampler, const uint32_t* ids, size_t count,
                                  int32_t generated) {
  return guarded([&]() -> cerne_status {
    cerne_sampler& self = alive(sampler);
    require(ids != nullptr || count == 0, "cerne_sampler_accept: the ids are null");
    for (size_t i = 0; i < count; ++i) self.sampler.accept(ids[i], generated != 0);
    return CERNE_OK;
  });
}

cerne_status cerne_sampler_reset(cerne_sampler* sampler) {
  return guarded([&]() -> cerne_status {
    alive(sampler).sampler.reset();
    return CERNE_OK;
  });
}

cerne_status cerne_sampler_choose(const cerne_sampler* sampler, const float* logits, size_t size,
                                  uint32_t choice, uint64_t position, uint32_t* token) {
  return guarded([&]() -> cerne_status {
    const cerne_sampler& self = alive(sampler);
    require(logits != nullptr && token != nullptr,
            "cerne_sampler_choose: a required pointer is null");
    require(size > 0 && size <= UINT32_MAX, "cerne_sampler_choose: size must be 1 to 2^32 - 1");
    *token = self.sampler.choose(logits, size, choice, position);
    return CERNE_OK;
  });
}

}  // extern "C"
