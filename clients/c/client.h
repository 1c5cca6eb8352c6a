/* What both programs share: errors that end the program, and text to ids of any length. */
#ifndef CERNE_CLIENT_H_
#define CERNE_CLIENT_H_

#include <cerne.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program with the library's sentence. */
static inline void check(cerne_status status, const char* what) {
  size_t length = 0;
  const char* text;
  if (status == CERNE_OK) return;
  text = cerne_last_error(&length);
  fprintf(stderr, "error: %s: %.*s\n", what, (int)length, text);
  exit(2);
}

static inline void* get_memory(size_t size) {
  void* memory = malloc(size > 0 ? size : 1);
  if (memory == NULL) {
    fprintf(stderr, "error: out of memory\n");
    exit(2);
  }
  return memory;
}

typedef struct {
  uint32_t* data;
  size_t size, capacity;
} Ids;

static inline void reserve_ids(Ids* ids, size_t more) {
  if (ids->size + more <= ids->capacity) return;
  ids->capacity = 2 * (ids->size + more);
  ids->data = realloc(ids->data, ids->capacity * sizeof *ids->data);
  if (ids->data == NULL) {
    fprintf(stderr, "error: out of memory\n");
    exit(2);
  }
}

static inline void add_id(Ids* ids, uint32_t id) {
  reserve_ids(ids, 1);
  ids->data[ids->size++] = id;
}

static inline void add_text(Ids* ids, cerne_tokenizer* tokenizer, const char* text) {
  const size_t size = strlen(text);
  size_t needed = 0;
  /* A space before the text may make one id more than there are bytes. */
  reserve_ids(ids, 2 * size + 1);
  check(cerne_tokenizer_encode(tokenizer, (const uint8_t*)text, size, ids->data + ids->size,
                               ids->capacity - ids->size, &needed),
        "encode");
  ids->size += needed;
}

static inline int64_t token_number(const cerne_tokenizer* tokenizer, const char* name) {
  int64_t value = -1;
  check(cerne_tokenizer_statistic(tokenizer, name, strlen(name), &value), name);
  return value;
}

static inline void set_number(cerne_sampler* sampler, const char* name, double value) {
  check(cerne_sampler_set_number(sampler, name, strlen(name), value), name);
}

static inline void set_integer(cerne_sampler* sampler, const char* name, int64_t value) {
  check(cerne_sampler_set_integer(sampler, name, strlen(name), value), name);
}

#endif /* CERNE_CLIENT_H_ */
