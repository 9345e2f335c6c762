"""A session in each actor of Ray Data's pool."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np

from ..model import DynamicModel, Model
from .rows import BatchSession, open_session

__all__ = ["SessionActor"]


class SessionActor:
    """Infers a dataset's batches: ``dataset.map_batches(SessionActor, fn_constructor_args=(path,),
    batch_size=32, compute=ray.data.ActorPoolStrategy(size=4))``.

    Rows of numpy or arrow batches are written into the session's bound inputs, and nowhere else
    before; results come out as new columns, or in place of those of the same name. A batch may have
    any number of rows: a model of one shape runs as many at a time as its first dimension has, so
    a multiple of that is the best ``batch_size``; one of many shapes runs what comes, such as a
    short last batch, in the smallest that has room for it. With a context binary all actors of a
    node map the same weights.

    Args:
        model: the path of a model file on each node, a ``Model`` or a ``DynamicModel``.
        backend, options: as for ``qnnrt.Session``.
        shapes: of the file, as for ``qnnrt.load``.
        inputs: input -> the column that has its rows; its own name unless given.
        outputs: output -> the column that its rows become; its own name unless given.
        keep: whether the batch's other columns stay.

    Raises:
        ModelError: the model is not valid, or its tensors do not have the same number of rows.
    """

    def __init__(
        self,
        model: Model | DynamicModel | str | PathLike[str],
        backend: str = "cpu",
        *,
        shapes: Any = None,
        inputs: Mapping[str, str] | None = None,
        outputs: Mapping[str, str] | None = None,
        keep: bool = True,
        **options: Any,
    ) -> None:
        self._batches = BatchSession(open_session(model, backend, shapes, **options))
        session = self._batches.session
        self._inputs = _columns("input", session.inputs, inputs)
        self._outputs = _columns("output", session.outputs, outputs)
        self._keep = keep

    def __call__(self, batch: Any) -> Any:
        """The batch with the results.

        Args:
            batch: column -> array, or a pyarrow table or record batch.

        Raises:
            KeyError: a column is missing.
            TypeError: the batch is neither.
            ValueError: a column's rows have another shape or type than the input, or some are null.
        """
        arrow = hasattr(batch, "column_names")
        if arrow and not hasattr(batch, "combine_chunks"):  # a RecordBatch
            import pyarrow

            batch = pyarrow.Table.from_batches([batch])
        if not arrow and not isinstance(batch, Mapping):
            raise TypeError(f"batch_format has to be numpy or pyarrow, not that of {type(batch)}")
        present = batch.column_names if arrow else list(batch)
        for column in self._inputs.values():
            if column not in present:
                raise KeyError(f"no column {column!r} in the batch; there are {present}")
        taken = {
            name: _chunks(batch, column) if arrow else [np.asarray(batch[column])]
            for name, column in self._inputs.items()
        }
        found = self._batches.run(taken)
        results = {self._outputs[name]: array for name, array in found.items()}
        used = {*self._inputs.values(), *results}
        kept = [name for name in present if name not in used] if self._keep else []
        if arrow:
            return _with_columns(batch.select(kept), results)
        return {**{name: batch[name] for name in kept}, **results}


def _columns(kind: str, tensors: Any, given: Mapping[str, str] | None) -> dict[str, str]:
    given = given or {}
    if unknown := [name for name in given if name not in tensors]:
        raise ValueError(f"no {kind} {unknown[0]!r}; there are {', '.join(map(repr, tensors))}")
    columns = {name: given.get(name, name) for name in tensors}
    if kind == "output" and len(set(columns.values())) < len(columns):
        raise ValueError(f"two outputs cannot become one column: {columns}")
    return columns


def _chunks(table: Any, name: str) -> list[np.ndarray]:
    """Arrays on the memory of a column of an arrow table: numbers, lists of one length, tensors."""
    found = [_array(chunk, name) for chunk in table[name].chunks]
    return [array for array in found if array is not None]


def _array(chunk: Any, name: str) -> np.ndarray | None:
    """None where there are no rows, and so no length of their lists."""
    from pyarrow import types

    _refuse_nulls(chunk, name)
    if hasattr(chunk, "to_numpy_ndarray"):
        return np.asarray(chunk.to_numpy_ndarray())
    shape = [len(chunk)]
    # Ray's own tensors are of extension types, which are no lists.
    while types.is_fixed_size_list(chunk.type) or _is_list(chunk.type):
        if _is_list(chunk.type):
            lengths = np.diff(chunk.offsets)
            if not lengths.size:
                return None
            if lengths.min() != lengths.max():
                raise ValueError(
                    f"column {name!r} has lists of {lengths.min()} to {lengths.max()} elements: "
                    "rows of one length are needed, so pad or cut them"
                )
            shape.append(int(lengths[0]))
        else:
            shape.append(chunk.type.list_size)
        chunk = chunk.flatten()
        _refuse_nulls(chunk, name)
    array = np.asarray(chunk.to_numpy(zero_copy_only=False))
    return array.reshape(shape) if len(shape) > 1 else array


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind))


def _refuse_nulls(chunk: Any, name: str) -> None:
    if chunk.null_count:
        raise ValueError(
            f"column {name!r} has {chunk.null_count} values that are null: fill them, or drop "
            "their rows"
        )


def _with_columns(table: Any, results: Mapping[str, np.ndarray]) -> Any:
    import pyarrow as arrow

    for name, array in results.items():
        if array.ndim == 1:
            column = arrow.array(array)
        elif array.dtype == bool:  # whose bits are no elements of a tensor
            column = arrow.array(array.reshape(-1))
            for size in reversed(array.shape[1:]):
                column = arrow.FixedSizeListArray.from_arrays(column, size)
        elif array.size:
            column = arrow.FixedShapeTensorArray.from_numpy_ndarray(array)
        else:  # which pyarrow makes no tensors of
            kind = arrow.fixed_shape_tensor(arrow.from_numpy_dtype(array.dtype), array.shape[1:])
            empty = arrow.array([], kind.storage_type)
            column = arrow.ExtensionArray.from_storage(kind, empty)
        if table.num_columns:
            table = table.append_column(name, column)
        else:
            table = arrow.table({name: column})
    return table
