// Prints the instruction set in use and digests of what must not depend on it: the blocks that the
// encoders of all types write for random weights, and all logits of a model made of them.
// cross_isa.sh builds and runs it for several processors.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cerne.h"
#include "sha256.h"

namespace {

constexpr uint64_t kWidth = 256;
constexpr uint64_t kFfn = 512;
constexpr uint64_t kVocab = 300;
constexpr int kLayers = 4;
constexpr size_t kTokens = 70;  // more than a page of the key/value memory

const char* const kTypes[] = {"Q4_K",   "Q8_0", "Q6_K", "Q4_0", "Q5_K", "Q4_1",
                              "IQ4_NL", "Q5_0", "Q5_1", "F16",  "BF16", "F32"};

void require(cerne_status status) {
  if (status == CERNE_OK) return;
  std::fprintf(stderr, "%s\n", cerne_last_error(nullptr));
  std::exit(1);
}

// Numbers in [-1, 1), roughly bell-shaped, from integers alone.
class Random {
 public:
  float next() {
    int32_t sum = 0;
    for (int i = 0; i < 4; ++i) {
      state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
      sum += static_cast<int32_t>(state_ >> 44) - (1 << 19);
    }
    return static_cast<float>(sum) / (1 << 21);
  }
  uint32_t below(uint32_t limit) {
    next();
    return static_cast<uint32_t>(state_ >> 33) % limit;
  }

 private:
  uint64_t state_ = 20261201;
};

class Maker {
 public:
  Maker() { require(cerne_model_create(&model_)); }

  void number(const std::string& name, double value) {
    require(cerne_model_set_number(model_, name.data(), name.size(), value));
  }

  void tensor(const std::string& name, uint64_t rows, uint64_t width, const std::string& type) {
    std::vector<float> values(rows * width);
    for (float& value : values) value = 0.2f * random_.next() + (rows == 1 ? 1.0f : 0.0f);
    std::vector<uint8_t>& blocks = kept_.emplace_back(values.size() * 4);
    size_t size = 0;
    require(cerne_quantize_rows(type.data(), type.size(), values.data(), rows, width, nullptr, 2,
                                nullptr, nullptr, blocks.data(), blocks.size(), &size));
    digest_.add(blocks.data(), size);
    require(cerne_model_add_tensor(model_, name.data(), name.size(), type.data(), type.size(), rows,
                                   width, blocks.data(), size));
  }

  void matrix(const std::string& name, uint64_t rows, uint64_t width) {
    tensor(name, rows, width, kTypes[next_type_++ % std::size(kTypes)]);
  }

  cerne_model* build() {
    require(cerne_model_set_string(model_, "architecture", 12, "qwen3", 5));
    require(cerne_model_build(model_, 2, nullptr, nullptr));
    return model_;
  }

  std::string digest() { return digest_.hex(); }

 private:
  cerne_model* model_ = nullptr;
  Random random_;
  cerne::Sha256 digest_;
  std::vector<std::vector<uint8_t>> kept_;
  size_t next_type_ = 0;
};

std::string logits_digest(const cerne_model* model) {
  cerne_context* context = nullptr;
  require(cerne_context_create(model, &context));
  require(cerne_context_set_integer(context, "threads", 7, 2));
  uint64_t sequence = 0;
  require(cerne_context_start(context, &sequence));
  Random random;
  std::vector<uint32_t> ids(kTokens);
  for (uint32_t& id : ids) id = random.below(kVocab);
  const std::vector<uint64_t> sequences(kTokens, sequence);
  const std::vector<uint8_t> wanted(kTokens, 1);
  std::vector<float> logits(kTokens * kVocab);
  require(cerne_context_decode(context, sequences.data(), ids.data(), wanted.data(), kTokens,
                               logits.data(), logits.size()));
  cerne_context_destroy(context);
  cerne::Sha256 digest;
  digest.add(logits.data(), logits.size() * sizeof(float));
  return digest.hex();
}

}  // namespace

int main() {
  Maker maker;
  maker.number("context_length", 512);
  maker.number("block_count", kLayers);
  maker.number("embedding_length", kWidth);
  maker.number("feed_forward_length", kFfn);
  maker.number("attention.head_count", 4);
  maker.number("attention.head_count_kv", 2);
  maker.number("rope.freq_base", 100000);
  maker.tensor("token_embd.weight", kVocab, kWidth, "Q6_K");
  maker.tensor("output_norm.weight", 1, kWidth, "F32");
  for (int i = 0; i < kLayers; ++i) {
    const std::string at = "blk." + std::to_string(i) + ".";
    maker.tensor(at + "attn_norm.weight", 1, kWidth, "F32");
    maker.tensor(at + "ffn_norm.weight", 1, kWidth, "F32");
    maker.tensor(at + "attn_q_norm.weight", 1, kWidth / 4, "F32");
    maker.tensor(at + "attn_k_norm.weight", 1, kWidth / 4, "F32");
    maker.matrix(at + "attn_q.weight", kWidth, kWidth);
    maker.matrix(at + "attn_k.weight", kWidth / 2, kWidth);
    maker.matrix(at + "attn_v.weight", kWidth / 2, kWidth);
    maker.matrix(at + "attn_output.weight", kWidth, kWidth);
    maker.matrix(at + "ffn_gate.weight", kFfn, kWidth);
    maker.matrix(at + "ffn_up.weight", kFfn, kWidth);
    maker.matrix(at + "ffn_down.weight", kWidth, kFfn);
  }
  cerne_model* const model = maker.build();
  std::printf("%s blocks %s logits %s\n", cerne_isa(), maker.digest().c_str(),
              logits_digest(model).c_str());
  cerne_model_destroy(model);
  return 0;
}
