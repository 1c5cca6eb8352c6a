// Tokens of a model file that merging does not make: control tokens, which no text becomes, and
// plain ones, which are cut out of text before anything merges, the longest first.
#ifndef CERNE_SRC_ADDED_TOKENS_H_
#define CERNE_SRC_ADDED_TOKENS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "token_model.h"

namespace cerne {

class AddedTokens {
 public:
  // A stretch of text to merge (id is kNoToken), or a plain token.
  struct Piece {
    std::string_view text;
    uint32_t id;
  };

  // Throws an invalid-argument Error when the content is there already. Ids come in increasing
  // order.
  void add(uint32_t id, std::string_view content, bool is_control);
  // To be called behind the last add.
  void rank();

  // Text gets a space before it, at the beginning and behind an added token.
  bool space_prefix = false;

  // Whether text merges as it is.
  bool is_trivial() const { return plain_.empty() && !space_prefix; }
  bool holds(uint32_t id) const { return content_.find(id) != content_.end(); }
  // The id of a control token, or kNoToken.
  uint32_t find_control(std::string_view content) const;
  // What an added token decodes to: its content, or nothing for a control token.
  std::string_view text(uint32_t id) const;
  std::vector<Piece> split(std::string_view text) const;

 private:
  struct Content {
    std::string text;
    bool is_control;
  };

  std::unordered_map<uint32_t, Content> content_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::vector<uint32_t> plain_;
};

// Bytes of ids one after the other: the rule of the space before a text lives here.
class TokenText {
 public:
  TokenText(const TokenModel& model, const AddedTokens* added)
      : model_(model), added_(added), strips_(added != nullptr && added->space_prefix) {}

  std::string_view next(uint32_t id) {
    if (added_ != nullptr && added_->holds(id)) {
      strips_ = added_->space_prefix;
      return added_->text(id);
    }
    std::string_view text = model_.token(id);
    if (text.empty()) return text;
    if (strips_ && text.front() == ' ') text.remove_prefix(1);
    strips_ = false;
    return text;
  }

 private:
  const TokenModel& model_;
  const AddedTokens* added_;
  bool strips_;
};

}  // namespace cerne

#endif  // CERNE_SRC_ADDED_TOKENS_H_
