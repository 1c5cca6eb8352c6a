/* A conversation with a GGUF model: one line in, one answer out, until the input ends.
 *
 *   chat MODEL.gguf [TEMPERATURE [SEED]]
 *
 * The conversation is written with the model's own control tokens: ChatML, cerne's or Gemma's.
 * Every turn reads the whole conversation again, which keeps this program short.
 */
#include "client.h"

/* How a turn begins and ends; `end` is a control token. */
typedef struct {
  const char *user, *after_user, *assistant, *after_assistant, *end, *behind_end;
} Style;

static const Style kStyles[] = {
    {"<|im_start|>", "user\n", "<|im_start|>", "assistant\n", "<|im_end|>", "\n"},
    {"<|user|>", "", "<|assistant|>", "", "<|end|>", ""},
    {"<start_of_turn>", "user\n", "<start_of_turn>", "model\n", "<end_of_turn>", "\n"},
};

static uint32_t special(const cerne_tokenizer* tokenizer, const char* name) {
  uint32_t id = 0;
  check(cerne_tokenizer_special(tokenizer, name, strlen(name), &id), name);
  return id;
}

static const Style* find_style(const cerne_tokenizer* tokenizer) {
  size_t i;
  for (i = 0; i < sizeof kStyles / sizeof *kStyles; ++i) {
    uint32_t id = 0;
    const Style* const style = &kStyles[i];
    if (cerne_tokenizer_special(tokenizer, style->user, strlen(style->user), &id) == CERNE_OK &&
        cerne_tokenizer_special(tokenizer, style->end, strlen(style->end), &id) == CERNE_OK) {
      return style;
    }
  }
  fprintf(stderr, "error: the model has the control tokens of no known conversation\n");
  exit(2);
}

static int32_t print_bytes(void* user, uint32_t id, const uint8_t* bytes, size_t num_bytes) {
  (void)user;
  (void)id;
  fwrite(bytes, 1, num_bytes, stdout);
  return fflush(stdout) != 0;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

int main(int argc, char** argv) {
  enum { kContext = 4096, kAnswer = 512 };
  char line[4096];
  cerne_model* model = NULL;
  cerne_context* context = NULL;
  cerne_tokenizer* tokenizer = NULL;
  cerne_sampler* sampler = NULL;
  uint64_t limit = 0;
  const Style* style;
  uint32_t stops[2];
  Ids talk = {NULL, 0, 0};

  if (argc < 2) {
    fprintf(stderr, "usage: %s MODEL.gguf [TEMPERATURE [SEED]]\n", argv[0]);
    return 2;
  }
  check(cerne_model_open(argv[1], strlen(argv[1]), 2, NULL, NULL, &model), argv[1]);
  check(cerne_tokenizer_open_gguf(argv[1], strlen(argv[1]), &tokenizer), argv[1]);
  check(cerne_context_create(model, &context), "context");
  check(cerne_sampler_create(&sampler), "sampler");
  set_number(sampler, "temperature", argc > 2 ? atof(argv[2]) : 0.0);
  set_integer(sampler, "seed", argc > 3 ? (int64_t)strtoull(argv[3], NULL, 10) : 0);
  check(cerne_model_statistic(model, "context", 7, &limit), "context");
  limit = smaller((size_t)limit, kContext);
  style = find_style(tokenizer);
  stops[0] = special(tokenizer, style->end);
  stops[1] =
      token_number(tokenizer, "eos") < 0 ? stops[0] : (uint32_t)token_number(tokenizer, "eos");
  if (token_number(tokenizer, "add_bos") == 1) {
    add_id(&talk, (uint32_t)token_number(tokenizer, "bos"));
  }
  while (printf("> "), fflush(stdout), fgets(line, sizeof line, stdin) != NULL) {
    size_t count = 0, room;
    line[strcspn(line, "\n")] = '\0';
    add_id(&talk, special(tokenizer, style->user));
    add_text(&talk, tokenizer, style->after_user);
    add_text(&talk, tokenizer, line);
    add_id(&talk, stops[0]);
    add_text(&talk, tokenizer, style->behind_end);
    add_id(&talk, special(tokenizer, style->assistant));
    add_text(&talk, tokenizer, style->after_assistant);
    if (talk.size >= limit) {
      fprintf(stderr, "error: the conversation fills the context of %d tokens\n", (int)limit);
      break;
    }
    room = smaller(kAnswer, (size_t)limit - talk.size);
    reserve_ids(&talk, room);
    check(cerne_generate(context, sampler, tokenizer, talk.data, talk.size, stops, 2, 0,
                         print_bytes, NULL, talk.data + talk.size, room, &count),
          "generate");
    talk.size += count;
    /* The next turn begins behind the end of this one, even where there was no room for it. */
    if (talk.data[talk.size - 1] != stops[0]) add_id(&talk, stops[0]);
    add_text(&talk, tokenizer, style->behind_end);
    printf("\n");
  }
  printf("\n");
  free(talk.data);
  cerne_sampler_destroy(sampler);
  cerne_context_destroy(context);
  cerne_tokenizer_destroy(tokenizer);
  cerne_model_destroy(model);
  return 0;
}
