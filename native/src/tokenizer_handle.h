// What stands behind a tokenizer handle.
#ifndef CERNE_SRC_TOKENIZER_HANDLE_H_
#define CERNE_SRC_TOKENIZER_HANDLE_H_

#include <memory>

#include "bpe_model.h"
#include "gguf_tokenizer.h"
#include "handle.h"
#include "spm_model.h"
#include "tokenizer.h"

struct cerne_tokenizer {
  uint64_t magic = kMagic;
  bool is_spm = false;
  cerne::BpeModel bpe;
  cerne::SpmModel spm;
  cerne::Pattern pattern = cerne::Pattern::kGpt2;
  bool ignore_merges = false;
  size_t cache_bytes = size_t{1} << 25;
  bool has_vocabulary = false;
  std::unique_ptr<cerne::Tokenizer> tokenizer;
  // Of a model file; `model` of it has gone into the tokenizer.
  std::unique_ptr<cerne::GgufTokenizer> file;

  const cerne::AddedTokens* added() const { return file ? &file->added : nullptr; }
  // Whether something happens to text before it merges.
  bool splits() const { return file && !file->added.is_trivial(); }

  static constexpr uint64_t kMagic = 0x6365726e65746f6bull;
  static constexpr const char* kName = "tokenizer";
};

namespace cerne {

// The tokenizer of a handle that can encode and decode.
template <typename Handle>
auto& built_tokenizer(Handle* handle) {
  auto& self = alive(handle);
  require(self.tokenizer != nullptr, "the tokenizer is not built yet; call cerne_tokenizer_build");
  return *self.tokenizer;
}

}  // namespace cerne

#endif  // CERNE_SRC_TOKENIZER_HANDLE_H_
