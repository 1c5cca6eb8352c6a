// The digests that FIPS 180-4 and its examples give, however the bytes are cut.
#include "sha256.h"

#include <string>

#include "check.h"

namespace {

std::string digest(const std::string& text, size_t piece) {
  cerne::Sha256 sha;
  for (size_t i = 0; i < text.size(); i += piece) {
    const std::string part = text.substr(i, piece);
    sha.add(part.data(), part.size());
  }
  return sha.hex();
}

CERNE_TEST(sha256_gives_the_published_digests) {
  for (const size_t piece : {1, 3, 55, 56, 63, 64, 65, 1000}) {
    CHECK(digest("", piece) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(digest("abc", piece) ==
          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", piece) ==
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    CHECK(digest(std::string(1000000, 'a'), piece) ==
          "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

}  // namespace
