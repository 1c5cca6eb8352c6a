// The levels that the codes of IQ4_NL name.
#ifndef CERNE_SRC_FORMATS_CODEBOOK_H_
#define CERNE_SRC_FORMATS_CODEBOOK_H_

namespace cerne {

// Closer together near zero, where most weights are. Fixed by the format.
inline constexpr float kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};

}  // namespace cerne

#endif  // CERNE_SRC_FORMATS_CODEBOOK_H_
