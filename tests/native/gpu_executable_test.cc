// What a graph of the gpu backend compiles to, as it is written and read: every byte of it changed,
// and cut off everywhere.
#include "gpu/executable.h"

#include <cstring>

#include "check.h"

using qnnrt::Result;
using qnnrt::gpu::Executable;

namespace {

Executable Sample() {
  using Kind = Executable::Kind;
  using Argument = Executable::Argument;
  Executable e;
  e.device = "platform\nname\nversion\ndriver";
  e.options = "-cl-std=CL1.2";
  e.rounded = "-cl-fp32-correctly-rounded-divide-sqrt";
  e.io = {{"x", 1, 0x0232, 0, {2, 3}, 24}, {"y", 2, 0x0232, QNNRT_OPENCL_OUTPUT, {6}, 24}};
  e.arenas = {256, 64};
  e.memories = {{Kind::kIo, 0, 0, 24},       {Kind::kIo, 1, 0, 24},
                {Kind::kArena, 0, 128, 128}, {Kind::kArena, 1, 0, 64},
                {Kind::kConstant, 0, 64, 8}, {Kind::kConstant, 1, 0, 16},
                {Kind::kConstant, 0, 96, 0}};
  e.programs = {{"kernel void k() {}", ""}, {"kernel void l() {}", std::string("\0\1\2", 3)}};
  e.steps = {{"first", "k", "qnnrt_k", 0, {6}, {}, {{Argument::kMemory, 0}, {Argument::kInt, 7}}},
             {"second",
              "l",
              "qnnrt_l",
              1,
              {8, 4, 2},
              {2, 2, 1},
              {{Argument::kMemory, 6}, {Argument::kFloat, 0x3f800000}, {Argument::kMemory, 1}}}};
  e.description = "{}";
  return e;
}

const std::vector<uint64_t> kRegions = {96, 16};

Result<Executable> Read(const std::string& text, size_t size) {
  // Of a size of its own, so that a sanitizer sees what is read behind it.
  std::vector<uint8_t> bytes(text.begin(), text.begin() + static_cast<ptrdiff_t>(size));
  return Executable::Read(bytes.data(), bytes.size(), kRegions);
}

// Whatever it says, nothing in it refers to what is not there.
void CheckSound(const Executable& e) {
  for (const Executable::Memory& m : e.memories) {
    if (m.kind == Executable::Kind::kIo) {
      CHECK(m.where < e.io.size());
      continue;
    }
    const std::vector<uint64_t>& in = m.kind == Executable::Kind::kArena ? e.arenas : kRegions;
    CHECK(m.where < in.size() && m.offset <= in[m.where] && m.size <= in[m.where] - m.offset);
  }
  for (const Executable::Step& step : e.steps) {
    CHECK(step.program < e.programs.size());
    CHECK(step.total.size() >= 1 && step.total.size() <= 3);
    CHECK(step.group.empty() || step.group.size() == step.total.size());
    for (uint64_t size : step.total) CHECK(size != 0);
    for (const Executable::Arg& arg : step.args)
      CHECK(arg.kind != Executable::Argument::kMemory || arg.bits < e.memories.size());
  }
}

TEST(WhatIsWrittenIsReadAgain) {
  const std::string text = Sample().Write();
  Result<Executable> read = Read(text, text.size());
  CHECK(read.ok());
  CHECK(read->Write() == text);
  CHECK(read->programs[1].binary == std::string("\0\1\2", 3));
  CHECK(read->steps[1].args[1].bits == 0x3f800000);
  CheckSound(*read);
}

TEST(NothingThatIsCutOffOrLongerIsRead) {
  const std::string text = Sample().Write();
  for (size_t size = 0; size < text.size(); ++size) CHECK(!Read(text, size).ok());
  CHECK(!Read(text + '\0', text.size() + 1).ok());
}

TEST(WhateverIsReadIsSound) {
  const std::string text = Sample().Write();
  for (size_t at = 0; at < text.size(); ++at) {
    for (int value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
      std::string changed = text;
      changed[at] = static_cast<char>(value);
      const Result<Executable> read = Read(changed, changed.size());
      if (read.ok()) CheckSound(read.value());
    }
  }
}

TEST(WhatIsWrongIsSaid) {
  const auto refused = [](const Executable& e, const char* why) {
    const std::string text = e.Write();
    const Result<Executable> read = Read(text, text.size());
    CHECK(!read.ok());
    CHECK(std::strstr(read.status().message().c_str(), why) != nullptr);
  };
  Executable e = Sample();
  e.memories[4].size = 33;  // past its region
  refused(e, "lies outside of what it is in");
  e = Sample();
  e.memories[5].offset = UINT64_MAX;
  refused(e, "lies outside of what it is in");
  e = Sample();
  std::swap(e.io[0], e.io[1]);
  refused(e, "the order of inputs and outputs");
  e = Sample();
  e.steps[0].program = 2;
  refused(e, "the program of a kernel");
  e = Sample();
  e.steps[0].args[0].bits = 7;
  refused(e, "the memory of a kernel");
  e = Sample();
  e.steps[0].total.clear();
  refused(e, "a value that it cannot have");
  std::string text = Sample().Write();
  text[8] = 2;  // the version
  CHECK(std::strstr(Read(text, text.size()).status().message().c_str(), "version 2") != nullptr);
}

}  // namespace

CHECK_MAIN("gpu_executable_test")
