/*
 * cerne.h: the C interface of the cerne core. Compiles as C99 and as C++.
 *
 * Rules that hold for every function:
 *   - A status is returned; CERNE_OK is 0. On failure the output arguments are untouched unless the
 *     function says otherwise, and cerne_last_error() of the same thread holds one sentence.
 *   - Nothing throws, aborts, prints or exits across this boundary.
 *   - Strings and byte buffers are pointer + length; text is UTF-8, never null-terminated. A null
 *     pointer is allowed where the length is 0.
 *   - Handles are opaque. The caller owns a handle from the create call until the destroy call, and
 *     destroys it once. Destroying a null handle does nothing.
 *   - Ids are uint32_t, offsets and sizes of bulk data are uint64_t, all native-endian.
 *   - Input buffers are only read during the call and never kept, unless a function says otherwise.
 *
 * Python reads the part between the cdef marks from this very file.
 */
#ifndef CERNE_H_
#define CERNE_H_

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#if defined(CERNE_BUILD)
#define CERNE_API __declspec(dllexport)
#else
#define CERNE_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define CERNE_API __attribute__((visibility("default")))
#else
#define CERNE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* [cdef] */

/* The version of this interface. It grows by one when a function is added and jumps to the next
 * hundred when one changes or goes; the hundreds are the soname. */
#define CERNE_ABI_VERSION 107

typedef int32_t cerne_status;
#define CERNE_OK 0
#define CERNE_INVALID_ARGUMENT 1 /* the caller's input or the order of calls is wrong */
#define CERNE_OUT_OF_MEMORY 2
#define CERNE_BUFFER_TOO_SMALL 3 /* the needed size is written to the size argument */
#define CERNE_STOPPED 4          /* a callback asked to stop */
#define CERNE_INTERNAL 5         /* a bug in the core */

/* CERNE_ABI_VERSION of the library that is loaded. Thread-safe; cannot fail. */
CERNE_API uint32_t cerne_abi_version(void);

/* The sentence of the last failure on this thread ("" when there was none). The text belongs to the
 * library and stays valid until the next cerne call on this thread. `length` may be null. */
CERNE_API const char* cerne_last_error(size_t* length);

/* Name of the instruction set that the kernels use now: "scalar" or "avx2". The environment
 * variable CERNE_ISA (scalar, avx2), read once, forces one. Null-terminated, static.
 * Results never depend on it. Thread-safe. */
CERNE_API const char* cerne_isa(void);

/* ---- Tokenizer: byte-level BPE and SentencePiece -------------------------------------------- */

/* A tokenizer is filled by the set functions (one thread), then frozen by build. After build the
 * encode and decode functions are thread-safe and the set functions fail. */
typedef struct cerne_tokenizer cerne_tokenizer;

/* Makes an empty tokenizer in *out; free it with cerne_tokenizer_destroy. */
CERNE_API cerne_status cerne_tokenizer_create(cerne_tokenizer** out);

/* Frees the tokenizer. No other call on it may be running. */
CERNE_API void cerne_tokenizer_destroy(cerne_tokenizer* tokenizer);

/* Sets a text option. Names:
 *   "model"   = bpe (default) or spm (SentencePiece's BPE: scores in place of merges, byte tokens),
 *               before the vocabulary is set;
 *   "pattern" = gpt2 (default), gpt4, llama3, qwen2 or smollm; bpe only. */
CERNE_API cerne_status cerne_tokenizer_set_string(cerne_tokenizer* tokenizer, const char* name,
                                                  size_t name_length, const char* value,
                                                  size_t value_length);

/* Sets an integer option. Names:
 *   "ignore_merges" 0 or 1 (default 0): a pre-token that is a whole token is emitted as it is; bpe
 *                   only;
 *   "cache_bytes"   0 .. 2^30 (default 2^25): bound on the pre-token cache of one running thread.
 *                   Its tables are powers of two; the smallest take a few hundred bytes. */
CERNE_API cerne_status cerne_tokenizer_set_integer(cerne_tokenizer* tokenizer, const char* name,
                                                   size_t name_length, int64_t value);

/* Sets the vocabulary: token i is bytes[offsets[i] .. offsets[i + 1]). An empty token marks an id
 * that text never produces and that decodes to nothing (a special token). `offsets` has num_tokens
 * + 1 entries. The data are copied.
 * bpe: tokens are bytes. A single byte that is no token is left out of every encoding, and nothing
 * merges across it.
 * spm: tokens are pieces as model files hold them, with U+2581 for the space; "<0x00>" to "<0xFF>"
 * are the byte tokens and must be there, as must U+2581. */
CERNE_API cerne_status cerne_tokenizer_set_vocabulary(cerne_tokenizer* tokenizer,
                                                      const uint8_t* bytes, const uint64_t* offsets,
                                                      size_t num_tokens);

/* Sets the merges in order of priority: merge i joins ids pairs[2 * i] and pairs[2 * i + 1]. The
 * joined bytes must be a token. Call after set_vocabulary. The data are copied. */
CERNE_API cerne_status cerne_tokenizer_set_merges(cerne_tokenizer* tokenizer, const uint32_t* pairs,
                                                  size_t num_merges);

/* Sets the scores of spm, one for each token: the neighbours that together are the piece of highest
 * score merge first, the leftmost of equals. Call after set_vocabulary. */
CERNE_API cerne_status cerne_tokenizer_set_scores(cerne_tokenizer* tokenizer, const float* scores,
                                                  size_t num_scores);

/* Checks and freezes the tokenizer. */
CERNE_API cerne_status cerne_tokenizer_build(cerne_tokenizer* tokenizer);

/* Encodes `size` bytes into ids[0 .. *num_ids). `capacity` = size is always enough. With less room
 * than needed: CERNE_BUFFER_TOO_SMALL, *num_ids = the needed number, ids hold a prefix. Every byte
 * string is accepted and decodes to itself, but for bytes without a token (bpe) and U+2581, which
 * becomes a space (spm). Ids of special tokens are never produced. */
CERNE_API cerne_status cerne_tokenizer_encode(cerne_tokenizer* tokenizer, const uint8_t* text,
                                              size_t size, uint32_t* ids, size_t capacity,
                                              size_t* num_ids);

/* Encodes texts i = bytes[offsets[i] .. offsets[i + 1]) on up to `num_threads` threads (0 = one per
 * core). Text i's ids start at ids[offsets[i] - offsets[0]] and number counts[i], so ids needs one
 * entry per byte. The ids do not depend on num_threads. */
CERNE_API cerne_status cerne_tokenizer_encode_batch(cerne_tokenizer* tokenizer,
                                                    const uint8_t* bytes, const uint64_t* offsets,
                                                    size_t num_texts, size_t num_threads,
                                                    uint32_t* ids, uint64_t* counts);

/* Writes the byte length of each id's token to lengths[0 .. num_ids). With this the byte offsets of
 * an encoding are a running sum, as encoding loses nothing. Fails on an id >= vocabulary size. */
CERNE_API cerne_status cerne_tokenizer_token_lengths(const cerne_tokenizer* tokenizer,
                                                     const uint32_t* ids, size_t num_ids,
                                                     uint32_t* lengths);

/* Decodes ids into bytes[0 .. *num_bytes). With less room than needed: CERNE_BUFFER_TOO_SMALL and
 * *num_bytes = the needed number. Fails on an id >= vocabulary size. */
CERNE_API cerne_status cerne_tokenizer_decode(const cerne_tokenizer* tokenizer, const uint32_t* ids,
                                              size_t num_ids, uint8_t* bytes, size_t capacity,
                                              size_t* num_bytes);

/* Splits text into pre-tokens: ends[0 .. *num_ends) are the byte offsets where each ends.
 * `capacity` = size is always enough; with less: CERNE_BUFFER_TOO_SMALL, *num_ends = needed.
 * Pattern names as in "pattern" above. Thread-safe. */
CERNE_API cerne_status cerne_pretokenize(const char* pattern, size_t pattern_length,
                                         const uint8_t* text, size_t size, uint64_t* ends,
                                         size_t capacity, size_t* num_ends);

/* ---- Training a byte-level BPE vocabulary -------------------------------------------------- */

/* A trainer counts the pre-tokens of text that is fed to it, then trains once. Not thread-safe. */
typedef struct cerne_trainer cerne_trainer;

/* Called now and then with units done and wanted; a non-zero return stops the work. */
typedef int32_t (*cerne_progress)(void* user, uint64_t done, uint64_t total);

/* Makes a trainer in *out; free it with cerne_trainer_destroy. */
CERNE_API cerne_status cerne_trainer_create(cerne_trainer** out);

/* Frees the trainer. */
CERNE_API void cerne_trainer_destroy(cerne_trainer* trainer);

/* Sets a text option before the first text. Names: "pattern" as of cerne_tokenizer_set_string. */
CERNE_API cerne_status cerne_trainer_set_string(cerne_trainer* trainer, const char* name,
                                                size_t name_length, const char* value,
                                                size_t value_length);

/* Sets an integer option before the first text. Names:
 *   "threads"        0 .. 1024 (default 1, 0 = one per core): threads that count; no result
 *                    depends on them;
 *   "max_words"      >= 2 (default 2^22): distinct words kept. Past it the rarest are dropped until
 *                    half is left, and the statistics say how many;
 *   "max_word_bytes" >= 2 (default 2^26): the same for the bytes of all distinct words together;
 *   "min_count"      >= 1 (default 1): a pair that occurs less often is not merged.
 * Peak memory is the larger of counting, 168 * (max_words + 2.8 million) + 4 * max_word_bytes +
 * 60 million bytes, and of merging, 20 * (max_words + max_word_bytes) + about 90 bytes a distinct
 * pair; text without a letter before a non-letter for 4 MiB is counted in rounds of up to 64 MiB,
 * which takes 16 times the 2.8 and 60 million. */
CERNE_API cerne_status cerne_trainer_set_integer(cerne_trainer* trainer, const char* name,
                                                 size_t name_length, int64_t value);

/* Adds text to the current document. How a document is cut into calls does not matter. */
CERNE_API cerne_status cerne_trainer_feed(cerne_trainer* trainer, const uint8_t* text, size_t size);

/* Ends the current document: no pre-token reaches across. */
CERNE_API cerne_status cerne_trainer_end_document(cerne_trainer* trainer);

/* Counts one ready pre-token `count` times. */
CERNE_API cerne_status cerne_trainer_add_word(cerne_trainer* trainer, const uint8_t* word,
                                              size_t size, uint64_t count);

/* Merges the most frequent pairs until there are vocab_size tokens (256 .. 2^24), fewer when no
 * pair is left. Equal counts: the pair of smaller ids first, left id before right id. The trainer
 * takes no more text after this. `progress` may be null. CERNE_STOPPED when it stops. */
CERNE_API cerne_status cerne_trainer_train(cerne_trainer* trainer, uint32_t vocab_size,
                                           cerne_progress progress, void* user);

/* Writes one number to *value. Names: documents, text_bytes, words, word_bytes, pruned_words,
 * pruned_occurrences, pruned_up_to (the highest count that was dropped), tokens, merges,
 * token_bytes (of all tokens together). */
CERNE_API cerne_status cerne_trainer_statistic(cerne_trainer* trainer, const char* name,
                                               size_t name_length, uint64_t* value);

/* Writes the tokens of a finished training: token i is bytes[offsets[i] .. offsets[i + 1]). Room:
 * statistics token_bytes, and tokens + 1 offsets. Ids 0-255 are the bytes in GPT-2's order. */
CERNE_API cerne_status cerne_trainer_tokens(const cerne_trainer* trainer, uint8_t* bytes,
                                            uint64_t* offsets);

/* Writes the merges in order: pairs[2 * i] and pairs[2 * i + 1]. Room: 2 * statistic merges. */
CERNE_API cerne_status cerne_trainer_merges(const cerne_trainer* trainer, uint32_t* pairs);

/* ---- GGUF model files ---------------------------------------------------------------------- */

/* An open file of version 2 or 3, little-endian. It is untrusted: open checks every count, length,
 * offset and size, and refuses what is wrong. Every function but destroy is thread-safe. Text that
 * a function returns by pointer lies in the mapped file and lives until destroy. */
typedef struct cerne_gguf cerne_gguf;

/* Types of metadata values. */
#define CERNE_GGUF_UINT8 0
#define CERNE_GGUF_INT8 1
#define CERNE_GGUF_UINT16 2
#define CERNE_GGUF_INT16 3
#define CERNE_GGUF_UINT32 4
#define CERNE_GGUF_INT32 5
#define CERNE_GGUF_FLOAT32 6
#define CERNE_GGUF_BOOL 7 /* one byte, 0 or 1 */
#define CERNE_GGUF_STRING 8
#define CERNE_GGUF_ARRAY 9
#define CERNE_GGUF_UINT64 10
#define CERNE_GGUF_INT64 11
#define CERNE_GGUF_FLOAT64 12

/* Maps the file and checks all but the tensors' values; free *out with cerne_gguf_destroy. The file
 * must not change or shrink while it is open. */
CERNE_API cerne_status cerne_gguf_open(const char* path, size_t path_length, cerne_gguf** out);

/* Frees the handle and unmaps the file. No other call on it may be running. */
CERNE_API void cerne_gguf_destroy(cerne_gguf* gguf);

/* Writes one number to *value. Names: version, alignment, file_bytes, data_offset (where the
 * tensors' data begin), metadata, tensors (how many). */
CERNE_API cerne_status cerne_gguf_statistic(const cerne_gguf* gguf, const char* name,
                                            size_t name_length, uint64_t* value);

/* Describes metadata entry `index`. An array has *type CERNE_GGUF_ARRAY, the type of its elements
 * in *element_type and their number in *count; a single value has *element_type = *type and *count
 * = 1. Keys are unique. */
CERNE_API cerne_status cerne_gguf_metadata(const cerne_gguf* gguf, uint64_t index, const char** key,
                                           size_t* key_length, uint32_t* type,
                                           uint32_t* element_type, uint64_t* count);

/* Copies the numbers or truth values of entry `index` into bytes[0 .. *num_bytes), one after the
 * other, each as wide as its type. With less room: CERNE_BUFFER_TOO_SMALL, *num_bytes = needed. */
CERNE_API cerne_status cerne_gguf_values(const cerne_gguf* gguf, uint64_t index, uint8_t* bytes,
                                         size_t capacity, size_t* num_bytes);

/* Copies the strings of entry `index`: string i is bytes[offsets[i] .. offsets[i + 1]). `offsets`
 * has count + 1 entries. With less room: CERNE_BUFFER_TOO_SMALL, *num_bytes = needed, offsets
 * untouched. The bytes are the file's; UTF-8 is not checked. */
CERNE_API cerne_status cerne_gguf_strings(const cerne_gguf* gguf, uint64_t index, uint8_t* bytes,
                                          size_t capacity, size_t* num_bytes, uint64_t* offsets);

/* Describes tensor `index`: its name (unique), the name of its type ("Q4_K", null-terminated,
 * static), its dimensions and the bytes of its data. `dims` has room for 4: dims[0] is the width of
 * a row, unused ones are 1. */
CERNE_API cerne_status cerne_gguf_tensor(const cerne_gguf* gguf, uint64_t index, const char** name,
                                         size_t* name_length, const char** type, uint32_t* num_dims,
                                         uint64_t* dims, uint64_t* num_bytes);

/* Decodes rows first_row .. first_row + num_rows of tensor `index` into values[0 .. *num_values); a
 * tensor has dims[1] * dims[2] * dims[3] rows of dims[0] values. Types: F32, F16, BF16, Q8_0, Q4_0,
 * Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K, IQ4_NL; the same bits on every machine, but for the payloads
 * of NaNs. With less room (`capacity` in values): CERNE_BUFFER_TOO_SMALL, *num_values = needed. */
CERNE_API cerne_status cerne_gguf_dequantize(const cerne_gguf* gguf, uint64_t index,
                                             uint64_t first_row, uint64_t num_rows, float* values,
                                             size_t capacity, size_t* num_values);

/* ---- Quantization -------------------------------------------------------------------------- */

/* Encodes `num_rows` rows of `width` values each as the type with this name ("Q4_K"), one row after
 * the other, into blocks[0 .. *num_bytes). Types: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1,
 * Q4_K, Q5_K, Q6_K, IQ4_NL; width is a multiple of the values in a block. Scales and codes are
 * searched so that the decoded values are as close as the type allows: least sum of squared errors,
 * times importance[column] where `importance` (`width` finite numbers >= 0) is not null. The bytes
 * depend neither on `num_threads` (0 .. 1024, 0 = one per core) nor on the machine.
 * `progress` (may be null) hears on this thread of rows done and wanted; CERNE_STOPPED when it
 * stops. With less room: CERNE_BUFFER_TOO_SMALL, *num_bytes = needed. A value that is not finite or
 * that the type cannot hold (beyond 65504 in all but F32 and BF16) is refused by its row and
 * column. After a refusal of a value or a stop `blocks` holds anything. Thread-safe. */
CERNE_API cerne_status cerne_quantize_rows(const char* type, size_t type_length,
                                           const float* values, uint64_t num_rows, uint64_t width,
                                           const float* importance, uint32_t num_threads,
                                           cerne_progress progress, void* user, uint8_t* blocks,
                                           size_t capacity, size_t* num_bytes);

/* ---- Models -------------------------------------------------------------------------------- */

/* A decoder-only transformer with its weights in memory: of the architecture llama, qwen2, qwen3 or
 * gemma3. It is filled by the set and add functions (one thread), then frozen by build; or made at
 * once by open. After that it never changes and every function is thread-safe. */
typedef struct cerne_model cerne_model;

/* Loads a GGUF file on `num_threads` threads (1 .. 1024) and closes it again. `progress` (may be
 * null) hears of bytes done and wanted, possibly from several threads, one at a time. CERNE_STOPPED
 * when it stops. Free *out with cerne_model_destroy. */
CERNE_API cerne_status cerne_model_open(const char* path, size_t path_length, uint32_t num_threads,
                                        cerne_progress progress, void* user, cerne_model** out);

/* Makes an empty model in *out, to be filled; free it with cerne_model_destroy. */
CERNE_API cerne_status cerne_model_create(cerne_model** out);

/* Frees the model when the last of its contexts is gone; the handle dies at once. */
CERNE_API void cerne_model_destroy(cerne_model* model);

/* Sets a text: "architecture", or metadata by the name of GGUF without the architecture in front
 * ("rope.scaling.type" = none, linear, yarn or llama3). */
CERNE_API cerne_status cerne_model_set_string(cerne_model* model, const char* name,
                                              size_t name_length, const char* value,
                                              size_t value_length);

/* Sets a number, by the name of GGUF without the architecture in front: "block_count",
 * "rope.freq_base", ... */
CERNE_API cerne_status cerne_model_set_number(cerne_model* model, const char* name,
                                              size_t name_length, double value);

/* Adds a tensor by the name of GGUF ("blk.0.attn_q.weight") and the name of its type ("F32"): rows
 * one after the other, `width` values each, `num_bytes` bytes in all. Heads have the first halves
 * of their rotated pairs in front, as Hugging Face has them. The data are not copied: they must
 * stay until build has returned. */
CERNE_API cerne_status cerne_model_add_tensor(cerne_model* model, const char* name,
                                              size_t name_length, const char* type,
                                              size_t type_length, uint64_t rows, uint64_t width,
                                              const uint8_t* data, uint64_t num_bytes);

/* Checks and packs the model; arguments as of cerne_model_open. After a failure only destroy is
 * allowed. */
CERNE_API cerne_status cerne_model_build(cerne_model* model, uint32_t num_threads,
                                         cerne_progress progress, void* user);

/* Writes one number to *value. Names: vocab_size, context (positions it was made for), layers,
 * width, ffn_width, heads, kv_heads, head_dim, weight_bytes (as they lie in memory), page_bytes
 * and page_positions (of the key/value memory). */
CERNE_API cerne_status cerne_model_statistic(const cerne_model* model, const char* name,
                                             size_t name_length, uint64_t* value);

/* The name of the arithmetic, "cerne-1": the same name, model and tokens give the same bits on
 * every machine (docs/arithmetic.md). Null-terminated, static. Thread-safe. */
CERNE_API const char* cerne_arithmetic(void);

/* ---- Contexts: sequences of tokens that a model runs --------------------------------------- */

/* Sequences with their key/value memory, and the threads that compute. One call at a time, but for
 * cerne_context_stop. Logits do not depend on the number of threads, on what else is in a call, or
 * on how tokens are cut into calls. */
typedef struct cerne_context cerne_context;

/* Makes a context in *out; free it with cerne_context_destroy. It keeps the model alive. */
CERNE_API cerne_status cerne_context_create(const cerne_model* model, cerne_context** out);

/* Ends the threads and frees the memory. No other call on it may be running. */
CERNE_API void cerne_context_destroy(cerne_context* context);

/* Sets an integer option before the first sequence. Names:
 *   "threads"       1 .. 1024 (default: one per core);
 *   "capacity"      1 .. the model's context (default: that, at most 4096): tokens of a sequence;
 *   "max_sequences" 1 .. 65536 (default 1): sequences alive at once;
 *   "batch_tokens"  1 .. 65536 (default 512): tokens read in one pass; a longer call is cut.
 * Memory of keys and values is taken as it is used. */
CERNE_API cerne_status cerne_context_set_integer(cerne_context* context, const char* name,
                                                 size_t name_length, int64_t value);

/* Starts an empty sequence; its handle goes to *sequence. Handles are never used twice. */
CERNE_API cerne_status cerne_context_start(cerne_context* context, uint64_t* sequence);

/* Starts a sequence with the tokens of another; *copy is its handle. Memory is shared until one of
 * them goes on. */
CERNE_API cerne_status cerne_context_fork(cerne_context* context, uint64_t sequence,
                                          uint64_t* copy);

/* Forgets a sequence. */
CERNE_API cerne_status cerne_context_drop(cerne_context* context, uint64_t sequence);

/* Forgets all but the first `length` tokens of a sequence. */
CERNE_API cerne_status cerne_context_truncate(cerne_context* context, uint64_t sequence,
                                              uint64_t length);

/* Writes the number of tokens that a sequence holds. */
CERNE_API cerne_status cerne_context_length(cerne_context* context, uint64_t sequence,
                                            uint64_t* length);

/* Appends ids[i] to sequences[i] for i < count, in this order: prompts, single steps of many
 * sequences, or both. Where wanted[i] != 0 the logits after that token, vocab_size floats, go to
 * the next row of `logits`, which has room for `capacity` floats. On failure every sequence is as
 * it was before; CERNE_STOPPED after cerne_context_stop. */
CERNE_API cerne_status cerne_context_decode(cerne_context* context, const uint64_t* sequences,
                                            const uint32_t* ids, const uint8_t* wanted,
                                            size_t count, float* logits, size_t capacity);

/* As cerne_context_decode, but a wanted token gives its hidden state behind the model's last norm,
 * `width` floats (a statistic of the model), instead of logits. `capacity` is in floats. */
CERNE_API cerne_status cerne_context_embed(cerne_context* context, const uint64_t* sequences,
                                           const uint32_t* ids, const uint8_t* wanted, size_t count,
                                           float* hidden, size_t capacity);

/* Ends the decode that runs, or else the next one, with CERNE_STOPPED. From any thread, while the
 * context lives. */
CERNE_API cerne_status cerne_context_stop(cerne_context* context);

/* ---- Samplers: from logits to a token ------------------------------------------------------ */

/* The transforms and the draw of docs/sampling.md, with the tokens that penalties look at. One call
 * at a time. The same logits, options, history, choice and position give the same token. */
typedef struct cerne_sampler cerne_sampler;

/* Makes a sampler in *out, of the model's own distribution; free it with cerne_sampler_destroy. */
CERNE_API cerne_status cerne_sampler_create(cerne_sampler** out);

/* Frees the sampler. */
CERNE_API void cerne_sampler_destroy(cerne_sampler* sampler);

/* Sets an integer option. Names:
 *   "seed"  the key of the random numbers; all 64 bits count (default 0);
 *   "top_k" 0 or more (default 0, which keeps all): keep the k most probable tokens. */
CERNE_API cerne_status cerne_sampler_set_integer(cerne_sampler* sampler, const char* name,
                                                 size_t name_length, int64_t value);

/* Sets a number. Names:
 *   "temperature"        0 .. 100 (default 1): divides the logits; 0 is greedy;
 *   "top_p"              above 0, up to 1 (default 1): keep the smallest head of this probability;
 *   "min_p"              0 .. below 1 (default 0): keep what is this probable beside the best;
 *   "repetition_penalty" above 0, up to 100 (default 1): for tokens of prompt and answer;
 *   "presence_penalty"   -2 .. 2 (default 0): for tokens of the answer;
 *   "frequency_penalty"  -2 .. 2 (default 0): for each time a token is in the answer. */
CERNE_API cerne_status cerne_sampler_set_number(cerne_sampler* sampler, const char* name,
                                                size_t name_length, double value);

/* Adds a number to the logit of a token; -infinity forbids it. The last one for a token counts. */
CERNE_API cerne_status cerne_sampler_add_bias(cerne_sampler* sampler, uint32_t token, double bias);

/* Remembers tokens for the penalties: `generated` is 0 for those of a prompt. */
CERNE_API cerne_status cerne_sampler_accept(cerne_sampler* sampler, const uint32_t* ids,
                                            size_t count, int32_t generated);

/* Forgets all accepted tokens. */
CERNE_API cerne_status cerne_sampler_reset(cerne_sampler* sampler);

/* Writes to *token the one that follows logits[0 .. size). `position` is its place in the sequence
 * (the first after a prompt of P tokens has P), `choice` the index of the answer when a prompt gets
 * several. It is not accepted by this. Fails when a NaN or +infinity is there, when no token has a
 * finite logit, or when a token to change is not below `size`. */
CERNE_API cerne_status cerne_sampler_choose(const cerne_sampler* sampler, const float* logits,
                                            size_t size, uint32_t choice, uint64_t position,
                                            uint32_t* token);

/* ---- From a model file to text ------------------------------------------------------------- */

/* The tokenizer of a GGUF model file, built and ready; free *out with cerne_tokenizer_destroy.
 * Kinds: byte-level BPE ("gpt2") and SentencePiece ("llama"). Refused: other kinds and
 * pre-tokenizers, and what is damaged. Text becomes control tokens never, user-defined tokens where
 * it holds them; SentencePiece may put a space before it, so ids may outnumber bytes. */
CERNE_API cerne_status cerne_tokenizer_open_gguf(const char* path, size_t path_length,
                                                 cerne_tokenizer** out);

/* Writes the id of a control token, such as "<|im_end|>". Of a tokenizer of open_gguf. */
CERNE_API cerne_status cerne_tokenizer_special(const cerne_tokenizer* tokenizer, const char* name,
                                               size_t name_length, uint32_t* id);

/* Writes one number to *value. Names: vocab_size; bos, eos, pad, end_of_turn (ids, -1 where there
 * is none); add_bos, add_eos (1: a text for the model begins, ends with that token). */
CERNE_API cerne_status cerne_tokenizer_statistic(const cerne_tokenizer* tokenizer, const char* name,
                                                 size_t name_length, int64_t* value);

/* Called with each token of an answer and the bytes of text that it stands for; characters may be
 * cut in two. A non-zero return stops. */
typedef int32_t (*cerne_on_token)(void* user, uint32_t id, const uint8_t* bytes, size_t num_bytes);

/* Answers a prompt: reads it, then draws tokens until one is a stop token (which counts),
 * `capacity` are there, or `on_token` (may be null) stops with CERNE_STOPPED. It takes one sequence
 * of the context for the time of the call, which is one call on context and sampler. The sampler
 * forgets what it had accepted and remembers prompt and answer; `choice` is as of
 * cerne_sampler_choose. `tokenizer` (may be null, then there are no bytes) only names bytes; the
 * stop token has none. ids[0 .. *num_ids) is the answer, also of a call that was stopped. */
CERNE_API cerne_status cerne_generate(cerne_context* context, cerne_sampler* sampler,
                                      const cerne_tokenizer* tokenizer, const uint32_t* prompt,
                                      size_t num_prompt, const uint32_t* stop_ids,
                                      size_t num_stop_ids, uint32_t choice, cerne_on_token on_token,
                                      void* user, uint32_t* ids, size_t capacity, size_t* num_ids);

/* [/cdef] */

#ifdef __cplusplus
}
#endif

#endif /* CERNE_H_ */
