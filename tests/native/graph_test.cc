// Passes, sharing of memory and the step list against the plainest execution there is: the same
// graph with every tensor an output, where nothing can be folded, fused, shared or left out.
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "abi/qnn_errors.h"
#include "check.h"
#include "graph/graph.h"
#include "qnn_tensor.h"
#include "test_graph.h"

using namespace qnnrt;

namespace {

using Floats = std::vector<float>;

// Builds the same graph twice: `exposed` makes every intermediate tensor a graph output.
class Net : public TestGraph {
 public:
  explicit Net(bool exposed, bool portable = true)
      : TestGraph("net", portable, 2), exposed_(exposed) {}

  const Tensor* Input(const Shape& shape) { return Add(QNN_TENSOR_TYPE_APP_WRITE, shape, nullptr); }
  const Tensor* Static(const Shape& shape, const Floats& values) {
    return Add(QNN_TENSOR_TYPE_STATIC, shape, values.data());
  }
  const Tensor* Output(const Shape& shape) { return Add(QNN_TENSOR_TYPE_APP_READ, shape, nullptr); }
  const Tensor* Inner(const Shape& shape) {
    return exposed_ ? Output(shape) : Add(QNN_TENSOR_TYPE_NATIVE, shape, nullptr);
  }

  Status Finalize() { return graph().Finalize(nullptr); }
  // Values of the inputs by id; results of every graph output by id.
  Status Run(const std::map<uint32_t, Floats>& inputs, std::map<uint32_t, Floats>* outputs) {
    std::vector<Qnn_Tensor_t> in, out;
    std::map<uint32_t, Floats> values = inputs;
    for (const Tensor* t : graph().inputs()) in.push_back(Raw(*t, &values.at(t->id)));
    for (const Tensor* t : graph().outputs()) {
      (*outputs)[t->id].assign(t->elements(), NAN);
      out.push_back(Raw(*t, &(*outputs)[t->id]));
    }
    return graph().Execute(in.data(), in.size(), out.data(), out.size(), {});
  }

 private:
  const Tensor* Add(Qnn_TensorType_t type, const Shape& shape, const float* data) {
    Tensor t;
    t.type = type;
    t.shape = shape;
    if (data != nullptr) t.data = AlignedBytes::Copy(data, ElementCount(shape) * sizeof(float));
    return TestGraph::Add(std::move(t));
  }
  static Qnn_Tensor_t Raw(const Tensor& t, Floats* values) {
    return RawOf(t, values->data(), values->size() * sizeof(float));
  }

  bool exposed_;
};

class Random {
 public:
  explicit Random(uint32_t seed) : rng_(seed) {}
  uint32_t Pick(uint32_t low, uint32_t high) {
    return std::uniform_int_distribution<uint32_t>(low, high)(rng_);
  }
  Floats Values(size_t count, float scale = 1.0f) {
    std::normal_distribution<float> normal(0.0f, scale);
    Floats values(count);
    for (float& v : values) v = normal(rng_);
    return values;
  }

 private:
  std::mt19937 rng_;
};

// A random image network. Every choice comes from the seed, so both forms make the same one.
class RandomNet {
 public:
  RandomNet(Net* net, uint32_t seed) : net_(net), random_(seed) {
    for (int i = 0; i < 2; ++i) live_.push_back(net_->Input({1, 6, 5, 4}));
    int steps = static_cast<int>(random_.Pick(3, 14));
    for (int i = 0; i < steps; ++i) Step();
    // The last few tensors are the results: through an op, since an output is written by a node.
    for (int i = 0; i < 2; ++i) {
      const Tensor* x = Any();
      const Tensor* y = net_->Output(x->shape);
      Do(random_.Pick(0, 1) == 0 ? "Relu" : "Reshape", {x}, {y});
      results.push_back(y);
    }
  }
  std::vector<const Tensor*> results;

 private:
  const Tensor* Any() { return live_[random_.Pick(0, static_cast<uint32_t>(live_.size()) - 1)]; }
  const Tensor* Recent() { return random_.Pick(0, 3) == 0 ? Any() : live_.back(); }
  const Tensor* Like(const Tensor* x) {
    std::vector<const Tensor*> same;
    for (const Tensor* t : live_) {
      if (t->shape == x->shape) same.push_back(t);
    }
    return same[random_.Pick(0, static_cast<uint32_t>(same.size()) - 1)];
  }
  void Do(const char* type, std::vector<const Tensor*> in, std::vector<const Tensor*> out,
          std::vector<Param> params = {}) {
    Status status = net_->Op(type, std::move(in), std::move(out), std::move(params));
    if (!CHECK(status.ok())) std::fprintf(stderr, "  %s\n", status.message().c_str());
  }
  const Tensor* Channels(uint32_t c, float mean) {
    Floats values = random_.Values(c, 0.3f);
    for (float& v : values) v += mean;
    return net_->Static({c}, values);
  }

  void Step() {
    const Tensor* x = Recent();
    Shape s = x->shape;
    uint32_t c = s.back();
    switch (random_.Pick(0, 10)) {
      case 0:
      case 1: {
        uint32_t out_channels = random_.Pick(0, 1) == 0 ? c : random_.Pick(1, 7);
        const Tensor* w =
            net_->Static({1, 1, c, out_channels}, random_.Values(size_t{c} * out_channels, 0.5f));
        const Tensor* y = net_->Inner({s[0], s[1], s[2], out_channels});
        std::vector<const Tensor*> in = {x, w};
        if (random_.Pick(0, 1) == 0) in.push_back(Channels(out_channels, 0));
        Do("Conv2d", in, {y},
           {Net::Words("stride", {1, 1}), Net::Words("pad_amount", {0, 0, 0, 0}, {2, 2})});
        live_.push_back(y);
        return;
      }
      case 2:
        return Keep("Batchnorm", {x, Channels(c, 1), Channels(c, 0)}, s);
      case 3:
        return Keep("ElementWiseMultiply", {x, Channels(random_.Pick(0, 1) == 0 ? c : 1, 1)}, s);
      case 4:
        return Keep("ElementWiseAdd", {Channels(c, 0), x}, s);
      case 5:
        return Keep("ElementWiseAdd", {x, Like(x)}, s);
      case 6:
        return Keep("ElementWiseSubtract", {x, random_.Pick(0, 1) == 0 ? Like(x) : Channels(c, 0)},
                    s);
      case 7: {
        const char* const kinds[] = {"Relu", "Sigmoid", "Tanh", "HardSwish", "Relu6"};
        return Keep(kinds[random_.Pick(0, 4)], {x}, s);
      }
      case 8: {
        uint32_t perms[3][4] = {{0, 2, 1, 3}, {0, 3, 1, 2}, {0, 1, 3, 2}};
        const uint32_t* p = perms[random_.Pick(0, 2)];
        return Keep("Transpose", {x}, {s[p[0]], s[p[1]], s[p[2]], s[p[3]]},
                    {Net::Words("perm", {p[0], p[1], p[2], p[3]})});
      }
      case 9:
        return Keep("Reshape", {x}, {s[0], s[2], s[1], s[3]});
      default: {
        const Tensor* y = Like(x);
        return Keep("Concat", {x, y}, {s[0], s[1], s[2], 2 * s[3]}, {{"axis", int64_t{3}}});
      }
    }
  }
  void Keep(const char* type, std::vector<const Tensor*> in, const Shape& shape,
            std::vector<Param> params = {}) {
    const Tensor* y = net_->Inner(shape);
    Do(type, std::move(in), {y}, std::move(params));
    live_.push_back(y);
  }

  Net* net_;
  Random random_;
  std::vector<const Tensor*> live_;
};

bool Close(const Floats& a, const Floats& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(std::fabs(a[i] - b[i]) <= 2e-4f * (1.0f + std::fabs(b[i])))) return false;
  }
  return true;
}

void CompareRandomNets(bool portable, uint32_t seeds) {
  int changes = 0, shared = 0;
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    Net plain(true, true), optimized(false, portable);
    RandomNet a(&plain, seed), b(&optimized, seed);
    Status first = plain.Finalize(), second = optimized.Finalize();
    if (!CHECK(first.ok() && second.ok())) {
      std::fprintf(stderr, "  seed %u: %s%s\n", seed, first.message().c_str(),
                   second.message().c_str());
      continue;
    }
    for (const PassReport& pass : optimized.graph().passes()) changes += pass.changes;
    const ArenaPlan& arena = optimized.graph().plan()->arena();
    shared += arena.peak < arena.sum ? 1 : 0;
    Random random(seed + 1000);
    for (int run = 0; run < 2; ++run) {  // twice: nothing may be left over from the first
      std::map<uint32_t, Floats> inputs = {{1, random.Values(120)}, {2, random.Values(120)}}, x, y;
      REQUIRE(plain.Run(inputs, &x).ok());
      REQUIRE(optimized.Run(inputs, &y).ok());
      for (size_t i = 0; i < a.results.size(); ++i) {
        bool close = Close(y[b.results[i]->id], x[a.results[i]->id]);
        if (!CHECK(close))
          std::fprintf(stderr, "  seed %u, run %d, result %zu\n%s\n", seed, run, i,
                       optimized.graph().Describe().c_str());
      }
    }
  }
  std::printf("%u graphs, %d changes by passes, %d arenas with shared memory\n", seeds, changes,
              shared);
  CHECK(changes > static_cast<int>(seeds));  // the comparison is worth something
  CHECK(shared > static_cast<int>(seeds) / 4);
}

}  // namespace

TEST(random_graphs_compute_what_their_nodes_say) { CompareRandomNets(true, 400); }
TEST(random_graphs_compute_the_same_with_the_fast_library) { CompareRandomNets(false, 200); }

TEST(a_residual_block_becomes_two_steps) {
  Net net(false);
  Random random(1);
  const Tensor* x = net.Input({1, 4, 4, 8});
  auto conv = [&](const Tensor* in, const Tensor* out) {
    return net.Op("Conv2d", {in, net.Static({1, 1, 8, 8}, random.Values(64))}, {out},
                  {Net::Words("stride", {1, 1}), Net::Words("pad_amount", {0, 0, 0, 0}, {2, 2})});
  };
  auto channels = [&] { return net.Static({8}, random.Values(8)); };
  const Tensor *a = net.Inner({1, 4, 4, 8}), *b = net.Inner({1, 4, 4, 8}),
               *c = net.Inner({1, 4, 4, 8}), *d = net.Inner({1, 4, 4, 8}),
               *e = net.Inner({1, 4, 4, 8}), *f = net.Inner({1, 4, 4, 8}),
               *y = net.Output({1, 4, 4, 8});
  REQUIRE(conv(x, a).ok());
  REQUIRE(net.Op("Batchnorm", {a, channels(), channels()}, {b}).ok());
  REQUIRE(net.Op("Relu", {b}, {c}).ok());
  REQUIRE(conv(c, d).ok());
  REQUIRE(net.Op("Batchnorm", {d, channels(), channels()}, {e}).ok());
  REQUIRE(net.Op("ElementWiseAdd", {e, x}, {f}).ok());
  REQUIRE(net.Op("Relu", {f}, {y}).ok());
  REQUIRE(net.Finalize().ok());
  CHECK_EQ(net.graph().plan()->steps().size(), 2u);
}

TEST(a_batchnorm_is_written_over_the_operand_that_it_is_the_last_to_read) {
  // The image, or, where there is but one row, a computed weight or bias.
  for (size_t over = 0; over < 3; ++over) {
    const Shape shape = over == 0 ? Shape{37, 19} : Shape{19}, channels = {19};
    Net plain(true), shared(false);
    std::map<uint32_t, Floats> inputs;
    const Tensor* results[2];
    for (Net* net : {&plain, &shared}) {
      const Tensor* operands[3];
      for (size_t i = 0; i < 3; ++i) {
        operands[i] = net->Input(i == 0 ? shape : channels);
        inputs[operands[i]->id] = Random(static_cast<uint32_t>(i)).Values(operands[i]->elements());
      }
      const Tensor* computed = net->Inner(operands[over]->shape);
      REQUIRE(net->Op("ElementWiseExp", {operands[over]}, {computed}).ok());
      operands[over] = computed;
      const Tensor *normed = net->Inner(shape), *y = net->Output(shape);
      REQUIRE(net->Op("Batchnorm", {operands[0], operands[1], operands[2]}, {normed}).ok());
      REQUIRE(net->Op("ElementWiseExp", {normed}, {y}).ok());
      REQUIRE(net->Finalize().ok());
      results[net == &shared] = y;
    }
    CHECK_EQ(shared.graph().plan()->steps().size(), 3u);
    CHECK(shared.graph().plan()->arena().peak < 2 * ElementCount(shape) * sizeof(float));
    std::map<uint32_t, Floats> x, y;
    REQUIRE(plain.Run(inputs, &x).ok());
    REQUIRE(shared.Run(inputs, &y).ok());
    CHECK(Close(y[results[1]->id], x[results[0]->id]));
  }
}

TEST(constants_fold_and_unused_nodes_go) {
  Net net(false);
  const Tensor* x = net.Input({2, 3});
  const Tensor *two = net.Static({1}, {2}), *three = net.Static({1}, {3});
  const Tensor *six = net.Inner({1}), *unused = net.Inner({2, 3}), *y = net.Output({2, 3});
  REQUIRE(net.Op("ElementWiseMultiply", {two, three}, {six}).ok());
  REQUIRE(net.Op("Sigmoid", {x}, {unused}).ok());
  REQUIRE(net.Op("ElementWiseMultiply", {x, six}, {y}).ok());
  REQUIRE(net.Finalize().ok());
  CHECK_EQ(net.graph().plan()->steps().size(), 1u);
  std::map<uint32_t, Floats> out;
  REQUIRE(net.Run({{x->id, {1, 2, 3, 4, 5, 6}}}, &out).ok());
  CHECK(out[y->id] == (Floats{6, 12, 18, 24, 30, 36}));
}

// Stops a finalize when it asks for the n-th time.
class StopAt : public Interrupt {
 public:
  explicit StopAt(int n) : left_(n) {}
  Status Check() const override {
    return --left_ >= 0 ? Status::Ok() : Status(QNN_GRAPH_ERROR_ABORTED, "stopped");
  }
  bool stopped() const { return left_ < 0; }

 private:
  mutable int left_;
};

// x through three products with matrices, the first of which is used twice.
struct Products {
  explicit Products(bool release) : net(false, false) {
    GraphOptions options = net.graph().options();
    options.release_constants = release;
    options.keep_constants = !release;
    net.graph().set_options(options);
    Random random(3);
    x = net.Input({8, kSide});
    const Tensor* weights[] = {net.Static({kSide, kSide}, random.Values(kSide * kSide)),
                               net.Static({kSide, kSide}, random.Values(kSide * kSide))};
    const Tensor* last = x;
    for (int i : {0, 1, 0}) {
      const Tensor* next =
          i == 0 && last != x ? (y = net.Output({8, kSide})) : net.Inner({8, kSide});
      REQUIRE(net.Op("MatMul", {last, weights[i]}, {next}).ok());
      last = next;
    }
  }
  Floats Run() {
    std::map<uint32_t, Floats> out;
    CHECK_OK(net.Run({{x->id, Random(5).Values(8 * kSide)}}, &out));
    return out[y->id];
  }

  static constexpr uint32_t kSide = 96;
  Net net;
  const Tensor *x = nullptr, *y = nullptr;
};

TEST(released_constants_change_no_result) {
  Products kept(false), released(true);
  CHECK_OK(kept.net.Finalize());
  CHECK_OK(released.net.Finalize());
  CHECK(kept.Run() == released.Run());
}

TEST(a_finalize_that_was_stopped_can_be_repeated_unless_constants_are_released) {
  Products wanted(false);
  CHECK_OK(wanted.net.Finalize());
  const Floats expected = wanted.Run();
  int spent = 0, repeated = 0;
  for (bool release : {false, true}) {
    for (int n = 0;; ++n) {
      Products made(release);
      Graph& graph = made.net.graph();
      StopAt stop(n);
      if (graph.Finalize(nullptr, &stop).ok()) break;
      CHECK(stop.stopped());
      const Status again = graph.Finalize(nullptr);
      if (again.ok()) {
        ++repeated;
        CHECK(made.Run() == expected);
        continue;
      }
      ++spent;
      CHECK(release);
      CHECK_EQ(again.code(), ErrorCode{QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED});
      CHECK(again.message().find("RELEASE_CONSTANTS") != std::string::npos);
      Tensor more;
      more.name = "more";
      more.type = QNN_TENSOR_TYPE_APP_WRITE;
      more.shape = {1};
      CHECK_EQ(graph.AddTensor(std::move(more), nullptr).code(),
               ErrorCode{QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED});
    }
  }
  CHECK(spent > 0);
  CHECK(repeated > 0);
}

TEST(constants_that_stand_for_far_more_bytes_stay_steps) {
  Net net(false);
  const Shape row = {1, 9000}, column = {9000, 1};
  const Tensor *a = net.Static(row, Floats(9000, 2)), *b = net.Static(column, Floats(9000, 3));
  const Tensor *table = net.Inner({9000, 9000}), *x = net.Input(row), *y = net.Output(row);
  REQUIRE(net.Op("ElementWiseMultiply", {a, b}, {table}).ok());  // 324 MB of 72 kB
  REQUIRE(net.Op("MatMul", {x, table}, {y}).ok());
  REQUIRE(net.Finalize().ok());
  CHECK_EQ(net.graph().plan()->steps().size(), 2u);
}

TEST(transposes_that_undo_each_other_cost_nothing) {
  Net net(false);
  const Tensor* x = net.Input({1, 3, 4, 5});
  const Tensor *a = net.Inner({1, 4, 5, 3}), *b = net.Inner({1, 4, 5, 3}),
               *c = net.Inner({1, 3, 4, 5}), *y = net.Output({1, 3, 4, 5});
  REQUIRE(net.Op("Transpose", {x}, {a}, {Net::Words("perm", {0, 2, 3, 1})}).ok());
  REQUIRE(net.Op("Reshape", {a}, {b}).ok());
  REQUIRE(net.Op("Transpose", {b}, {c}, {Net::Words("perm", {0, 3, 1, 2})}).ok());
  REQUIRE(net.Op("Relu", {c}, {y}).ok());
  REQUIRE(net.Finalize().ok());
  CHECK_EQ(net.graph().plan()->steps().size(), 1u);
}

TEST(a_graph_whose_nodes_come_in_any_order_runs) {
  Net net(false);
  const Tensor *x = net.Input({4}), *a = net.Inner({4}), *y = net.Output({4});
  REQUIRE(net.Op("Relu", {a}, {y}).ok());
  REQUIRE(net.Op("ElementWiseNeg", {x}, {a}).ok());
  REQUIRE(net.Finalize().ok());
  std::map<uint32_t, Floats> out;
  REQUIRE(net.Run({{x->id, {-1, 2, -3, 4}}}, &out).ok());
  CHECK(out[y->id] == (Floats{1, 0, 3, 0}));
}

TEST(graphs_that_cannot_run_say_why) {
  {
    Net net(false);
    const Tensor *a = net.Inner({4}), *y = net.Output({4});
    REQUIRE(net.Op("Relu", {a}, {y}).ok());
    CHECK_EQ(net.Finalize().code(), ErrorCode{QNN_GRAPH_ERROR_UNCONNECTED_NODE});
  }
  {
    Net net(false);
    net.Input({4});
    net.Output({4});
    CHECK_EQ(net.Finalize().code(), ErrorCode{QNN_GRAPH_ERROR_UNCONNECTED_NODE});
  }
  {
    Net net(false);
    const Tensor *x = net.Input({4}), *a = net.Inner({4}), *b = net.Inner({4}),
                 *y = net.Output({4});
    REQUIRE(net.Op("ElementWiseAdd", {x, b}, {a}).ok());
    REQUIRE(net.Op("Relu", {a}, {b}).ok());
    REQUIRE(net.Op("Relu", {b}, {y}).ok());
    CHECK_EQ(net.Finalize().code(), ErrorCode{QNN_GRAPH_ERROR_UNCONNECTED_NODE});  // a cycle
  }
  {
    Net net(false);
    const Tensor *x = net.Input({4}), *y = net.Output({4});
    REQUIRE(net.Op("Relu", {x}, {y}).ok());
    REQUIRE(net.Op("Tanh", {x}, {y}).ok());
    CHECK_EQ(net.Finalize().code(), ErrorCode{QNN_GRAPH_ERROR_INVALID_TENSOR});  // written twice
  }
  {
    Net net(false);
    const Tensor *x = net.Input({4}), *y = net.Output({4});
    REQUIRE(net.Op("Relu", {x}, {y}).ok());
    std::map<uint32_t, Floats> out;
    CHECK_EQ(net.Run({{x->id, {1, 2, 3, 4}}}, &out).code(),
             ErrorCode{QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED});
    REQUIRE(net.Finalize().ok());
    CHECK_EQ(net.Finalize().code(), ErrorCode{QNN_GRAPH_ERROR_GRAPH_FINALIZED});
    CHECK_EQ(net.Run({{x->id, {1, 2, 3}}}, &out).code(),
             ErrorCode{QNN_GRAPH_ERROR_INVALID_TENSOR});  // too small
    CHECK(net.Run({{x->id, {1, 2, 3, 4}}}, &out).ok());   // and the next correct call works
  }
}

CHECK_MAIN("graph_test")
