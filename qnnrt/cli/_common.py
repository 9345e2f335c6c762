"""What the commands share: options, input files, timing, output."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeVar

import numpy as np

from ..dtypes import is_float
from ..errors import ModelError
from ..importers import load
from ..model import ContextBinary, DynamicModel, Model, ModelLibrary, is_library
from ..model.binary import system_library
from ..qnn.backend import library_path
from ..qnn.options import PRECISIONS
from ..session import DynamicSession, Session, ShapeSession

AnyModel: TypeAlias = Model | DynamicModel | ContextBinary | ModelLibrary

T = TypeVar("T")


class UsageError(Exception):
    """A bad option or file: reported as one line, exit status 2."""


def count(text: str, least: int = 1) -> int:
    """An argparse type: a whole number of at least one."""
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return value


def _threads(text: str) -> int:
    """An argparse type: a number of threads that QNN can be told; how many there may be is the
    backend's to say."""
    value = count(text)
    if value > 0xFFFFFFFF:
        raise argparse.ArgumentTypeError(f"{text!r} is more than 32 bits hold")
    return value


def add_threads(parser: argparse.ArgumentParser) -> None:
    """``--threads``."""
    parser.add_argument(
        "--threads", metavar="N", type=_threads, help="kernel threads (default: auto)"
    )


def seed(text: str) -> int:
    """An argparse type: a whole number of at least zero, as numpy takes it."""
    return count(text, 0)


ENDS = ("inputs", "outputs")

MODEL_HELP = "an .onnx, .tflite or .bin file, or a model library (.so)"


def add_shape_and_graph(parser: argparse.ArgumentParser, many: bool = False) -> None:
    """What files leave open; for ``load_model``, or with ``many`` for ``load_shapes``."""
    parser.add_argument(
        "--shape",
        metavar="NAME=N[,N...]",
        action="append",
        default=[],
        help="sizes that the model leaves open: of an input, or of a symbolic dimension"
        + (
            "; several times for a name: each of them; NAME=N;NAME=N: these together; any: as the "
            "--input files are"
            if many
            else ""
        ),
    )
    for end in ENDS:
        parser.add_argument(
            f"--cut-{end}",
            metavar="TENSOR[,...]",
            type=lambda text: [name for name in text.split(",") if name],
            help=f"load a part of an .onnx file: these tensors of it are the model's {end}",
        )
    add_capacity(parser)
    parser.add_argument(
        "--graph",
        metavar="NAME",
        help="which graph of a context binary or model library that has several",
    )


def add_capacity(parser: argparse.ArgumentParser) -> None:
    """``--capacity``, for ``capacities``."""
    parser.add_argument(
        "--capacity",
        metavar="TENSOR=N",
        action="append",
        default=[],
        help="the most that this tensor of an .onnx file may be, or have rows, where the data "
        "decide it",
    )


def add_model_options(parser: argparse.ArgumentParser, iterations: int) -> None:
    """The options of every command that runs a model."""
    parser.add_argument("model", metavar="MODEL", type=Path, help=MODEL_HELP)
    parser.add_argument(
        "--input",
        metavar="[NAME=]FILE",
        action="append",
        default=[],
        help="an input as .npy, or as .raw bytes in the tensor's own type; random without it",
    )
    add_shape_and_graph(parser, many=True)
    parser.add_argument("--seed", type=seed, default=0, help="of the random inputs (default 0)")
    parser.add_argument(
        "--backend",
        default="cpu",
        help="cpu, htp, lpai, or the path of a QNN backend library (default cpu)",
    )
    parser.add_argument(
        "--iterations",
        metavar="N",
        type=count,
        default=iterations,
        help=f"timed executions (default {iterations})",
    )
    add_threads(parser)
    parser.add_argument(
        "--precision",
        choices=tuple(PRECISIONS),
        help="what floats between nodes are on cpu and htp (default float32)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def number_of(count: int, noun: str) -> str:
    """ "1 file", "2 files"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def make_folder(path: Path) -> None:
    """A folder for results, with those that it lies in, unless it is there.

    Raises:
        UsageError: something else has its name, or that of a folder that it would lie in.
        OSError: it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        in_the_way = next((p for p in (path, *path.parents) if os.path.lexists(p)), path)
        where = "" if in_the_way == path else f"{path}: "
        what = "a file" if in_the_way.is_file() else "no folder"
        raise UsageError(f"{where}{in_the_way} is {what}: results go to a folder") from None


def check_file(path: Path) -> None:
    """Raises UsageError where a file to read is not one."""
    if not path.is_file():
        raise UsageError(f"{path}: {'is a folder' if path.is_dir() else 'no such file'}")


def load_model(options: argparse.Namespace) -> Model | ContextBinary | ModelLibrary:
    """`qnnrt.load` of the model that the options name, in one shape."""
    found = load_shapes(options)
    if isinstance(found, DynamicModel):
        raise UsageError(f"{options.model}: one shape is run at a time: give each --shape one size")
    return found


def load_shapes(options: argparse.Namespace) -> AnyModel:
    """`qnnrt.load` of the model that the options name, in one shape or several."""
    check_file(options.model)
    given = "any" if options.shape == ["any"] else shapes(options.shape)
    ends = {end: found for end in ENDS if (found := getattr(options, f"cut_{end}")) is not None}
    check_cut(options.model, [f"--cut-{end}" for end in ends])
    most = capacities(options.capacity, options.model)
    if options.model.suffix.lower() == ".bin":
        if given:
            raise UsageError(f"--shape: the shapes in {options.model} were chosen when it was made")
        # Binaries are read by the system library beside their maker's backend library.
        binary = ContextBinary(options.model, system=system_library(library_path(options.backend)))
        try:
            options.graph = binary.graph(options.graph).name
        except ValueError as error:
            raise UsageError(f"--graph: {error}") from None
        return binary
    if is_library(options.model):
        if given:
            raise UsageError(f"--shape: the code of {options.model} chooses the shapes")
        return load(options.model)
    if options.graph is not None:
        raise UsageError(
            f"--graph: {options.model} is one graph; only context binaries and model libraries "
            "have more"
        )
    try:
        return load(options.model, **({"shapes": given} if given else {}), **ends, **most)
    except ModelError as error:
        if "capacities={" in str(error):
            here = "--capacity TENSOR=N"
        elif "shapes={" in str(error):
            here = "--shape NAME=N,... or --shape DIMENSION=N"
            if getattr(options, "input", None):
                here += ", or --shape any for the shapes of the files"
        else:
            raise
        raise ModelError(f"{error}; here: {here}") from error


def shape_sessions(session: Session, options: argparse.Namespace) -> Iterator[Session]:
    """The session; of one of many shapes that of each listed shape, or, where some are open, of
    the shapes that the files of ``--input`` have."""
    if not isinstance(session, DynamicSession):
        yield session
        return
    model = session.model
    assert isinstance(model, DynamicModel)
    if model.listed is not None:
        for one in model.listed:
            yield session.at(dict(zip(model.inputs, one, strict=True)))
        return
    files = input_files(session, options)
    try:
        yield session.at({name: _file_shape(path) for name, path in files.items()})
    except ValueError as error:
        raise UsageError(f"--shape: {error}") from None


def shape_label(session: Session) -> str:
    """The sizes of one of ``shape_sessions``: "batch=1 seq=64"; "" of a model of one shape."""
    if not isinstance(session, ShapeSession):
        return ""
    sizes = {n: list(s) if isinstance(s, tuple) else s for n, s in session.sizes.items()}
    return " ".join(f"{name}={size}" for name, size in sizes.items()) or "as the file says"


def _file_shape(path: Path) -> tuple[int, ...]:
    if path.suffix != ".npy":
        raise UsageError(f"{path}: only a .npy file says which shape it has")
    with open(path, "rb") as file:
        return _npy_header(path, file)[0]


def check_cut(path: Path, options: Sequence[str]) -> None:
    """Raises `UsageError` when a file cannot be loaded in part, and `options` ask for it."""
    if options and path.suffix.lower() != ".onnx":
        raise UsageError(f"{', '.join(options)}: only .onnx files are loaded in part, not {path}")


def session_options(options: argparse.Namespace) -> dict[str, Any]:
    """Keywords of `Session` out of the options of `add_model_options`, after `load_model`."""
    given: dict[str, Any] = {
        "backend": options.backend,
        "threads": options.threads,
        "precision": options.precision,
    }
    return given | ({"options": {"graph": options.graph}} if options.graph is not None else {})


def shape(text: str) -> tuple[str, int | tuple[int, ...]]:
    """NAME=1,3,224,224 for an input; NAME=8 for a symbolic dimension."""
    name, _, sizes = text.rpartition("=")
    numbers = sizes.split(",")
    if not name or not all(n.isdecimal() for n in numbers):
        raise UsageError(f"--shape {text}: expected NAME=N or NAME=N,N,... with whole numbers")
    return name, int(sizes) if len(numbers) == 1 else tuple(map(int, numbers))


def shapes(texts: Sequence[str]) -> Any:
    """``shapes=`` of ``load`` out of ``--shape`` options: all combinations of NAME=N,..., of which
    a name may come several times, or those that NAME=N;NAME=N,... are."""
    common: dict[str, list[Any]] = {}
    chosen = []
    for text in texts:
        pairs = [shape(part) for part in text.split(";")]
        if len(pairs) > 1:
            chosen.append(dict(pairs))
            continue
        name, value = pairs[0]
        common.setdefault(name, []).append(value)
    every = {name: given[0] if len(given) == 1 else given for name, given in common.items()}
    return [every | one for one in chosen] if chosen else every


def capacities(texts: Sequence[str], path: Path) -> dict[str, dict[str, int]]:
    """``capacities=`` of ``load`` out of ``--capacity`` options; nothing without any.

    Raises UsageError where a file has no such sizes, or an option is none.
    """
    found: dict[str, int] = {}
    for text in texts:
        name, _, most = text.rpartition("=")
        if not name or not most.isdecimal() or not 0 < len(most) <= 10:
            raise UsageError(f"--capacity {text}: expected TENSOR=N with a whole number")
        if name in found:
            raise UsageError(f"--capacity {text}: {name} was given twice")
        found[name] = int(most)
    if not found:
        return {}
    if path.suffix.lower() != ".onnx":
        raise UsageError(f"--capacity: only of .onnx files sizes are computed, not of {path}")
    from ..importers.onnx.capacities import checked

    try:
        return {"capacities": checked(found)}
    except ValueError as error:
        raise UsageError(f"--capacity: {error}") from None


def input_files(session: Session, options: argparse.Namespace) -> dict[str, Path]:
    """The files that ``--input`` gives for inputs of the session."""
    files: dict[str, Path] = {}
    for text in options.input:
        name, separator, path = text.rpartition("=")
        if not separator and len(session.inputs) == 1:
            name = next(iter(session.inputs))
        if name not in session.inputs or not path:
            names = ", ".join(session.inputs)
            raise UsageError(f"--input {text}: expected NAME=FILE with NAME one of: {names}")
        if name in files:
            raise UsageError(f"--input {text}: {name} was given twice")
        files[name] = Path(path)
    return files


def input_arrays(session: Session, options: argparse.Namespace) -> dict[str, np.ndarray]:
    """One array for each input of the session: from the files given, random for the others."""
    files = input_files(session, options)
    generator = np.random.default_rng(options.seed)
    arrays = {}
    for name, tensor in session.inputs.items():
        shape, dtype = tuple(tensor.shape), np.dtype(tensor.dtype)
        random = random_array(
            generator, shape, dtype
        )  # drawn always: a file changes no other input
        arrays[name] = read_array(files[name], name, shape, dtype) if name in files else random
    return arrays


def random_array(
    generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray:
    """Normal floats; whole bytes; 0 or 1 in wider integers, which are often indices."""
    if is_float(dtype):
        return generator.standard_normal(shape, dtype=np.float32).astype(dtype)
    high = 256 if dtype == np.uint8 else 128 if dtype == np.int8 else 2
    return generator.integers(0, high, shape).astype(dtype)


def read_array(path: Path, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """An input from a file, exactly of the tensor's type and shape."""
    check_file(path)
    array: np.ndarray
    if path.suffix == ".npy":
        array = _read_npy(path, name, shape, dtype)
    elif path.suffix == ".raw":
        size, expected = path.stat().st_size, int(np.prod(shape)) * dtype.itemsize
        if size != expected:
            raise UsageError(
                f"{path}: {size} bytes, but {name} takes {expected} ({dtype.name}{list(shape)})"
            )
        array = np.fromfile(path, dtype).reshape(shape)
    else:
        raise UsageError(f"{path}: expected a .npy or .raw file")
    return array


def _read_npy(path: Path, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """The array of a .npy file; its header is compared before memory is taken for it."""
    with open(path, "rb") as file:
        found, fortran, kind = _npy_header(path, file)
        if found != shape or kind != dtype:
            own = kind.name if kind.isnative else kind.str
            raise UsageError(
                f"{path}: {own}{list(found)}, but {name} takes {dtype.name}{list(shape)}"
            )
        size, left = math.prod(shape) * dtype.itemsize, path.stat().st_size - file.tell()
        if left < size:
            raise UsageError(f"{path}: {left} bytes of elements, but its header says {size}")
        array = np.fromfile(file, dtype, math.prod(shape))
    return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)


def _npy_header(path: Path, file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        version = np.lib.format.read_magic(file)
        if version not in _NPY_HEADERS:
            raise ValueError(f"it is of version {version[0]}.{version[1]}")
        header = _NPY_HEADERS[version](file)
        if header[2].hasobject:
            raise ValueError("it holds Python objects")
    except Exception as error:  # numpy evaluates the header as Python: anything may come
        text = f"{type(error).__name__}: {error}"[:200]
        raise UsageError(f"{path}: not a .npy file of numbers: {text}") from None
    return header


_NPY_HEADERS: Mapping[tuple[int, int], Callable[..., tuple[tuple[int, ...], bool, np.dtype[Any]]]]
_NPY_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


# ---- timing ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timing:
    """Seconds per call: the median, and the 10th and 90th percentile as the spread."""

    median: float
    low: float
    high: float
    calls: int

    def __str__(self) -> str:
        return f"{seconds(self.median)} ({seconds(self.low)} .. {seconds(self.high)})"

    def as_json(self) -> dict[str, float]:
        return {
            "median_s": self.median,
            "p10_s": self.low,
            "p90_s": self.high,
            "calls": self.calls,
        }


def interleave(
    ways: Mapping[str, Callable[[], object]], iterations: int, label: str
) -> dict[str, Timing]:
    """Times the ways interleaved, so that a change of the machine's speed affects all alike."""
    for way in ways.values():
        way()
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for _ in progress(range(iterations), label):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            samples[name].append(time.perf_counter() - start)
    return {name: timing(values) for name, values in samples.items()}


def timing(samples: Sequence[float]) -> Timing:
    low, median, high = np.percentile(samples, [10, 50, 90])
    return Timing(float(median), float(low), float(high), len(samples))


# ---- output ------------------------------------------------------------------------------------


def seconds(value: float) -> str:
    """A duration with three digits: 1.23 ms."""
    factor, unit = (1.0, "s") if value >= 1 else (1e3, "ms") if value >= 1e-3 else (1e6, "us")
    return f"{value * factor:.3g} {unit}"


def size(nbytes: int) -> str:
    """A size with its unit: 588 KiB."""
    value = float(nbytes)
    for unit in ("bytes", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} GiB"


def progress(items: Iterable[T], label: str) -> Iterator[T]:
    """Yields the items; shows how far it is when stderr is a terminal, and clears that again."""
    if not sys.stderr.isatty():
        yield from items
        return
    total = len(items) if isinstance(items, Sequence) else None
    shown = 0.0
    for i, item in enumerate(items):
        if time.monotonic() - shown > 0.1:
            shown = time.monotonic()
            of = f" of {total}" if total else ""
            print(f"\r\x1b[K{label}: {i}{of}", end="", file=sys.stderr, flush=True)
        yield item
    print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def print_json(value: object) -> None:
    """One object, readable by people, too."""
    print(json.dumps(value, indent=2, default=str))
