"""Texts that are decoded together: each gets the tokens that it gets alone, and none is moved."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.llm import Batch, Conversation, LanguageModel
from qnnrt.llm.decoder import Slots
from support.decoders import CAPACITY, VOCABULARY, Exported
from support.outside import run_code

pytestmark = pytest.mark.foreign  # torch

TEXTS = [
    [int(t) for t in np.random.default_rng(seed).integers(0, VOCABULARY, length)]
    for seed, length in enumerate((31, 4, 17, 1, 40))
]


@pytest.fixture
def model(llama: Exported) -> Iterator[LanguageModel]:
    with LanguageModel(llama.folder, strict=True) as found:
        yield found


def decoded(batch: Batch) -> dict[Conversation, list[int]]:
    """All steps until the batch is empty."""
    made: dict[Conversation, list[int]] = {}
    while len(batch):
        for text, token in batch.step().items():
            made.setdefault(text, []).append(token)
    return made


def test_families_decode_together_what_they_do_alone(family: Exported) -> None:
    with LanguageModel(family.folder, strict=True) as model:
        batch = model.batch(4)
        texts = [batch.add(tokens, 9 + i) for i, tokens in enumerate(TEXTS[:4])]
        made = decoded(batch)
        for i, text in enumerate(texts):
            assert made[text] == family.greedy(TEXTS[i], 9 + i)
            assert text.tokens == TEXTS[i] + made[text]
        assert model.copied_bytes == 0


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_texts_come_and_go_and_the_others_stay_where_they_are(
    llama: Exported, backend: str
) -> None:
    with LanguageModel(llama.folder, backend=backend, strict=True) as model:
        batch = model.batch(3)
        made: dict[Conversation, list[int]] = {}
        where: dict[Conversation, Slots] = {}

        def step(count: int = 1) -> None:
            for _ in range(count):
                for text in batch.conversations:
                    assert where.setdefault(text, text._slots) == text._slots
                for text, token in batch.step().items():
                    made.setdefault(text, []).append(token)

        first, second = batch.add(TEXTS[0], 20), batch.add(TEXTS[1], 3)
        step(2)
        third = batch.add(TEXTS[2])  # comes while two go on
        step()  # the last one of the second
        assert batch.conversations == (first, third)
        fourth = batch.add(TEXTS[3], 6)  # in the second one's row
        step(4)
        batch.remove(third)
        step(2)
        assert batch.conversations == (first,)
        step(11)
        assert len(batch) == 0
        assert [where[text].first for text in (first, second, third, fourth)] == [0, 1, 2, 1]
        assert {text.buffer.nbytes for text in where.values()} == {3 * model.cache_bytes}
        assert made[first] == llama.greedy(TEXTS[0], 20)
        assert made[second] == llama.greedy(TEXTS[1], 3)
        assert made[third] == llama.greedy(TEXTS[2], 5)
        assert made[fourth] == llama.greedy(TEXTS[3], 6)
        # What was taken out goes on by itself.
        assert list(third.generate(4)) == llama.greedy(TEXTS[2] + made[third], 4)
        assert batch.step() == {}
        assert model.copied_bytes == 0


def test_a_step_is_one_run(model: LanguageModel) -> None:
    batch = model.batch(4)
    for tokens in TEXTS[:4]:
        batch.add(tokens, 6)
    decoded(batch)
    runs = {key: s.stats.executes for key, s in model._sessions.items()}
    # The first token of each comes with its text; the last one is not read.
    assert runs.pop((1, 1, 4)) == 5
    assert all(texts == 1 for _, _, texts in runs)


def test_the_graph_is_that_of_the_rows_in_use(model: LanguageModel) -> None:
    batch = model.batch(5)
    for tokens, count in zip(TEXTS, (2, 3, 4, 5, 6), strict=True):
        batch.add(tokens, count)
    decoded(batch)
    sizes = {texts: s.stats.executes for (_, _, texts), s in model._sessions.items() if texts > 1}
    assert sizes == {5: 5}  # the last row stays to the end
    for tokens, count in zip(TEXTS[:3], (6, 4, 2), strict=True):
        batch.add(tokens, count)
    decoded(batch)
    sizes = {texts: s.stats.executes for (_, _, texts), s in model._sessions.items() if texts > 1}
    assert sizes == {5: 5, 4: 1, 2: 2}


def test_what_a_row_held_before_is_not_read(model: LanguageModel, llama: Exported) -> None:
    batch = model.batch(2)
    memory = batch._slots.buffer
    memory.array((memory.nbytes // 4,), np.float32)[...] = np.nan
    texts = [batch.add(tokens, 8) for tokens in TEXTS[:2]]
    made = decoded(batch)
    for text, tokens in zip(texts, TEXTS, strict=False):
        assert made[text] == llama.greedy(tokens, 8)


def test_drawn_tokens_are_those_drawn_alone(model: LanguageModel) -> None:
    drawn = {"temperature": 1.3, "top_k": 40}
    batch = model.batch(3)
    texts = [batch.add(tokens, 12, seed=i, **drawn) for i, tokens in enumerate(TEXTS[:3])]
    made = decoded(batch)
    for i, text in enumerate(texts):
        alone = model.conversation()
        alone.append(TEXTS[i])
        assert made[text] == list(alone.generate(12, seed=i, **drawn))


def test_a_text_in_a_batch_is_a_conversation(model: LanguageModel, llama: Exported) -> None:
    """It is appended to, rewound, goes on by itself or elsewhere, between two steps."""
    batch = model.batch(2)
    text, other = batch.add(TEXTS[0]), batch.add(TEXTS[1])
    made = [step[other] for step in (batch.step(), batch.step())]
    prefix = text.prefix
    copy = model.conversation(prefix)
    assert list(copy.generate(4)) == llama.greedy(list(prefix.tokens), 4)
    text.rewind(20)
    step = batch.step()
    assert [step[text]] == llama.greedy(TEXTS[0][:20], 1)
    made.append(step[other])
    text.append(TEXTS[2])
    expected = list(text.tokens)
    assert list(text.generate(2)) == llama.greedy(expected, 2)
    step = batch.step()
    assert [step[text]] == llama.greedy(expected, 3)[2:]
    assert [*made, step[other]] == llama.greedy(TEXTS[1], 4)
    text.rewind(0)
    with pytest.raises(ValueError, match="empty"):
        batch.step()
    batch.remove(text)
    assert [batch.step()[other]] == llama.greedy(TEXTS[1], 5)[4:]


def test_a_full_cache_ends_a_text(model: LanguageModel, llama: Exported) -> None:
    batch = model.batch(2)
    long, short = batch.add(TEXTS[0]), batch.add(TEXTS[1], 3)
    made = decoded(batch)
    assert made[long] == llama.greedy(TEXTS[0], CAPACITY - len(TEXTS[0]))
    assert made[short] == llama.greedy(TEXTS[1], 3)
    text = batch.add(TEXTS[0])
    text.append([1] * (CAPACITY - len(TEXTS[0])))
    assert batch.step() == {}
    assert len(batch) == 0


def test_what_cannot_be_added_changes_nothing(model: LanguageModel, llama: Exported) -> None:
    with pytest.raises(ValueError, match="size is 0"):
        model.batch(0)
    batch = model.batch(2)
    text = batch.add(TEXTS[0])
    for tokens, count, match in (
        ([], None, "0 tokens"),
        ([1] * CAPACITY, None, "does not go on"),
        ([1] * (CAPACITY + 1), None, "do not fit"),
        ([VOCABULARY], None, "token"),
        ([1], 0, "max_tokens"),
    ):
        with pytest.raises(ValueError, match=match):
            batch.add(tokens, count)
    with pytest.raises(ValueError, match="temperature"):
        batch.add([1], temperature=-1)
    assert batch.conversations == (text,)
    other = batch.add(TEXTS[1], 2)
    with pytest.raises(ValueError, match="all it has room for"):
        batch.add(TEXTS[2])
    made = [batch.step()[text], batch.step()[text]]
    with pytest.raises(ValueError, match="not in the batch"):
        batch.remove(other)
    assert made == llama.greedy(TEXTS[0], 2)


@pytest.mark.other_fds
def test_another_process_keeps_the_memory_of_a_batch(llama: Exported) -> None:
    """Mapped and registered once, until the model is closed."""
    receiver = """
import sys
from qnnrt import _core
from qnnrt.llm import LanguageModel

with LanguageModel(sys.argv[1], strict=True) as model:
    other = model.conversation()
    for length in (31, 4, 17, 1):  # has all graphs made
        other.rewind(0)
        other.append([0] * length)
    session = model._session(1, 1)
    before, n = _core.memory_counts(), len(session.state)
    for i, message in enumerate(sys.argv[2:]):
        times = session._memory.together.times
        text = model.conversation(bytes.fromhex(message))
        assert session._memory.together.times == times + 1
        assert model._bound[1, 1, 1] is text._slots and text._slots.kept is not None
        tokens = list(text.tokens)
        made = list(text.generate(4))
        text.rewind(0)
        text.append(tokens)  # by graphs of more tokens, which find what is registered
        print(*made, flush=True)
        if i == 0:
            text.cache.close()  # the model has a Buffer of its own
        del text
        other.rewind(0)
        other.append([0])
        now = _core.memory_counts()
        assert {k: now[k] - before[k] for k in now if now[k] != before[k]} == {
            "buffers": 1, "maps": 1, "fds": 1, "handles": n * 3}
    assert model.copied_bytes == 0
assert _core.memory_counts()["handles"] == 0
"""
    with LanguageModel(llama.folder, strict=True) as model:
        batch = model.batch(3)
        texts = [batch.add(tokens) for tokens in TEXTS[:3]]
        messages = [text.prefix.to_bytes().hex() for text in texts * 2]
        result = run_code(receiver, str(llama.folder), *messages)
        assert (result.returncode, result.stderr) == (0, "")
        made = [list(map(int, line.split())) for line in result.stdout.splitlines()]
        assert made == [llama.greedy(tokens, 4) for tokens in TEXTS[:3]] * 2


@pytest.mark.other_fds
def test_another_process_keeps_the_last_few_batches_memory(llama: Exported) -> None:
    receiver = """
import sys
from qnnrt import _core
from qnnrt.llm import LanguageModel

with LanguageModel(sys.argv[1]) as model:
    model.conversation().append([0])
    before = _core.memory_counts()
    for i, message in enumerate(sys.argv[2:]):
        text = model.conversation(bytes.fromhex(message))
        print(*text.generate(2), flush=True)
        del text
        assert _core.memory_counts()["maps"] - before["maps"] <= 4
"""
    with LanguageModel(llama.folder) as model:
        batches = [model.batch(2) for _ in range(6)]
        texts = [batch.add(TEXTS[i % 5]) for i, batch in enumerate(batches)]
        messages = [text.prefix.to_bytes().hex() for text in texts * 2]
        result = run_code(receiver, str(llama.folder), *messages)
        assert (result.returncode, result.stderr) == (0, "")
        made = [list(map(int, line.split())) for line in result.stdout.splitlines()]
        assert made == [llama.greedy(TEXTS[i % 5], 2) for i in range(6)] * 2


def test_a_process_receives_texts_of_its_own_batch(model: LanguageModel, llama: Exported) -> None:
    batch = model.batch(4)
    texts = [batch.add(tokens) for tokens in TEXTS[:3]]
    for text, tokens in zip(texts, TEXTS, strict=False):
        again = model.conversation(text.prefix.to_bytes())
        assert list(again.generate(3)) == llama.greedy(tokens, 3)
        del again
    for i in range(4):
        step = batch.step()
        assert [step[t] for t in texts] == [llama.greedy(tokens, 4)[i] for tokens in TEXTS[:3]]


def _send_texts(folder: str, pipe: Any) -> None:
    with LanguageModel(folder) as model:
        batch, alone = model.batch(2), model.conversation()
        alone.append(TEXTS[2])
        texts = [batch.add(tokens) for tokens in TEXTS[:2]]
        for text in (*texts, alone):
            pipe.send_bytes(text.prefix.to_bytes())
        pipe.recv()


@pytest.mark.other_fds
def test_texts_in_memory_that_came_outlive_their_process(
    model: LanguageModel, llama: Exported
) -> None:
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    child = spawn.Process(target=_send_texts, args=(str(llama.folder), there))
    child.start()
    try:
        model.conversation().append([0])
        first, second, alone = (here.recv_bytes() for _ in range(3))
        text = model.conversation(first)
        os.kill(child.pid or 0, signal.SIGKILL)
        child.join()
        assert list(text.generate(4)) == llama.greedy(TEXTS[0], 4)
        with pytest.raises(qnnrt.HandoffError, match="it has ended"):
            model.conversation(alone)
        other = model.conversation(second)
        assert list(other.generate(4)) == llama.greedy(TEXTS[1], 4)
        assert text.tokens[-4:] == llama.greedy(TEXTS[0], 4)
    finally:
        child.kill()
        child.join()
        here.close()
        there.close()
