#include "added_tokens.h"

#include <algorithm>

#include "gguf_cursor.h"
#include "status.h"

namespace cerne {

void AddedTokens::add(uint32_t id, std::string_view content, bool is_control) {
  if (!ids_.emplace(content, id).second) {
    throw invalid("the added token " + quoted(content) + " occurs twice");
  }
  content_.emplace(id, Content{std::string(content), is_control});
  if (!is_control) plain_.push_back(id);
}

void AddedTokens::rank() {
  std::stable_sort(plain_.begin(), plain_.end(), [&](uint32_t a, uint32_t b) {
    return content_.at(a).text.size() > content_.at(b).text.size();
  });
}

uint32_t AddedTokens::find_control(std::string_view content) const {
  const auto found = ids_.find(std::string(content));
  if (found == ids_.end() || !content_.at(found->second).is_control) return kNoToken;
  return found->second;
}

std::string_view AddedTokens::text(uint32_t id) const {
  const Content& content = content_.at(id);
  return content.is_control ? std::string_view() : content.text;
}

std::vector<AddedTokens::Piece> AddedTokens::split(std::string_view text) const {
  std::vector<Piece> pieces;
  if (!text.empty()) pieces.push_back({text, kNoToken});
  for (const uint32_t id : plain_) {
    const std::string& content = content_.at(id).text;
    if (text.find(content) == std::string_view::npos) continue;
    std::vector<Piece> finer;
    for (Piece piece : pieces) {
      size_t at = piece.id == kNoToken ? piece.text.find(content) : std::string_view::npos;
      for (; at != std::string_view::npos; at = piece.text.find(content)) {
        if (at > 0) finer.push_back({piece.text.substr(0, at), kNoToken});
        finer.push_back({content, id});
        piece.text.remove_prefix(at + content.size());
      }
      if (!piece.text.empty()) finer.push_back(piece);
    }
    pieces = std::move(finer);
  }
  return pieces;
}

}  // namespace cerne
