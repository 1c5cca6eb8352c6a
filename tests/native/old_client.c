/* A program of the time of interface version 100. Its declarations are frozen: it must compile, link
 * and run with every library whose soname is libcerne.so.1. Do not change it with the header. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct cerne_tokenizer cerne_tokenizer;
typedef struct cerne_trainer cerne_trainer;
typedef int32_t (*cerne_progress)(void* user, uint64_t done, uint64_t total);

uint32_t cerne_abi_version(void);
const char* cerne_last_error(size_t* length);
int32_t cerne_tokenizer_create(cerne_tokenizer** out);
void cerne_tokenizer_destroy(cerne_tokenizer* tokenizer);
int32_t cerne_tokenizer_set_string(cerne_tokenizer* tokenizer, const char* name, size_t name_length,
                                   const char* value, size_t value_length);
int32_t cerne_tokenizer_set_vocabulary(cerne_tokenizer* tokenizer, const uint8_t* bytes,
                                       const uint64_t* offsets, size_t num_tokens);
int32_t cerne_tokenizer_set_merges(cerne_tokenizer* tokenizer, const uint32_t* pairs,
                                   size_t num_merges);
int32_t cerne_tokenizer_build(cerne_tokenizer* tokenizer);
int32_t cerne_tokenizer_encode(cerne_tokenizer* tokenizer, const uint8_t* text, size_t size,
                               uint32_t* ids, size_t capacity, size_t* num_ids);
int32_t cerne_tokenizer_decode(const cerne_tokenizer* tokenizer, const uint32_t* ids, size_t num_ids,
                               uint8_t* bytes, size_t capacity, size_t* num_bytes);
int32_t cerne_trainer_create(cerne_trainer** out);
void cerne_trainer_destroy(cerne_trainer* trainer);
int32_t cerne_trainer_feed(cerne_trainer* trainer, const uint8_t* text, size_t size);
int32_t cerne_trainer_train(cerne_trainer* trainer, uint32_t vocab_size, cerne_progress progress,
                            void* user);
int32_t cerne_trainer_statistic(cerne_trainer* trainer, const char* name, size_t name_length,
                                uint64_t* value);
int32_t cerne_trainer_tokens(const cerne_trainer* trainer, uint8_t* bytes, uint64_t* offsets);
int32_t cerne_trainer_merges(const cerne_trainer* trainer, uint32_t* pairs);

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, cerne_last_error(NULL));
  return 1;
}

int main(void) {
  static const uint8_t text[] = "low lower lowest";
  uint8_t bytes[4096], back[64];
  uint64_t offsets[512], merges = 0;
  uint32_t pairs[512], ids[64];
  size_t count = 0, size = 0, i;
  cerne_trainer* trainer = NULL;
  cerne_tokenizer* tokenizer = NULL;

  if (cerne_abi_version() / 100 != 1) return 1;
  if (cerne_trainer_create(&trainer) != 0) return fail("create");
  if (cerne_trainer_feed(trainer, text, sizeof text - 1) != 0) return fail("feed");
  if (cerne_trainer_train(trainer, 260, NULL, NULL) != 0) return fail("train");
  if (cerne_trainer_statistic(trainer, "merges", 6, &merges) != 0) return fail("statistic");
  if (cerne_trainer_tokens(trainer, bytes, offsets) != 0) return fail("tokens");
  if (cerne_trainer_merges(trainer, pairs) != 0) return fail("merges");
  cerne_trainer_destroy(trainer);
  if (cerne_tokenizer_create(&tokenizer) != 0) return fail("create");
  if (cerne_tokenizer_encode(tokenizer, text, 1, ids, 64, &count) != 1) return fail("status");
  if (cerne_tokenizer_set_string(tokenizer, "pattern", 7, "gpt2", 4) != 0) return fail("pattern");
  if (cerne_tokenizer_set_vocabulary(tokenizer, bytes, offsets, 256 + (size_t)merges) != 0 ||
      cerne_tokenizer_set_merges(tokenizer, pairs, (size_t)merges) != 0 ||
      cerne_tokenizer_build(tokenizer) != 0) {
    return fail("build");
  }
  if (cerne_tokenizer_encode(tokenizer, text, sizeof text - 1, ids, 64, &count) != 0) {
    return fail("encode");
  }
  if (cerne_tokenizer_decode(tokenizer, ids, count, back, sizeof back, &size) != 0 ||
      size != sizeof text - 1 || memcmp(back, text, size) != 0) {
    return fail("decode");
  }
  for (i = 0; i < count; ++i) printf("%u ", (unsigned)ids[i]);
  printf("\n");
  cerne_tokenizer_destroy(tokenizer);
  return 0;
}
