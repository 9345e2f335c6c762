// The bits of a 32-bit float as tf32, half away from zero.
static inline uint rounded(uint word) {
  const uint all = 0x7F800000u;  // of the exponent: infinite, or not a number
  return (word & all) == all ? word : (word + 0x1000u) & ~0x1FFFu;
}
