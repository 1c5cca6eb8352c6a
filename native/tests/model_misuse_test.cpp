// The C functions of models and contexts in wrong orders and with wrong arguments.
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cerne.h"
#include "check.h"
#include "refused.h"
#include "small_model.h"

using cerne_test::NamedTensor;
using cerne_test::refused;
using cerne_test::set_number;
using cerne_test::set_option;
using cerne_test::set_string;
using cerne_test::small_tensors;

namespace {

// Builds the small model with one thing changed and expects a refusal.
template <typename Change>
void refuse_build(Change change, const char* part) {
  cerne_model* model = nullptr;
  CHECK(cerne_model_create(&model) == CERNE_OK);
  std::vector<NamedTensor> tensors = small_tensors();
  std::vector<NamedTensor> kept;
  std::string architecture = "llama";
  change(model, tensors, architecture);
  CHECK(set_string(model, "architecture", architecture) == CERNE_OK);
  for (const NamedTensor& tensor : tensors)
    CHECK(cerne_test::add_tensor(model, tensor) == CERNE_OK);
  refused(cerne_model_build(model, 1, nullptr, nullptr), part);
  refused(cerne_model_build(model, 1, nullptr, nullptr), "only destroy is allowed");
  cerne_model_destroy(model);
}

void numbers_but(cerne_model* model, const std::string& name, double value) {
  for (const auto& [key, number] : cerne_test::small_numbers()) {
    CHECK(set_number(model, key, key == name ? value : number) == CERNE_OK);
  }
}

using Tensors = std::vector<NamedTensor>;

CERNE_TEST(models_that_contradict_themselves_are_refused) {
  const auto number = [](const char* name, double value, const char* part) {
    refuse_build(
        [&](cerne_model* model, Tensors&, std::string&) { numbers_but(model, name, value); }, part);
  };
  number("block_count", 3, "blk.2.");
  number("block_count", 0, "allowed: a whole number from 1");
  number("embedding_length", 1.5, "whole number");
  number("embedding_length", NAN, "whole number");
  number("attention.head_count", 3, "no multiple");
  number("attention.head_count_kv", 4, "needed: 32 of 32");
  number("attention.layer_norm_rms_epsilon", -1.0, "epsilon");
  number("rope.freq_base", 0.0, "freq_base");
  refuse_build([](cerne_model*, Tensors&, std::string&) {}, "no llama.context_length");
  refuse_build(
      [](cerne_model* model, Tensors&, std::string&) {
        numbers_but(model, "", 0);
        set_number(model, "attn_logit_softcapping", 50.0);
      },
      "llama.attn_logit_softcapping = 50, which this engine does not know");
  refuse_build(
      [](cerne_model* model, Tensors&, std::string& architecture) {
        numbers_but(model, "", 0);
        architecture = "mamba";
      },
      "'mamba'; this engine runs llama");
  refuse_build(
      [](cerne_model* model, Tensors& tensors, std::string&) {
        numbers_but(model, "", 0);
        tensors.pop_back();
      },
      "no tensor 'blk.1.ffn_down.weight'");
  refuse_build(
      [](cerne_model* model, Tensors& tensors, std::string&) {
        numbers_but(model, "", 0);
        tensors.push_back({"blk.0.ffn_gate_exps.weight", 1, 32, std::vector<float>(32)});
      },
      "no place in the architecture llama");
  refuse_build(
      [](cerne_model* model, Tensors& tensors, std::string&) {
        numbers_but(model, "", 0);
        set_string(model, "rope.scaling.type", "longrope");
        static_cast<void>(tensors);
      },
      "longrope");
}

CERNE_TEST(model_calls_out_of_order_are_refused) {
  cerne_model* model = nullptr;
  cerne_context* context = nullptr;
  uint64_t number = 0;
  refused(cerne_model_create(nullptr), "null");
  refused(cerne_model_open("no such file", 12, 1, nullptr, nullptr, &model), "cannot open");
  refused(cerne_model_open("a", 1, 0, nullptr, nullptr, &model),
          "threads is 0; allowed: 1 to 1024");
  refused(cerne_model_open("a", 1, 10000, nullptr, nullptr, &model), "10000");
  CHECK(cerne_model_create(&model) == CERNE_OK);
  refused(cerne_model_statistic(model, "layers", 6, &number), "not built");
  refused(cerne_context_create(model, &context), "not built");
  const float values[32] = {};
  const auto* const bytes = reinterpret_cast<const uint8_t*>(values);
  refused(cerne_model_add_tensor(model, "a", 1, "Q9", 2, 1, 32, bytes, 34), "known: F32");
  refused(cerne_model_add_tensor(model, "a", 1, "F32", 3, 1, 32, bytes, 127), "cannot have 127");
  refused(cerne_model_add_tensor(model, "a", 1, "F32", 3, ~uint64_t{0}, 4, bytes, 16), "cannot");
  refused(cerne_model_add_tensor(model, "a", 1, "F32", 3, 1, 32, nullptr, 128), "null");
  CHECK(cerne_model_add_tensor(model, "a", 1, "F32", 3, 1, 32, bytes, 128) == CERNE_OK);
  refused(cerne_model_add_tensor(model, "a", 1, "F32", 3, 1, 32, bytes, 128), "already");
  cerne_model_destroy(model);

  model = cerne_test::small_model();
  refused(set_number(model, "block_count", 1), "cannot be changed");
  refused(cerne_model_build(model, 1, nullptr, nullptr), "cannot be changed");
  refused(cerne_model_statistic(model, "size", 4, &number), "known: vocab_size");
  CHECK(cerne_model_statistic(model, "layers", 6, &number) == CERNE_OK && number == 2);
  refused(cerne_context_create(model, nullptr), "null");
  CHECK(cerne_context_create(model, &context) == CERNE_OK);
  // The context keeps what it needs.
  cerne_model_destroy(model);
  refused(set_option(context, "threads", 0), "threads is 0; allowed: 1 to 1024");
  refused(set_option(context, "threads", 10000), "allowed");
  refused(set_option(context, "capacity", cerne_test::kContext + 1), "allowed: 1 to 200");
  refused(set_option(context, "batch_tokens", -5), "allowed");
  refused(set_option(context, "speed", 1), "known: threads, capacity");
  uint64_t sequence = 0;
  CHECK(cerne_context_start(context, &sequence) == CERNE_OK);
  refused(set_option(context, "threads", 1), "before the first sequence");
  refused(cerne_context_drop(context, sequence + 1), "was it dropped");
  CHECK(cerne_context_drop(context, sequence) == CERNE_OK);
  refused(cerne_context_length(context, sequence, &number), "was it dropped");
  cerne_context_destroy(context);
  cerne_context_destroy(nullptr);
  cerne_model_destroy(nullptr);
  refused(cerne_context_stop(nullptr), "null");
}

// A progress function that stops at once.
int32_t stop_at_once(void*, uint64_t, uint64_t) { return 1; }

CERNE_TEST(loading_can_be_stopped) {
  cerne_model* model = nullptr;
  CHECK(cerne_model_create(&model) == CERNE_OK);
  const Tensors tensors = small_tensors();
  cerne_test::fill(model, tensors);
  CHECK(cerne_model_build(model, 2, stop_at_once, nullptr) == CERNE_STOPPED);
  refused(set_number(model, "block_count", 2), "only destroy");
  cerne_model_destroy(model);
}

// A thousand random calls on living handles: a status each, and what is right still works.
CERNE_TEST(random_misuse_of_contexts_returns_a_status) {
  cerne_model* const model = cerne_test::small_model();
  std::mt19937 random(11);
  for (int round = 0; round < 20; ++round) {
    cerne_context* context = nullptr;
    CHECK(cerne_context_create(model, &context) == CERNE_OK);
    const char* const names[] = {"threads", "capacity", "max_sequences", "batch_tokens", "", "x"};
    for (int i = 0; i < 4; ++i) {
      // Small values, so that the allowed ones cost little.
      set_option(context, names[random() % 6], static_cast<int64_t>(random() % 6) - 2);
    }
    for (int i = 0; i < 50; ++i) {
      uint64_t handle = random() % 8;
      uint64_t out = 0;
      std::vector<uint64_t> sequences(random() % 5);
      std::vector<uint32_t> ids(sequences.size());
      std::vector<uint8_t> wanted(sequences.size());
      for (size_t k = 0; k < ids.size(); ++k) {
        sequences[k] = random() % 4;
        ids[k] = static_cast<uint32_t>(random() % (cerne_test::kVocab + 2));
        wanted[k] = random() % 2 != 0;
      }
      std::vector<float> logits((random() % 5) * cerne_test::kVocab);
      switch (random() % 6) {
        case 0:
          cerne_context_start(context, &out);
          break;
        case 1:
          cerne_context_fork(context, handle, &out);
          break;
        case 2:
          cerne_context_drop(context, handle);
          break;
        case 3:
          cerne_context_truncate(context, handle, random() % 10);
          break;
        case 4:
          cerne_context_decode(context, sequences.data(), ids.data(), wanted.data(), ids.size(),
                               logits.data(), logits.size());
          break;
        default:
          if (random() % 4 == 0) cerne_context_stop(context);
          cerne_context_length(context, handle, random() % 2 != 0 ? &out : nullptr);
      }
    }
    cerne_context_destroy(context);
  }
  cerne_model_destroy(model);
}

}  // namespace
