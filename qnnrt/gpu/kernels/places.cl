// Where byte `byte` of line `line` of a tile is. Pieces of 16 bytes are exchanged within lines, so
// that those that are read at once, of lines behind one another, lie in different banks.
#define PLACE_BY(line, byte, size, twist) \
  ((line) * (size) + (((byte) / 16 ^ (twist)) * 16) + (byte) % 16)
#define PLACE_OF(line, byte, size) \
  PLACE_BY(line, byte, size, (size) == 32 ? (line) / 4 % 2 : (size) == 64 ? (line) / 2 % 4 : (line) % 8)
// Lines of terms, and lines of rows or columns, one for each term.
#define PLACE(line, byte) PLACE_OF(line, byte, LINE)
#ifdef HALF
#ifdef GROUPED
// 64 rows or columns at a time.
#define PLACE_GROUPED(k, byte) ((byte) / 128 * (BK * 128) + PLACE(k, (byte) % 128))
#define PLACE_TURNED(k, byte, size) PLACE_GROUPED(k, byte)
#else
#define PLACE_TURNED(k, byte, size) PLACE_OF(k, byte, size)
#endif
#else
#define PLACE_TURNED(k, byte, size) PLACE_BY(k, byte, size, (k) % 4 * 2)
// The same of a lane's word of eight rows or columns, the x-th of a warp's, which are a multiple of
// four; k is a multiple of four, too. Four sums are of registers, the rest is known.
#define PLACE_OF_WORD(k, x, size) \
  (((k) + lane % 4) * (size) + (x) / 4 * 128 + ((x) % 4 ^ lane % 4) * 32 + lane / 4 * 4)
#endif
