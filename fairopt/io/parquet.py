"""An instance as a folder of Parquet files, read in memory that the files' own metadata bound."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairopt.errors import InvalidInstance, MissingExtra
from fairopt.io.arguments import Arguments
from fairopt.io.assemble import ABOUT_DEMANDS, TableColumns, arguments_of_tables, check_tables, joined, tables_of
from fairopt.io.frames import Frame, rows_of
from fairopt.io.saving import replacing
from fairopt.io.tables import MOST_CELLS, MOST_CHARACTERS
from fairopt.io.text_files import opened

if TYPE_CHECKING:
    from fairopt.instance import Instance

__all__ = ["read_parquet", "write_parquet"]

_LARGEST_FOOTER = 1 << 26  # bytes: metadata of 10,000 columns take some MB
_LARGEST = 1 << 31  # bytes of all columns, decompressed: MOST_CELLS names of 100 characters
_ROWS = 1024  # of lists that are looked at at once: a small file can hold very many names
_FIX = (
    "give plain columns of numbers or text, names of servers as lists or joined by '|', or read it and use "
    "Instance.from_frames"
)


def read_parquet(
    users_path: str | os.PathLike[str], servers_path: str | os.PathLike[str],
    demands_path: str | os.PathLike[str] | None = None,
) -> Arguments:  # fmt: skip
    """Read an instance from Parquet files with the columns of `fairopt.datasets.read`; messages count rows from 0."""
    servers = _rows(servers_path, ("server",))
    users = _rows(users_path, ("user",))
    return arguments_of_tables(users, servers, None if demands_path is None else _rows(demands_path, ABOUT_DEMANDS))


def _rows(path: str | os.PathLike[str], required: Sequence[str]) -> Frame:
    name = os.fspath(path)
    _check_ends(path, name, required)
    pa, pq = _pyarrow("reading Parquet files")
    try:
        with pq.ParquetFile(path) as file:
            metadata = file.metadata
            _check_types(pa, file.schema_arrow, name)
        _check_size(metadata, name)
        # texts as dictionaries: a small file can hold one long text for millions of rows
        leaves = [metadata.schema.column(k) for k in range(metadata.num_columns)]
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        checked = {"page_checksum_verification": True, "read_dictionary": texts}
        with pq.ParquetFile(path, metadata=metadata, **checked) as file:
            table = _table(pa, file, name)
        table.validate(full=True)
        _check_expanded(pa, table, name)
    except InvalidInstance:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        words = " ".join(str(error).split())
        raise InvalidInstance(
            f"{name} cannot be read as Parquet ({words[:200]}); it is damaged or of an unknown kind: write it again"
        ) from error
    return rows_of(table, name, required, extra="parquet")


def _table(pa: Any, file: Any, name: str) -> Any:
    """The columns, as long as their lists hold no more than can be read at once."""
    schema = file.schema_arrow
    lists = [k for k, field in enumerate(schema) if pa.types.is_nested(field.type)]
    if not lists:
        return file.read(use_threads=False)
    batches, values = [], 0
    for batch in file.iter_batches(batch_size=_ROWS, use_threads=False):
        batch.validate(full=True)
        batches.append(batch)
        values += sum(len(batch.column(k).flatten()) for k in lists)
        if values > MOST_CELLS:
            raise InvalidInstance(
                f"{name}: the lists of servers hold more than {MOST_CELLS:,} names, the most that are read at once; "
                "give identical servers one row with a count"
            )
    return pa.Table.from_batches(batches) if batches else schema.empty_table()


def _pyarrow(purpose: str) -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet", purpose) from error
    return pa, pq


def _check_ends(path: str | os.PathLike[str], name: str, required: Sequence[str]) -> None:
    """The first and last bytes: told before a large file of something else is read."""
    expected = f"expected a Parquet file with the columns {', '.join(required)}, ..."
    with opened(path, expected) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        start = file.read(4)
        file.seek(max(size - 8, 0))
        end = file.read(8)
    if not size:
        raise InvalidInstance(f"{name} is empty; {expected}")
    if start == b"PARE" or (start == b"PAR1" and end[-4:] == b"PARE"):
        raise InvalidInstance(f"{name} is encrypted; write it without encryption")
    if start != b"PAR1":
        raise InvalidInstance(f"{name} is no Parquet file (it does not start with PAR1); {expected}")
    if end[-4:] != b"PAR1" or size < 12:
        raise InvalidInstance(f"{name} seems to be cut off (it does not end with PAR1); write it again")
    footer = int.from_bytes(end[:4], "little")
    if footer > min(size - 12, _LARGEST_FOOTER):
        raise InvalidInstance(f"{name} is damaged: its metadata would have {footer:,} bytes; write it again")


def _check_types(pa: Any, schema: Any, name: str) -> None:
    for field in schema:
        kind, types = field.type, pa.types
        if field.name == "servers" and (types.is_list(kind) or types.is_large_list(kind)):
            kind = kind.value_type
        if types.is_dictionary(kind):
            kind = kind.value_type
        text = types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind)
        number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
        if not (text or (number and kind is field.type)):
            nested = "nested, of" if types.is_nested(field.type) else "of"
            raise InvalidInstance(f"{name}, column {field.name!r}: it is {nested} type {str(field.type)[:100]}; {_FIX}")


def _check_size(metadata: Any, name: str) -> None:
    groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]  # damaged chunks of it end the process
    sizes, rows = [group.total_byte_size for group in groups], [group.num_rows for group in groups]
    if min([0, *sizes, *rows]) < 0 or sum(rows) != metadata.num_rows:
        raise InvalidInstance(f"{name} is damaged: the sizes in its metadata cannot be; write it again")
    cells, size = metadata.num_rows * metadata.num_columns, sum(sizes)
    if cells > MOST_CELLS or size > _LARGEST:
        raise InvalidInstance(
            f"{name} holds {cells:,} values in {size:,} bytes and no more than {MOST_CELLS:,} in {_LARGEST:,} are read "
            "at once; for many users on one pool see `fairopt shards`"
        )


def _check_expanded(pa: Any, table: Any, name: str) -> None:
    """Characters of the texts once each row has its own."""
    import pyarrow.compute as pc

    for field, column in zip(table.schema, table.columns, strict=True):
        characters = 0
        for chunk in (part.flatten() if pa.types.is_nested(part.type) else part for part in column.chunks):
            if pa.types.is_dictionary(chunk.type) and not pa.types.is_null(chunk.type.value_type):
                lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
                characters += pc.sum(lengths.take(chunk.indices)).as_py() or 0
        if characters > MOST_CHARACTERS:
            raise InvalidInstance(
                f"{name}, column {field.name!r}: the texts have {characters:,} characters and no more than "
                f"{MOST_CHARACTERS:,} are read at once; give shorter names"
            )


def write_parquet(instance: Instance, folder: Path) -> None:
    """Write ``users.parquet``, ``servers.parquet`` and, where needed, ``demands.parquet``, in their precision."""
    tables = joined(tables_of(instance), instance)
    check_tables(instance, tables)
    pa, pq = _pyarrow("writing Parquet files")
    arrow = {title: _arrow(pa, columns) for title, columns in tables.items()}
    with replacing([folder / f"{title}.parquet" for title in arrow], folder) as parts:
        for part, table in zip(parts, arrow.values(), strict=True):
            pq.write_table(table, part, write_page_checksum=True)


def _arrow(pa: Any, columns: TableColumns) -> Any:
    kinds = {name: None if isinstance(column, np.ndarray) else pa.string() for name, column in columns.items()}
    return pa.table({name: pa.array(column, type=kinds[name]) for name, column in columns.items()})
