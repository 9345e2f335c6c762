"""Custom operators of MediaPipe's models.

LiteRT has a kernel for one of them, in XNNPACK. Formulas of the others are those of MediaPipe
0.10.14, whose numbers were seen to be these within 1e-5; it is no package of the tests.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from ai_edge_litert.interpreter import OpResolverType

from qnnrt.errors import ModelError, UnsupportedOpError
from qnnrt.importers import tflite as importer
from support.tflite.delegated import interpreter
from support.tflite.delegated import run as run_delegated
from support.tflite.mediapipe import (
    COLUMNS,
    FORMS,
    LANDMARKS,
    ROWS,
    SAME,
    VALID,
    WINDOWS,
    Form,
    brought_back,
    cut_out,
    transform_of,
    transposed,
)
from support.tflite.reference import close, run

F32 = np.float32


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize(("taps", "stride"), WINDOWS)
def test_a_transposed_convolution_with_a_bias(
    padding: int, taps: tuple[int, int], stride: tuple[int, int]
) -> None:
    data = transposed(padding, taps, stride)
    x = np.random.default_rng(0).normal(size=(1, ROWS, COLUMNS, 3)).astype(F32)
    (found,) = run(importer.load(data), [x])
    xnnpack = interpreter(data, experimental_op_resolver_type=OpResolverType.AUTO)
    close(found, run_delegated(xnnpack, [x])[0])


def test_settings_that_are_damaged() -> None:
    with pytest.raises(ModelError, match="a stride of 0"):
        importer.load(transposed(SAME, (2, 2), (0, 2)))
    with pytest.raises(ModelError, match="neither SAME"):
        importer.load(transposed(7, (2, 2), (2, 2)))


def wanted_transform(form: Form, landmarks: np.ndarray) -> np.ndarray:
    points = landmarks[0, :, :2].astype(np.float64)
    line = points[form.right_rotation_idx] - points[form.left_rotation_idx]
    angle = form.target_rotation_radians - np.arctan2(line[1], line[0])
    c, s = np.cos(angle), np.sin(angle)
    rotation = np.array([[c, -s], [s, c]])
    upright = points[list(form.subset_idxs)] @ rotation.T
    most, least = upright.max(0), upright.min(0)
    out = np.array([form.output_width, form.output_height])
    step = (most - least) * [form.scale_x, form.scale_y] / out
    found = np.eye(4)
    found[:2, :2] = rotation.T @ np.diag(step)
    found[:2, 3] = rotation.T @ (most + least) / 2 - found[:2, :2] @ out / 2
    return found


@pytest.mark.parametrize("name", FORMS)
def test_landmarks_to_a_transform(name: str) -> None:
    form = FORMS[name]
    model = importer.load(transform_of(form))
    for seed in range(4):
        given = np.random.default_rng(seed).uniform(0, 192, (1, LANDMARKS, 3)).astype(F32)
        (found,) = run(model, [given])
        np.testing.assert_allclose(found[0], wanted_transform(form, given), rtol=1e-5, atol=1e-4)


def transforms() -> list[np.ndarray]:
    """Turned, the picture itself, half a pixel beside, over its edges, at half the size."""
    found = [np.eye(4, dtype=F32) for _ in range(5)]
    found[0][:2, :2] = [[0.8, -0.35], [0.27, 0.64]]
    found[0][:2, 3] = 1.3, 0.4
    found[2][:2, 3] = 0.5, 0.25
    found[3][:2, 3] = -1.3, -0.7
    found[4][:2, :2] *= 2
    return [m[None] for m in found]


def wanted_cut(picture: np.ndarray, transform: np.ndarray, height: int, width: int) -> np.ndarray:
    x = picture[0].astype(np.float64)
    rows, columns = x.shape[:2]
    found = np.zeros((height, width, x.shape[2]))
    for v, u in np.ndindex(height, width):
        across, down = (transform[0].astype(np.float64) @ [u + 0.5, v + 0.5, 0, 1])[:2] - 0.5
        if not (0 <= across <= columns - 1 and 0 <= down <= rows - 1):
            continue
        i, j = int(down), int(across)
        below, right = min(i + 1, rows - 1), min(j + 1, columns - 1)
        p, q = down - i, across - j
        upper = x[i, j] * (1 - q) + x[i, right] * q
        lower = x[below, j] * (1 - q) + x[below, right] * q
        found[v, u] = upper * (1 - p) + lower * p
    return found


@pytest.mark.parametrize(
    ("picture", "height", "width"),
    [((1, 6, 8, 3), 6, 8), ((1, 9, 7, 1), 4, 5), ((1, 1, 5, 2), 3, 6)],
)
def test_a_part_of_a_picture(picture: tuple[int, ...], height: int, width: int) -> None:
    model = importer.load(cut_out(picture, height, width))
    x = np.random.default_rng(1).random(picture).astype(F32)
    seen = 0
    for transform in transforms():
        (found,) = run(model, [x, transform])
        wanted = wanted_cut(x, transform, height, width)
        np.testing.assert_allclose(found[0], wanted, rtol=1e-5, atol=1e-5)
        seen += np.count_nonzero(wanted)
    assert seen


def test_landmarks_are_brought_back() -> None:
    model = importer.load(brought_back(7))
    points = np.random.default_rng(2).uniform(0, 16, (1, 7, 2)).astype(F32)
    for transform in transforms():
        (found,) = run(model, [points, transform])
        wanted = points[0] @ transform[0, :2, :2].T + transform[0, :2, 3]
        np.testing.assert_allclose(found[0], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"subset_idxs": (0, LANDMARKS)}, "landmark 9 of 9"),
        ({"subset_idxs": (-1,)}, "landmark -1 of 9"),
        ({"subset_idxs": ()}, "0 of the landmarks"),
        ({"left_rotation_idx": 40}, "left_rotation_idx of 40, of 9 landmarks"),
        ({"output_width": 0}, "output_width of 0"),
    ],
)
def test_wrong_settings_are_one_error(change: dict[str, object], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        importer.load(transform_of(dataclasses.replace(Form(), **change)))


def test_the_older_version_is_refused() -> None:
    with pytest.raises(UnsupportedOpError, match="version 1 of it: 2 is known"):
        importer.load(transform_of(Form(), version=1))
