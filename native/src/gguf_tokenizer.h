// The tokenizer inside a GGUF file, tokenizer.ggml.*: the rules of cerne/tokenizer/gguf.py, so that
// C and Go encode text from the model file alone. Kinds: gpt2 (byte-level BPE) and llama
// (SentencePiece). What is unknown or damaged is refused. Leaves out the chat template.
#ifndef CERNE_SRC_GGUF_TOKENIZER_H_
#define CERNE_SRC_GGUF_TOKENIZER_H_

#include <memory>

#include "added_tokens.h"
#include "gguf_file.h"

namespace cerne {

struct GgufTokenizer {
  std::unique_ptr<const TokenModel> model;
  AddedTokens added;
  // kNoToken where the file has none.
  uint32_t bos = kNoToken, eos = kNoToken, pad = kNoToken, end_of_turn = kNoToken;
  bool add_bos = false, add_eos = false;
};

// Throws an invalid-argument Error.
GgufTokenizer tokenizer_of(const GgufFile& file);

}  // namespace cerne

#endif  // CERNE_SRC_GGUF_TOKENIZER_H_
