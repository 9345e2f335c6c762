// Instructions that a compiler of OpenCL C refuses are put into what it makes of a source.
#include "gpu/ptx.h"

#include <string>

#include "check.h"

using qnnrt::gpu::Rewritten;

TEST(MarkedInstructionsArePutIntoPtx) {
  const std::string head = "//\n.version 8.8\n.target sm_90, texmode_independent\n";
  const std::string better = "//\n.version 8.8\n.target sm_90a, texmode_independent\n";
  CHECK(Rewritten(head + "  // begin inline asm\n  wgmma;\n") == "");
  CHECK(Rewritten("") == "");
  CHECK(Rewritten(head + "\t//@ one {%r1};\n//@ two;") == better + "\tone {%r1};\ntwo;");
  CHECK(Rewritten(head + "//@ one;\n" + std::string(2, '\0')) == better + "one;\n");
  // Targets that have other instructions stay: the driver says what it thinks of them.
  CHECK(Rewritten("\n.target sm_90a\n//@ one;") == "\n.target sm_90a\none;");
  CHECK(Rewritten("\n.target sm_100\n//@ one;") == "\n.target sm_100\none;");
}

CHECK_MAIN("gpu_ptx_test")
