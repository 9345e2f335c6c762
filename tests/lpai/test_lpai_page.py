"""docs/lpai.md says what is so: its programs run, its options are those that there are."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt import _core, lpai
from qnnrt.qnn import Backend, Context, Graph
from support.lpai_models import example

PAGE = (Path(__file__).resolve().parents[2] / "docs/lpai.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("page")
    with qnnrt.Session(example().network()) as s:
        s.save_binary(found / "keyword.bin")
    random = np.random.default_rng(0)
    np.save(found / "sound.npy", random.normal(0, 1, (5, 1, 40)).astype(np.float32))
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_its_programs_run(folder: Path, program: str) -> None:
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr


def test_it_has_four_programs() -> None:
    assert len(PROGRAMS) == 4


def test_its_options_are_those_of_a_session() -> None:
    table = PAGE[PAGE.index("| option | |") : PAGE.index("`session.set_scratch(buffer)`")]
    told = re.findall(r"`(\w+)`", "\n".join(row.split("|")[1] for row in table.splitlines() if row))
    assert sorted(told) == sorted(field.name for field in fields(lpai.Options))


class Broken:
    """Every rule of the page's table, broken: what is done, by the beginning of its row."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self.backend, self.folder = backend, folder
        self.contexts: list[Context] = []

    def graph(self, name: str = "keyword", finalized: bool = False) -> Graph:
        self.contexts.append(Context.from_binary(self.backend, self.folder / "keyword.bin"))
        graph = self.contexts[-1].graph(name)
        if finalized:
            lpai.allocate_pools(graph)
            graph.finalize()
        return graph

    def frames(self, graph: Graph) -> dict[str, np.ndarray]:
        return {name: lpai.io_array(graph, name) for name in ("frame", "reset")}

    def a_pool_that_is_needed_is_missing(self) -> None:
        self.graph().finalize()

    def a_pool_is_too_small(self) -> None:
        graph = self.graph()
        lpai.pool_sizes(graph)
        lpai.set_scratch(graph, lpai.alloc(self.backend, 16))

    def the_pools_of_a_graph_overlap(self) -> None:
        graph, memory = self.graph(), lpai.alloc(self.backend, 1 << 16)
        lpai.set_scratch(graph, memory)
        lpai.set_persistent(graph, memory)

    def a_pool_in_anything_but_ddr(self) -> None:
        config = _core.LpaiConfig.memory(False, lpai.MemType.TCM, 0x1000, 1 << 16)
        self.graph().set_config(custom=[config])

    def persistent_memory_is_set_after(self) -> None:
        lpai.set_persistent(self.graph(finalized=True), lpai.alloc(self.backend, 1 << 16))

    def an_execution_without_scratch_memory(self) -> None:
        graph = self.graph(finalized=True)
        lpai.set_scratch(graph, None)
        graph.execute({}, {})

    def an_execution_before(self) -> None:
        graph = self.graph()
        lpai.allocate_pools(graph)
        graph.execute({}, {})

    def an_input_or_output_is_not_aligned(self) -> None:
        graph = self.graph(finalized=True)
        scores = lpai.alloc(self.backend, 64).array((1, 4), np.uint16, 16)
        graph.execute(self.frames(graph), {"scores": scores})

    def an_input_or_output_overlaps_a_pool(self) -> None:
        graph = self.graph(finalized=True)
        scores = lpai.pools_of(graph).persistent.array((1, 4), np.uint16)
        graph.execute(self.frames(graph), {"scores": scores})

    def no_address__and(self) -> None:
        with qnnrt.Session(example().network(), self.backend) as s:
            s.graph.execute([None, None], [None])

    def prepare_after_sizes(self) -> None:
        graph = self.graph()
        lpai.pool_sizes(graph)
        lpai.set_prepare(graph)

    def fps_or_ftrt_ratio_of_0(self) -> None:
        lpai.set_performance(self.graph(), fps=0)

    def float_tensors(self) -> None:
        self.contexts.append(self.backend.create_context())
        graph = self.contexts[-1].create_graph("g")
        x, y = (
            graph.add_tensor(name, (4,), np.float32, type=f"app_{kind}")
            for name, kind in (("x", "write"), ("y", "read"))
        )
        graph.add_node("relu", "Relu", [x], [y])

    def devicecreate(self) -> None:
        self.backend.library.device_create(0)

    def direct_mode__and_a_context_binary(self) -> None:
        with Backend.open("lpai", options=lpai.backend_options(direct_mode=True)) as direct:
            binary = self.folder / "keyword.bin"
            Context.from_binary(direct, binary, persistent_binary=False)

    def tcm_without_direct_mode(self) -> None:
        lpai.Allocator(self.backend, "tcm")


def rules() -> dict[str, int]:
    """The rows that have a code: what is done, as a name in ``Broken``; and the code."""
    table = PAGE[PAGE.index("| rule |") : PAGE.index("What cannot be seen")]
    names = [name for name in vars(Broken) if name[0] != "_" and name not in ("graph", "frames")]
    found = {}
    for row in table.splitlines()[2:]:
        told = row.split("|")
        if len(told) > 2 and (code := re.search(r"\b\d{4}\b", told[2])):
            words = re.sub(r"[^a-z0-9]", "_", told[1].replace("`", "").strip().lower())
            (name,) = [name for name in names if words.startswith(name)]
            found[name] = int(code[0])
    assert len(found) == len(names)
    return found


@pytest.mark.parametrize("rule", rules())
def test_its_codes_are_those_that_come(folder: Path, rule: str) -> None:
    with Backend.open("lpai") as backend:
        broken = Broken(backend, folder)
        with pytest.raises(qnnrt.QnnError) as error:
            getattr(broken, rule)()
        assert error.value.code == rules()[rule], str(error.value)


def test_the_names_that_it_uses_are_there() -> None:
    for name in set(re.findall(r"lpai\.(\w+)", PAGE)) - {"bin"}:
        assert hasattr(lpai, name), name
