"""Inputs and outputs that have memory in common: right results or a refusal, no wrong ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import qnnrt
from qnnrt import qnn
from qnnrt.qnn.options import own_graph_config

SIDE = 16
NBYTES = 4 * SIDE * SIDE


@pytest.fixture(params=["cpu", "htp"])
def context(request) -> Iterator[qnn.Context]:
    with qnn.Backend.open(request.param) as backend, backend.create_context() as c:
        yield c


class Net:
    """Nodes on square matrices of floats; `at` says where in one buffer each tensor lies."""

    def __init__(
        self, context: qnn.Context, inputs: str, outputs: str, name="g", kernels="auto"
    ) -> None:
        self.context = context
        custom = own_graph_config(context.backend.library, kernels=kernels)
        self.graph = context.create_graph(name, custom=custom)
        types = dict.fromkeys(inputs, "app_write") | dict.fromkeys(outputs, "app_read")
        self.tensors = {n: self._add(n, type) for n, type in types.items()}
        self.inputs, self.outputs = inputs, outputs

    def _add(self, name: str, type: str):
        return self.graph.add_tensor(name, (SIDE, SIDE), np.float32, type=type)

    def node(self, op: str, inputs: str, output: str, params=None) -> None:
        if output not in self.tensors:
            self.tensors[output] = self._add(output, "native")
        ins = [self.tensors[i] for i in inputs]
        self.graph.add_node(f"{op} {output}", op, ins, [self.tensors[output]], params or {})

    def run(self, at: dict[str, int], raw: str = "", again: str = "") -> dict[str, np.ndarray]:
        """Inputs from before the execution and outputs from behind it. Tensors in `again` lie in
        another mapping of the buffer's memory."""
        buffer = qnnrt.alloc(max(at.values()) + NBYTES)
        other = qnnrt.Buffer.from_fd(buffer.fd, buffer.nbytes) if again else buffer
        arrays = {
            n: (other if n in again else buffer).array((SIDE, SIDE), "float32", offset)
            for n, offset in at.items()
        }
        rng = np.random.default_rng(0)
        whole = buffer.array((buffer.nbytes // 4,), "float32")
        whole[...] = rng.normal(size=whole.shape)
        values = {n: arrays[n].copy() for n in self.inputs}
        made: dict[int, qnn.MemHandle] = {}

        def bound(name: str):
            if name in raw:
                return arrays[name]
            if at[name] not in made:
                made[at[name]] = self.context.register(
                    buffer, (SIDE, SIDE), np.float32, offset=at[name], kind="shared_buffer"
                )
            return made[at[name]]

        ins, outs = [bound(n) for n in self.inputs], [bound(n) for n in self.outputs]
        try:
            self.graph.execute(ins, outs)
        finally:
            for handle in made.values():
                handle.close()
        return values | {n: arrays[n].copy() for n in self.outputs}


def transposed(context: qnn.Context) -> Net:
    net = Net(context, "a", "y")
    net.node("Transpose", "a", "y", {"perm": np.array([1, 0], np.uint32)})
    net.graph.finalize()
    return net


def test_an_element_wise_node_writes_over_its_own_operand(context) -> None:
    net = Net(context, "ab", "y")
    net.node("ElementWiseAdd", "ab", "y")
    net.graph.finalize()
    for a, b in ((0, NBYTES), (NBYTES, 0), (0, 0)):
        got = net.run({"a": a, "b": b, "y": 0})
        np.testing.assert_array_equal(got["y"], got["a"] + got["b"])


def test_a_transposed_matrix_does_not_go_where_it_is_read(context) -> None:
    net = transposed(context)
    message = r"input 'a' and output 'y' have memory in common \(1024 bytes at 0x.*of its own"
    with pytest.raises(qnnrt.GraphError, match=message) as e:
        net.run({"a": 0, "y": 0})
    assert e.value.code == 6004
    with pytest.raises(qnnrt.GraphError, match=r"\(4 bytes at"):
        net.run({"a": 0, "y": NBYTES - 4})
    with pytest.raises(qnnrt.GraphError, match=r"\(4 bytes at"):
        net.run({"a": NBYTES - 4, "y": 0})
    got = net.run({"a": 0, "y": NBYTES})  # side by side, and after refusals
    np.testing.assert_array_equal(got["y"], got["a"].T)


def test_the_same_refusal_comes_again(context) -> None:
    net = transposed(context)
    for _ in range(2):
        with pytest.raises(qnnrt.GraphError, match="have memory in common"):
            net.run({"a": 0, "y": 0})


def test_an_element_wise_node_does_not_go_beside_its_operand(context) -> None:
    net = Net(context, "a", "y")
    net.node("Relu", "a", "y")
    net.graph.finalize()
    for offset in (64, NBYTES - 64):
        with pytest.raises(qnnrt.GraphError, match="have memory in common"):
            net.run({"a": 0, "y": offset})
        with pytest.raises(qnnrt.GraphError, match="have memory in common"):
            net.run({"a": offset, "y": 0})


def test_an_input_that_was_read_before_may_be_written_over(context) -> None:
    net = Net(context, "ab", "y")
    net.node("MatMul", "ab", "n")
    net.node("Transpose", "n", "y", {"perm": np.array([1, 0], np.uint32)})
    net.graph.finalize()
    for offset in (0, 64, NBYTES):
        got = net.run({"a": 0, "b": NBYTES, "y": offset})
        np.testing.assert_allclose(got["y"], (got["a"] @ got["b"]).T, rtol=1e-5, atol=1e-5)


def test_an_input_that_is_read_again_is_not(context) -> None:
    net = Net(context, "ab", "yz")
    net.node("Relu", "a", "y")
    net.node("ElementWiseAdd", "ab", "z")
    net.graph.finalize()
    with pytest.raises(qnnrt.GraphError, match="have memory in common"):
        net.run({"a": 0, "b": NBYTES, "y": 0, "z": 2 * NBYTES})
    got = net.run({"a": 0, "b": NBYTES, "y": 2 * NBYTES, "z": 0})
    np.testing.assert_array_equal(got["y"], np.maximum(got["a"], 0))
    np.testing.assert_array_equal(got["z"], got["a"] + got["b"])


def test_two_outputs_have_memory_of_their_own(context) -> None:
    net = Net(context, "a", "yz")
    net.node("Relu", "a", "y")
    net.node("ElementWiseNeg", "a", "z")
    net.graph.finalize()
    with pytest.raises(qnnrt.GraphError, match="output 'y' and output 'z' have memory in common"):
        net.run({"a": 0, "y": NBYTES, "z": NBYTES})


def test_two_inputs_may_lie_anywhere(context) -> None:
    net = Net(context, "ab", "y")
    net.node("MatMul", "ab", "y")
    net.graph.finalize()
    for offset in (0, 64):
        got = net.run({"a": 0, "b": offset, "y": 2 * NBYTES})
        np.testing.assert_allclose(got["y"], got["a"] @ got["b"], rtol=1e-5, atol=1e-5)


def test_a_file_that_is_mapped_twice_is_one_memory() -> None:
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        net = transposed(context)
        message = r"'a' and output 'y' have memory in common \((1024|64) bytes of a file that is "
        for again in ("a", "y"):
            for at in ({"a": 0, "y": 0}, {"a": 0, "y": NBYTES - 64}, {"a": NBYTES - 64, "y": 0}):
                for raw in ("ay", again):  # the other mapping, or both; else by memory handle
                    with pytest.raises(qnnrt.GraphError, match=message) as e:
                        net.run(at, raw, again)
                    assert e.value.code == 6004
            for at in ({"a": 0, "y": NBYTES}, {"a": NBYTES, "y": 0}):
                got = net.run(at, "ay", again)
                np.testing.assert_array_equal(got["y"], got["a"].T)


def test_handles_of_two_mappings_of_a_file_are_one_memory(context) -> None:
    graph = transposed(context).graph
    shape = (SIDE, SIDE)
    buffer = qnnrt.alloc(2 * NBYTES)
    again = qnnrt.Buffer.from_fd(buffer.fd, buffer.nbytes)
    with context.register(again, shape, np.float32, kind="dma_buf") as y:
        for offset in (NBYTES - 64, NBYTES):
            a = buffer.array(shape, "float32", offset)
            a[...] = np.random.default_rng(0).normal(size=shape)
            with context.register(
                buffer, shape, np.float32, offset=offset, kind="shared_buffer"
            ) as x:
                if offset < NBYTES:
                    with pytest.raises(qnnrt.GraphError, match="64 bytes of a file that is mapped"):
                        graph.execute([x], [y])
                else:
                    graph.execute([x], [y])
        np.testing.assert_array_equal(again.array(shape, "float32"), a.T)


def test_what_is_staged_has_memory_of_its_own() -> None:
    with qnn.Backend.open("htp") as backend, backend.create_context() as context:
        net = transposed(context)
        for raw in ("a", "y", "ay"):
            got = net.run({"a": 0, "y": 0}, raw)
            np.testing.assert_array_equal(got["y"], got["a"].T)


UNARY = ["Relu", "ElementWiseNeg", "Softmax", "Transpose", "Reshape"]
BINARY = ["ElementWiseAdd", "ElementWiseMultiply", "MatMul"]


@pytest.mark.parametrize("kernels", ["auto", "portable"])
def test_no_random_graph_gives_a_wrong_result(context, kernels) -> None:
    rng = np.random.default_rng(7)
    refused = right = 0
    reasons = set()
    for number in range(60):
        net = Net(context, "abc", "xyz", f"g{number}", kernels)
        known = list("abc")
        for output in [*"nmopq"[: rng.integers(6)], *rng.permutation(list("xyz"))]:
            if rng.random() < 0.5:
                op, ins = str(rng.choice(UNARY)), rng.choice(known, 1)
            else:
                op, ins = str(rng.choice(BINARY)), rng.choice(known, 2)
            params = {"perm": np.array([1, 0], np.uint32)} if op == "Transpose" else None
            net.node(op, "".join(ins), output, params)
            known.append(output)
        net.graph.finalize()
        apart = {n: i * NBYTES for i, n in enumerate("abcxyz")}
        expected = net.run(apart)
        for _ in range(8):
            at = dict(apart)
            for output in rng.choice(list("xyz"), rng.integers(1, 3), replace=False):
                at[output] = apart[rng.choice(list("abc"))] + int(rng.choice([0, 0, 0, 64]))
            # In a second mapping; raw memory, which htp would stage.
            twice = context.backend.name == "cpu" and rng.random() < 0.5
            again = "".join(rng.choice(list("abcxyz"), 2, replace=False)) if twice else ""
            try:
                got = net.run(at, "abcxyz" if twice else "", again)
            except qnnrt.GraphError as e:
                reasons.add(e.code)
                refused += 1
                continue
            right += 1
            for name in "xyz":
                np.testing.assert_array_equal(got[name], expected[name])
    assert reasons == {6004}
    assert refused > 50
    assert right > 50
