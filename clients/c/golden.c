/* The golden test: an answer token by token, with all logits, and again in one call.
 *
 *   golden MODEL.gguf PROMPT SEED TEMPERATURE TOP_K TOP_P MAX_TOKENS LOGITS_FILE
 *
 * Prints the ids of the prompt, the ids of the answer and the bytes of the answer in hex, a line
 * each, and writes the logits before each token. Python and Go must write the same.
 */
#include "client.h"

static int32_t print_hex(void* user, uint32_t id, const uint8_t* bytes, size_t num_bytes) {
  size_t i;
  (void)id;
  for (i = 0; i < num_bytes; ++i) fprintf((FILE*)user, "%02x", bytes[i]);
  return 0;
}

static void print_ids(const uint32_t* ids, size_t count) {
  size_t i;
  for (i = 0; i < count; ++i) printf(i == 0 ? "%u" : " %u", (unsigned)ids[i]);
  printf("\n");
}

int main(int argc, char** argv) {
  cerne_model* model = NULL;
  cerne_context* context = NULL;
  cerne_tokenizer* tokenizer = NULL;
  cerne_sampler* sampler = NULL;
  uint64_t sequence = 0, vocab = 0;
  size_t i, wanted, count = 0;
  Ids prompt = {NULL, 0, 0};
  uint32_t *answer, *again;
  uint64_t* sequences;
  uint8_t* marks;
  float* logits;
  uint32_t stop;
  FILE* file;

  if (argc != 9) return 2;
  check(cerne_model_open(argv[1], strlen(argv[1]), 1, NULL, NULL, &model), argv[1]);
  check(cerne_tokenizer_open_gguf(argv[1], strlen(argv[1]), &tokenizer), argv[1]);
  check(cerne_context_create(model, &context), "context");
  check(cerne_sampler_create(&sampler), "sampler");
  set_integer(sampler, "seed", (int64_t)strtoull(argv[3], NULL, 10));
  set_number(sampler, "temperature", atof(argv[4]));
  set_integer(sampler, "top_k", atoi(argv[5]));
  set_number(sampler, "top_p", atof(argv[6]));
  wanted = (size_t)atoi(argv[7]);
  check(cerne_model_statistic(model, "vocab_size", 10, &vocab), "vocab_size");
  stop = (uint32_t)token_number(tokenizer, "eos");

  if (token_number(tokenizer, "add_bos") == 1) {
    add_id(&prompt, (uint32_t)token_number(tokenizer, "bos"));
  }
  add_text(&prompt, tokenizer, argv[2]);
  print_ids(prompt.data, prompt.size);

  answer = get_memory(wanted * sizeof *answer);
  again = get_memory(wanted * sizeof *again);
  logits = get_memory((size_t)vocab * sizeof *logits);
  sequences = get_memory(prompt.size * sizeof *sequences);
  marks = get_memory(prompt.size);
  file = fopen(argv[8], "wb");
  if (file == NULL) return 2;
  check(cerne_context_start(context, &sequence), "start");
  for (i = 0; i < prompt.size; ++i) {
    sequences[i] = sequence;
    marks[i] = i + 1 == prompt.size;
  }
  check(cerne_sampler_accept(sampler, prompt.data, prompt.size, 0), "accept");
  check(cerne_context_decode(context, sequences, prompt.data, marks, prompt.size, logits,
                             (size_t)vocab),
        "decode");
  marks[0] = 1;
  while (count < wanted) {
    fwrite(logits, sizeof *logits, (size_t)vocab, file);
    check(cerne_sampler_choose(sampler, logits, (size_t)vocab, 0, prompt.size + count,
                               &answer[count]),
          "choose");
    check(cerne_sampler_accept(sampler, &answer[count], 1, 1), "accept");
    if (answer[count++] == stop) break;
    if (count == wanted) break;
    check(cerne_context_decode(context, &sequence, &answer[count - 1], marks, 1, logits,
                               (size_t)vocab),
          "decode");
  }
  if (fclose(file) != 0) return 2;
  print_ids(answer, count);
  check(cerne_context_drop(context, sequence), "drop");

  check(cerne_generate(context, sampler, tokenizer, prompt.data, prompt.size, &stop, 1, 0,
                       print_hex, stdout, again, wanted, &i),
        "generate");
  printf("\n");
  if (i != count || memcmp(answer, again, count * sizeof *answer) != 0) {
    fprintf(stderr, "error: cerne_generate gave another answer\n");
    return 1;
  }
  free(marks);
  free(sequences);
  free(logits);
  free(again);
  free(answer);
  free(prompt.data);
  cerne_sampler_destroy(sampler);
  cerne_context_destroy(context);
  cerne_tokenizer_destroy(tokenizer);
  cerne_model_destroy(model);
  return 0;
}
