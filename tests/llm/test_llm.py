"""Language models: the tokens are those of transformers, whatever way the text was read, and
nothing is copied."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.llm import Conversation, LanguageModel, Prefix, Sampling
from support.decoders import CAPACITY, VOCABULARY, Exported, build
from support.outside import run_code
from support.senders import WITHOUT_TRACING

pytestmark = pytest.mark.foreign  # torch

TEXT = [int(t) for t in np.random.default_rng(3).integers(0, VOCABULARY, 47)]


@pytest.fixture
def model(llama: Exported) -> Iterator[LanguageModel]:
    with LanguageModel(llama.folder, strict=True) as found:
        yield found


def test_families_generate_what_transformers_does(family: Exported) -> None:
    with LanguageModel(family.folder, strict=True) as model:
        text = model.conversation()
        text.append(TEXT)
        assert list(text.generate(20)) == family.greedy(TEXT, 20)
        assert model.copied_bytes == 0


@pytest.mark.parametrize("chunks", [(1,), (7, 3), (64,), (32, 8, 1)])
def test_chunks_do_not_change_what_is_read(llama: Exported, chunks: tuple[int, ...]) -> None:
    with LanguageModel(llama.folder, chunks=chunks) as model:
        text = model.conversation()
        text.append(TEXT)
        assert list(text.generate(12)) == llama.greedy(TEXT, 12)


# On htp RAW tensors are staged: that is its rule.
@pytest.mark.parametrize(
    ("backend", "io"), [("cpu", "memhandle"), ("cpu", "raw"), ("htp", "memhandle")]
)
def test_a_token_copies_nothing(llama: Exported, backend: str, io: str) -> None:
    with LanguageModel(llama.folder, backend=backend, io=io, strict=True) as model:
        text = model.conversation()
        text.append(TEXT[:5])
        assert list(text.generate(8)) == llama.greedy(TEXT[:5], 8)
        assert model.copied_bytes == 0


def test_a_text_may_come_in_pieces(model: LanguageModel, llama: Exported) -> None:
    text = model.conversation()
    for at in range(0, len(TEXT), 5):
        text.append(TEXT[at : at + 5])
    assert list(text.generate(10)) == llama.greedy(TEXT, 10)


def test_rewind_is_a_number(model: LanguageModel, llama: Exported) -> None:
    text = model.conversation()
    text.append(TEXT)
    first = list(text.generate(10))
    for length in (len(TEXT) + 4, 20, len(TEXT[:20]) - 1, 1):
        text.rewind(length)
        assert text.tokens == (TEXT + first)[:length]
        assert list(text.generate(6)) == llama.greedy((TEXT + first)[:length], 6)
        text.rewind(length)
        text.append((TEXT + first)[length:])
    text.rewind(0)
    assert text.tokens == []
    with pytest.raises(ValueError, match="empty"):
        next(text.generate())


def test_conversations_do_not_touch_each_other(model: LanguageModel, llama: Exported) -> None:
    texts = [model.conversation() for _ in range(3)]
    for i, text in enumerate(texts):
        text.append(TEXT[: 10 + 7 * i])
    streams = [text.generate(8) for text in texts]
    made = list(zip(*streams, strict=True))
    for i in range(3):
        assert [row[i] for row in made] == llama.greedy(TEXT[: 10 + 7 * i], 8)


def test_conversations_that_take_turns_are_registered_once(model: LanguageModel) -> None:
    texts = [model.conversation() for _ in range(3)]
    for text in texts:
        text.append(TEXT)

    def registered() -> int:
        for text in texts:
            list(text.generate(2))
        return sum(session.stats.registrations for session in model._sessions.values())

    assert registered() == registered() > 0
    again = model.conversation(texts[1].prefix)  # in the same memory
    before = registered()
    list(again.generate(2))
    assert registered() == before
    # They go with the text and others that have its memory.
    held = len(model._sessions[1, 1, 1].context._groups())
    del again
    text = texts.pop()
    cache = text.cache
    del text
    texts[0].rewind(0)
    texts[0].append(TEXT)  # all graphs are bound to another one's
    list(texts[0].generate(2))
    gc.collect()
    assert len(model._sessions[1, 1, 1].context._groups()) == held - 1
    cache.close()


def test_a_draft_changes_no_token(model: LanguageModel, llama: Exported, draft: Exported) -> None:
    count = 30
    expected = llama.greedy(TEXT, count)
    with LanguageModel(draft.folder) as small:
        for other in (small, model):  # one that is mostly wrong, one that is always right
            text = model.conversation()
            text.append(TEXT)
            assert list(text.generate(count, draft=other.conversation())) == expected
            drawn = {"temperature": 1.5, "seed": 4}
            text.rewind(len(TEXT))
            alone = list(text.generate(count, **drawn))
            text.rewind(len(TEXT))
            assert list(text.generate(count, draft=other.conversation(), **drawn)) == alone


class Right(Conversation):
    """Proposes what it was told."""

    told: list[int]

    def _propose(self, other: Conversation, count: int) -> list[int]:
        at = len(other.tokens) - len(TEXT)
        return self.told[at : at + count]


def test_a_right_draft_saves_runs(model: LanguageModel) -> None:
    text = model.conversation()
    text.append(TEXT)
    draft = Right(model)
    draft.told = list(text.generate(20))
    text.rewind(len(TEXT))
    verify, step = model._session(4, 4), model._session(1, 1)
    before = verify.stats.executes, step.stats.executes
    assert list(text.generate(20, draft=draft)) == draft.told
    # A run over four proposed tokens gives them and the one behind them, which is read by itself.
    assert verify.stats.executes - before[0] == 4
    assert step.stats.executes - before[1] == 4  # three of those, and the last of the text


def test_the_text_ends_with_the_cache(model: LanguageModel, llama: Exported) -> None:
    text = model.conversation()
    text.append(TEXT)
    made = list(text.generate())
    assert len(TEXT) + len(made) == CAPACITY
    assert made == llama.greedy(TEXT, CAPACITY - len(TEXT))
    with pytest.raises(ValueError, match="do not fit"):
        text.append([1])
    assert len(text.tokens) == CAPACITY
    text.rewind(len(TEXT))
    assert list(text.generate(5)) == made[:5]


def test_scores_are_those_of_transformers(model: LanguageModel, llama: Exported) -> None:
    import torch

    with torch.no_grad():
        logits = llama.eager(torch.tensor([TEXT])).logits[0]
    expected = torch.log_softmax(logits.double(), -1)[range(len(TEXT) - 1), TEXT[1:]].numpy()
    text = model.conversation()
    np.testing.assert_allclose(text.score(TEXT), expected, atol=1e-5)
    assert list(text.generate(4)) == llama.greedy(TEXT, 4)
    for at in (1, 20, len(TEXT) - 1):
        text.rewind(at)
        np.testing.assert_allclose(text.score(TEXT[at:]), expected[at - 1 :], atol=1e-5)
    assert text.tokens == TEXT
    assert len(text.score([])) == 0


def test_closed_models_say_so(llama: Exported) -> None:
    model = LanguageModel(llama.folder)
    text = model.conversation()
    text.append(TEXT[:4])
    model.close()
    model.close()
    with pytest.raises(qnnrt.ClosedError, match="closed"):
        text.append([1])
    assert text.tokens == TEXT[:4]
    assert model.copied_bytes == 0


def test_wrong_tokens_change_nothing(model: LanguageModel) -> None:
    text = model.conversation()
    text.append(TEXT[:4])
    for wrong in (VOCABULARY, -1):
        with pytest.raises(ValueError, match="token"):
            text.append([3, wrong])
        assert text.tokens == TEXT[:4]
    with pytest.raises(ValueError, match="tokenizer"):
        text.append("words")
    with pytest.raises(ValueError, match="rewind"):
        text.rewind(5)


def test_numbers_that_are_none_are_refused(model: LanguageModel, llama: Exported) -> None:
    """Where they would be cut off, or taken for others."""
    text = model.conversation()
    text.append(np.array(TEXT[:4]))
    for wrong in (lambda: text.append([3, 1.5]), lambda: text.rewind(1.5),  # type: ignore[list-item, arg-type]
                  lambda: next(text.generate(1.5)),  # type: ignore[arg-type]
                  lambda: LanguageModel(llama.folder, chunks=(1.5,)),  # type: ignore[arg-type]
                  lambda: LanguageModel(llama.folder, verify=2.5)):  # type: ignore[arg-type]  # fmt: skip
        with pytest.raises(TypeError, match="integer"):
            wrong()
        assert text.tokens == TEXT[:4]
    with pytest.raises(ValueError, match="its own draft"):
        next(text.generate(draft=text))
    assert text.tokens == TEXT[:4]


@pytest.mark.parametrize("words", [VOCABULARY - 40, VOCABULARY + 60])
def test_a_draft_may_have_other_tokens_behind_the_same_ones(
    model: LanguageModel, llama: Exported, tmp_path: Path, words: int
) -> None:
    """As models of one family have, whose vocabularies are filled up."""
    small = build("llama", tmp_path, num_hidden_layers=1, vocab_size=words)
    prompts = [[t % min(words, VOCABULARY) for t in TEXT], TEXT]
    with LanguageModel(small.folder) as other:
        for prompt in prompts:
            text = model.conversation()
            text.append(prompt)
            made = list(text.generate(25, draft=other.conversation()))
            assert made == llama.greedy(prompt, 25)


def test_what_lies_beside_a_model_is_named_where_it_cannot_be_read(
    llama: Exported, tmp_path: Path
) -> None:
    folder = shutil.copytree(llama.folder, tmp_path / "model")
    end, tokenizer = folder / "qnnrt.json", folder / "tokenizer.json"
    for wrong in ("{", "[]", "{}", '{"end": 5}', '{"end": [1.5]}', '{"end": [null]}'):
        end.write_text(wrong)
        with pytest.raises(qnnrt.ModelError, match=r'qnnrt\.json is not \{"end": \['):
            LanguageModel(folder)
    end.write_text('{"end": [5]}')
    pytest.importorskip("tokenizers")
    for wrong in ("{", '{"model": {"type": "X"}}'):
        tokenizer.write_text(wrong)
        with pytest.raises(qnnrt.ModelError, match=r"tokenizer\.json is no tokenizer that"):
            LanguageModel(folder)
    tokenizer.unlink()
    with LanguageModel(folder) as model:
        assert model.end == {5}
    with pytest.raises(qnnrt.ModelError, match=r"there is no folder .*nothing"):
        LanguageModel(tmp_path / "nothing")


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1},
        {"top_k": -1},
        {"top_p": 0},
        {"top_p": 1.5},
        {"temperature": float("nan")},
    ],
)
def test_sampling_says_what_is_wrong(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Sampling(**wrong)  # type: ignore[arg-type]


def test_probabilities() -> None:
    logits = np.log(np.array([0.1, 0.2, 0.3, 0.4], np.float32))
    np.testing.assert_allclose(Sampling(1).probabilities(logits), [0.1, 0.2, 0.3, 0.4], rtol=1e-6)
    np.testing.assert_allclose(
        Sampling(1, top_k=2).probabilities(logits), [0, 0, 3 / 7, 4 / 7], rtol=1e-6
    )
    np.testing.assert_allclose(
        Sampling(1, top_p=0.5).probabilities(logits), [0, 0, 3 / 7, 4 / 7], rtol=1e-6
    )
    np.testing.assert_allclose(
        Sampling(0.5).probabilities(logits), np.array([1, 4, 9, 16]) / 30, rtol=1e-6
    )
    assert Sampling().probabilities(logits).tolist() == [0, 0, 0, 1]


def test_a_seed_draws_the_same(model: LanguageModel) -> None:
    text = model.conversation()
    text.append(TEXT)
    drawn = []
    for seed in (1, 1, 2):
        text.rewind(len(TEXT))
        drawn.append(list(text.generate(20, temperature=1.0, top_k=50, seed=seed)))
    assert drawn[0] == drawn[1] != drawn[2]


def _go_on(folder: str, pipe: Any) -> None:
    with LanguageModel(folder) as model:
        model._session(1, 1)
        pipe.send("ready")
        text = model.conversation(pipe.recv())
        runs = {key: s.stats.executes for key, s in model._sessions.items()}
        made = list(text.generate(6))
        # The last token is read again for its logits; nothing before it is.
        assert set(model._sessions) == set(runs)
        pipe.send((made, text.cache.nbytes))
        pipe.recv()


@pytest.mark.other_fds  # multiprocessing's own
def test_another_process_goes_on_without_reading(llama: Exported, model: LanguageModel) -> None:
    text = model.conversation()
    text.append(TEXT)
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    child = spawn.Process(target=_go_on, args=(str(llama.folder), there))
    child.start()
    try:
        assert here.recv() == "ready"
        here.send(text.prefix)
        made, size = here.recv()
        assert made == llama.greedy(TEXT, 6)
        assert size == model.cache_bytes
        # The same memory: what it wrote is here.
        text.tokens += made
        text._read, text._logits = len(text.tokens) - 1, None
        assert list(text.generate(5)) == llama.greedy(TEXT + made, 5)
        # Killed, it leaves memory in which a text that is rewound to before it goes on.
        os.kill(child.pid or 0, signal.SIGKILL)
        child.join()
        text.rewind(len(TEXT))
        assert list(text.generate(5)) == llama.greedy(TEXT, 5)
    finally:
        child.kill()
        child.join()
        here.close()
        there.close()


def _go_on_until_killed(folder: str, backend: str, pipe: Any) -> None:
    with LanguageModel(folder, backend=backend) as model:
        text = model.conversation(Prefix.from_bytes(pipe.recv_bytes()))
        length = len(text.tokens)
        pipe.send([token for token, _ in zip(text.generate(), range(8), strict=False)])
        while True:
            text.rewind(length)
            for _ in text.generate(temperature=1):
                pass


@pytest.mark.other_fds
@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_a_process_killed_while_it_writes_a_text_harms_no_other(
    llama: Exported, backend: str
) -> None:
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    child = spawn.Process(target=_go_on_until_killed, args=(str(llama.folder), backend, there))
    child.start()
    try:
        with LanguageModel(llama.folder, backend=backend, strict=True) as model:
            text, other = model.conversation(), model.conversation()
            text.append(TEXT)
            other.append(TEXT[:9])
            here.send_bytes(text.prefix.to_bytes())
            assert here.recv() == llama.greedy(TEXT, 8)
            others = other.generate(30)
            made = [next(others) for _ in range(15)]  # while it writes
            os.kill(child.pid or 0, signal.SIGKILL)
            child.join()
            assert [*made, *others] == llama.greedy(TEXT[:9], 30)
            # What it was writing lies behind the text.
            assert text.tokens == TEXT
            assert list(text.generate(20)) == llama.greedy(TEXT, 20)
            assert model.copied_bytes == 0
    finally:
        child.kill()
        child.join()
        here.close()
        there.close()


def test_a_prefix_of_another_model_is_refused(model: LanguageModel, draft: Exported) -> None:
    text = model.conversation()
    text.append(TEXT)
    with LanguageModel(draft.folder) as other, pytest.raises(ValueError, match="another model"):
        other.conversation(text.prefix)


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_a_message_is_received_and_bound_in_one_call(
    llama: Exported, draft: Exported, backend: str
) -> None:
    with LanguageModel(llama.folder, backend=backend, strict=True) as model:
        text = model.conversation()
        text.append(TEXT)
        others = [model.conversation(), model.conversation()]
        for other in others:
            other.append(TEXT[:9])
        before = model.copied_bytes
        for _ in range(3):
            list(others[0].generate(3))  # other memory is bound
            again = model.conversation(text.prefix.to_bytes())
            assert model._bound[1, 1, 1] is again._slots
            assert again._slots.kept is not None
            assert again.cache._is(text.cache)
            assert list(again.generate(4)) == llama.greedy(TEXT, 4)
            assert again.tokens[: len(TEXT)] == TEXT
            others[0].rewind(9)
        assert list(others[1].generate(3)) == llama.greedy(TEXT[:9], 3)
        assert model.copied_bytes == before == 0
        message = text.prefix.to_bytes()
        with LanguageModel(draft.folder, backend=backend) as small:
            for _ in range(2):  # before anything was bound, and then
                with pytest.raises(ValueError, match="another model"):
                    small.conversation(text.prefix.to_bytes())
                small.conversation().append(TEXT[:9])
        with pytest.raises(qnnrt.HandoffError):
            model.conversation(message[:-4])
    with pytest.raises(qnnrt.ClosedError):
        model.conversation(message)


@pytest.mark.other_fds
@pytest.mark.parametrize("traces", [True, False], ids=["traces", "may not trace"])
def test_a_sender_stays_open_while_a_model_receives_from_it(llama: Exported, traces: bool) -> None:
    """One fd more than before, that goes with the model; also where only the fds may be opened."""
    receiver = """
import gc, os, sys
from qnnrt import _core
from qnnrt.llm import LanguageModel

def kept():
    links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    names = [os.readlink(link) for link in links if os.path.lexists(link)]
    there = [n for n in names if n == "anon_inode:[pidfd]" or n == f"/proc/{os.getppid()}/fd"]
    assert len(there) == _core.ipc_counts()["fds"], names
    return len(there)

with LanguageModel(sys.argv[1], strict=True) as model:
    model.conversation().append([0])
    for i, message in enumerate(sys.argv[2:]):
        text = model.conversation(bytes.fromhex(message))
        print(*text.generate(4), flush=True)
        assert kept() == 1
        if i == 0 and os.fork() == 0:
            os._exit(kept())
    assert os.wait()[1] == 0  # a child has none of its parent's
    assert _core.ipc_counts()["peers"] == 0
gc.collect()
assert kept() == 0
"""
    with LanguageModel(llama.folder, strict=True) as model:
        text = model.conversation()
        text.append(TEXT)
        messages = [text.prefix.to_bytes().hex() for _ in range(3)]
        code = ("" if traces else WITHOUT_TRACING) + receiver
        result = run_code(code, str(llama.folder), *messages)
        assert (result.returncode, result.stderr) == (0, "")
        made = [list(map(int, line.split())) for line in result.stdout.splitlines()]
        assert made == [llama.greedy(TEXT, 4)] * 3


@pytest.mark.other_fds
def test_a_received_text_takes_one_mapping_and_one_descriptor(llama: Exported) -> None:
    """However many caches there are; they are bound at once, and all goes with the text."""
    receiver = """
import sys
from qnnrt import _core
from qnnrt.llm import LanguageModel

with LanguageModel(sys.argv[1], strict=True) as model:
    other = model.conversation()
    other.append([0])
    session = model._session(1, 1)
    together = session._memory.together
    for message in sys.argv[2:]:
        before, times = _core.memory_counts(), together.times
        registered = session.context.registrations
        text = model.conversation(bytes.fromhex(message))
        after, n = _core.memory_counts(), len(session.state)
        assert n > 1 and together.times == times + 1
        assert session.context.registrations == registered + n
        assert {k: after[k] - before[k] for k in after if after[k] != before[k]} == {
            "buffers": 1, "maps": 1, "fds": 1, "handles": n}
        print(*text.generate(4), flush=True)
        del text
        other.rewind(0)
        other.append([0])  # its cache is bound again
        assert _core.memory_counts() == before
    assert model.copied_bytes == 0
"""
    with LanguageModel(llama.folder, strict=True) as model:
        text = model.conversation()
        text.append(TEXT)
        messages = [text.prefix.to_bytes().hex() for _ in range(3)]
        result = run_code(receiver, str(llama.folder), *messages)
        assert (result.returncode, result.stderr) == (0, "")
        made = [list(map(int, line.split())) for line in result.stdout.splitlines()]
        assert made == [llama.greedy(TEXT, 4)] * 3


def test_a_message_is_received_by_a_model_that_has_bound_nothing(llama: Exported) -> None:
    with LanguageModel(llama.folder) as sender, LanguageModel(llama.folder) as model:
        text = sender.conversation()
        text.append(TEXT)
        assert list(model.conversation(text.prefix.to_bytes()).generate(4)) == llama.greedy(TEXT, 4)


def test_a_prefix_is_one_flat_message() -> None:
    cache = qnnrt.alloc(4096)
    prefix = Prefix([0, 7, 1 << 40], cache, 3, 2)
    receive, (message,) = prefix.__reduce__()
    for again in (pickle.loads(pickle.dumps(prefix)), Prefix.from_bytes(prefix.to_bytes())):
        assert again.tokens == prefix.tokens == (0, 7, 1 << 40)
        assert (again.rows, again.row) == (3, 2)
        assert again.cache._is(cache)
    assert len(prefix.to_bytes()) == len(message)
    with pytest.raises(TypeError):
        Prefix.from_bytes(None)  # type: ignore[arg-type]
    for cut in (0, 8, len(message) - 4, len(message) - 5 * 8):
        with pytest.raises(qnnrt.HandoffError) as e:
            receive(message[:cut])
        assert e.value.reason == "message"
    with pytest.raises(qnnrt.HandoffError, match="row 3 of 3"):
        receive(message[:-32] + (3).to_bytes(8, "little") + message[-24:])
    with pytest.raises(ValueError, match="row 1 of a cache of 1"):
        Prefix([], cache, 1, 1)


def test_other_files_are_refused(tmp_path: Any) -> None:
    onnx = pytest.importorskip("onnx")
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    x, y = (
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n"]) for n in ("x", "y")
    )
    onnx.save(
        onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y])),
        tmp_path / "model.onnx",
    )
    with pytest.raises(qnnrt.ModelError, match=r"qnnrt\.llm\.export"):
        LanguageModel(tmp_path)
