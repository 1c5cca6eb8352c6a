// Samplers, generation and tokenizers of model files in wrong orders and with wrong arguments.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cerne.h"
#include "check.h"
#include "refused.h"
#include "small_model.h"

using cerne_test::refused;

namespace {

cerne_status set_sampler(cerne_sampler* sampler, const char* name, double value) {
  return cerne_sampler_set_number(sampler, name, std::strlen(name), value);
}

CERNE_TEST(sampler_calls_that_make_no_sense_are_refused) {
  cerne_sampler* sampler = nullptr;
  uint32_t token = 7;
  const float logits[3] = {0, 1, 1};
  refused(cerne_sampler_create(nullptr), "null");
  refused(cerne_sampler_choose(nullptr, logits, 3, 0, 0, &token), "null");
  CHECK(cerne_sampler_create(&sampler) == CERNE_OK);
  refused(set_sampler(sampler, "temperature", NAN), "allowed: 0 to 100");
  refused(set_sampler(sampler, "top_p", 0), "allowed");
  refused(set_sampler(sampler, "heat", 1), "known: temperature");
  refused(cerne_sampler_set_integer(sampler, "top_k", 5, -1), "0 or more");
  refused(cerne_sampler_set_integer(sampler, nullptr, 0, 1), "null");
  refused(cerne_sampler_add_bias(sampler, 0, INFINITY), "allowed");
  refused(cerne_sampler_accept(sampler, nullptr, 1, 0), "null");
  refused(cerne_sampler_choose(sampler, logits, 0, 0, 0, &token), "size");
  refused(cerne_sampler_choose(sampler, nullptr, 3, 0, 0, &token), "null");
  CHECK(set_sampler(sampler, "temperature", 0) == CERNE_OK);
  CHECK(cerne_sampler_choose(sampler, logits, 3, 0, 0, &token) == CERNE_OK && token == 1);
  CHECK(cerne_sampler_add_bias(sampler, 3, 1.0) == CERNE_OK);
  refused(cerne_sampler_choose(sampler, logits, 3, 0, 0, &token), "outside the vocabulary");
  const float bad[2] = {0, NAN};
  cerne_sampler_destroy(sampler);
  CHECK(cerne_sampler_create(&sampler) == CERNE_OK);
  refused(cerne_sampler_choose(sampler, bad, 2, 0, 0, &token), "got nan");
  CHECK(token == 1);
  cerne_sampler_destroy(sampler);
  cerne_sampler_destroy(nullptr);
}

struct Heard {
  size_t left;
  size_t count;
};

int32_t stop_after(void* user, uint32_t, const uint8_t* bytes, size_t num_bytes) {
  auto* const heard = static_cast<Heard*>(user);
  CHECK(bytes == nullptr && num_bytes == 0);
  ++heard->count;
  return heard->left-- == 1;
}

CERNE_TEST(generation_ends_at_the_limit_a_stop_token_or_a_callback) {
  cerne_model* const model = cerne_test::small_model();
  cerne_context* context = nullptr;
  cerne_sampler* sampler = nullptr;
  CHECK(cerne_context_create(model, &context) == CERNE_OK);
  CHECK(cerne_sampler_create(&sampler) == CERNE_OK);
  const uint32_t prompt[] = {1, 2, 3};
  uint32_t whole[20], part[20];
  size_t count = 0;
  Heard heard{1000, 0};
  CHECK(cerne_generate(context, sampler, nullptr, prompt, 3, nullptr, 0, 0, stop_after, &heard,
                       whole, 20, &count) == CERNE_OK);
  CHECK(count == 20 && heard.count == 20);
  heard = {4, 0};
  CHECK(cerne_generate(context, sampler, nullptr, prompt, 3, nullptr, 0, 0, stop_after, &heard,
                       part, 20, &count) == CERNE_STOPPED);
  CHECK(count == 4 && std::memcmp(part, whole, 4 * sizeof *part) == 0);
  CHECK(cerne_generate(context, sampler, nullptr, prompt, 3, &whole[5], 1, 0, nullptr, nullptr,
                       part, 20, &count) == CERNE_OK);
  CHECK(count <= 6 && part[count - 1] == whole[5]);
  // Every call gave its sequence back: the context has one place.
  CHECK(cerne_context_stop(context) == CERNE_OK);
  CHECK(cerne_generate(context, sampler, nullptr, prompt, 3, nullptr, 0, 0, nullptr, nullptr, part,
                       20, &count) == CERNE_STOPPED);
  CHECK(count == 0);
  refused(cerne_generate(context, sampler, nullptr, prompt, 0, nullptr, 0, 0, nullptr, nullptr,
                         part, 20, &count),
          "no tokens");
  refused(cerne_generate(context, sampler, nullptr, prompt, 3, nullptr, 0, 0, nullptr, nullptr,
                         part, cerne_test::kContext, &count),
          "capacity is 200");
  const uint32_t outside[] = {cerne_test::kVocab};
  refused(cerne_generate(context, sampler, nullptr, outside, 1, nullptr, 0, 0, nullptr, nullptr,
                         part, 1, &count),
          "token id 40; allowed: less than 40");
  CHECK(cerne_generate(context, sampler, nullptr, prompt, 3, nullptr, 0, 0, nullptr, nullptr, part,
                       20, &count) == CERNE_OK);
  CHECK(std::memcmp(part, whole, sizeof part) == 0);
  cerne_sampler_destroy(sampler);
  cerne_context_destroy(context);
  cerne_model_destroy(model);
}

// A thousand sequences of random calls on random handles, null among them: a status each.
CERNE_TEST(a_thousand_random_sequences_return_a_status) {
  cerne_model* const model = cerne_test::small_model();
  std::mt19937 generator(23);
  const auto random = [&] { return static_cast<uint32_t>(generator()); };
  const char* const names[] = {"temperature", "top_p", "seed", "top_k", "min_p", "", "x"};
  const double numbers[] = {0, 0.5, 1, -1, 101, NAN, INFINITY, 1e-300};
  const char* const files[] = {"", "no such file", "/", "/dev/null", "a"};
  for (int round = 0; round < 1000; ++round) {
    cerne_sampler* sampler = nullptr;
    cerne_context* context = nullptr;
    cerne_tokenizer* tokenizer = nullptr;
    if (random() % 8 != 0) cerne_sampler_create(&sampler);
    if (round % 10 == 0) cerne_context_create(model, &context);
    if (random() % 2 == 0) cerne_tokenizer_create(&tokenizer);
    if (context != nullptr) cerne_test::set_option(context, "threads", 1);
    for (int i = 0; i < 12; ++i) {
      const char* const name = names[random() % 7];
      std::vector<float> logits(random() % 40);
      for (float& logit : logits) logit = static_cast<float>(numbers[random() % 8]);
      std::vector<uint32_t> ids(random() % 4);
      for (uint32_t& id : ids) id = random() % (cerne_test::kVocab + 1);
      uint32_t token = 0;
      int64_t number = 0;
      size_t count = 0;
      uint32_t answer[4];
      cerne_tokenizer* opened = nullptr;
      const char* const file = files[random() % 5];
      switch (random() % 9) {
        case 0:
          set_sampler(sampler, name, numbers[random() % 8]);
          break;
        case 1:
          cerne_sampler_set_integer(sampler, name, std::strlen(name), int64_t(random() % 9) - 3);
          break;
        case 2:
          cerne_sampler_add_bias(sampler, random() % 50, numbers[random() % 8]);
          break;
        case 3:
          cerne_sampler_accept(sampler, ids.data(), ids.size(), random() % 2);
          break;
        case 4:
          cerne_sampler_choose(sampler, logits.data(), logits.size(), random() % 3, random(),
                               random() % 8 == 0 ? nullptr : &token);
          CHECK(token == 0 || token < logits.size());
          break;
        case 5:
          CHECK(cerne_tokenizer_open_gguf(file, std::strlen(file), &opened) != CERNE_OK);
          CHECK(opened == nullptr);
          break;
        case 6:
          CHECK(cerne_tokenizer_special(tokenizer, name, std::strlen(name), &token) != CERNE_OK);
          CHECK(cerne_tokenizer_statistic(tokenizer, "bos", 3, &number) != CERNE_OK);
          break;
        case 7:
          if (random() % 4 == 0) cerne_sampler_reset(sampler);
          if (random() % 16 == 0) cerne_context_stop(context);
          break;
        default:
          cerne_generate(context, sampler, random() % 4 == 0 ? tokenizer : nullptr, ids.data(),
                         ids.size(), ids.data(), ids.size(), 0, nullptr, nullptr, answer,
                         random() % 5, random() % 8 == 0 ? nullptr : &count);
          CHECK(count <= 4);
      }
    }
    cerne_sampler_destroy(sampler);
    cerne_context_destroy(context);
    cerne_tokenizer_destroy(tokenizer);
  }
  cerne_model_destroy(model);
}

}  // namespace
