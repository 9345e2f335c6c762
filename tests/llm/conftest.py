"""A decoder of each family."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.decoders import Exported, build

FAMILIES = [
    "llama", "qwen2", "qwen3", "gemma2", "gemma4", "mixtral", "gpt_oss", "bloom", "gpt2",
    "deepseek2", "llama4",
]  # fmt: skip


@pytest.fixture(scope="session", params=FAMILIES)
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return build(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return build("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return build("llama", tmp_path_factory.mktemp("draft"), num_hidden_layers=1)


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
