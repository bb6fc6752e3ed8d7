"""An instance as a folder of Parquet files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairopt.errors import InvalidInstance, OutOfMemory, optional
from fairopt.io.assemble import TITLES, TableColumns, reader_of_tables, tables_of
from fairopt.io.frames import table_of
from fairopt.io.saving import replacing
from fairopt.io.tables import InputTable
from fairopt.io.text_files import check_file, check_memory
from fairopt.runtime.progress import tell

if TYPE_CHECKING:
    from fairopt.instance import Instance

MOST_ROWS, BYTES_OF_ROW = 10_000_000, 200  # bytes of a label in Python and of the arrays per row


def _table(path: str | os.PathLike[str], required: Sequence[str]) -> InputTable:
    name = os.fspath(path)
    expected = f"expected a Parquet file with the columns {', '.join(required)}, ..."
    check_file(path, expected)
    pa, pq = pyarrow_for("reading Parquet files")
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            rows, columns = file.metadata.num_rows, file.metadata.num_columns
            if rows > MOST_ROWS:
                raise InvalidInstance(
                    f"{name} has {rows:,} rows in {columns} columns, which would take about "
                    f"{rows * (BYTES_OF_ROW + 8 * columns) / 1e9:.0f} GB; at most {MOST_ROWS:,} are read into memory: "
                    "give it to fo.allocate_sharded, or split it"
                )
            check_memory(name, 4 * rows * columns)  # numbers in single precision
            tell(f"reading {os.path.basename(name)}")
            table = file.read(use_threads=False)
        table.validate(full=True)
    except (InvalidInstance, OutOfMemory):
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        words = " ".join(str(error).split())
        raise InvalidInstance(
            f"{name} cannot be read as Parquet ({words[:200]}); it is damaged or in another format: write it again; "
            f"{expected}"
        ) from error
    return table_of(table, name, required, extra="parquet")


read_tables = reader_of_tables(_table)  # messages count rows from 0


def pyarrow_for(purpose: str) -> tuple[Any, Any]:
    """The modules of pyarrow and of its Parquet files, or `MissingExtra`."""
    return optional("pyarrow", "parquet", purpose), optional("pyarrow.parquet", "parquet", purpose)


def write_tables(instance: Instance, folder: Path) -> None:
    """Write an instance as Parquet files, keeping their precision, and remove older tables that it does not need."""
    tables = tables_of(instance, joined=True)
    pa, pq = pyarrow_for("writing Parquet files")
    arrow = {title: _arrow(pa, columns) for title, columns in tables.items()}
    older = [folder / f"{title}.parquet" for title in TITLES if title not in arrow]
    with replacing([folder / f"{title}.parquet" for title in arrow], folder, older) as new:
        for file, table in zip(new, arrow.values(), strict=True):
            pq.write_table(table, file, write_page_checksum=True)


def _arrow(pa: Any, columns: TableColumns) -> Any:
    kinds = {name: None if isinstance(column, np.ndarray) else pa.string() for name, column in columns.items()}
    return pa.table({name: pa.array(column, type=kinds[name]) for name, column in columns.items()})
