"""Files written as a whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from fairopt import signals
from fairopt.errors import InvalidInstance

__all__ = ["replacing"]


@contextmanager
def replacing(files: Sequence[Path], folder: Path | None = None) -> Iterator[list[Path]]:
    """New files beside the given ones, which replace them at the end; if anything fails before, nothing has changed.

    A folder that is not there is made before; links are followed.
    """
    try:
        targets = [Path(os.path.realpath(file)) for file in files]
    except ValueError as error:  # a NUL character
        raise InvalidInstance(f"{str(files[0])!r} is not the name of a file ({error}); give another name") from error
    parts = [target.with_name(f".{target.name[:60]}.{secrets.token_hex(8)}") for target in targets]
    signals.unfinished.update(parts)
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        for file, target in zip(files, targets, strict=True):
            if target.exists() and not (target.is_file() and os.access(target, os.W_OK)):
                raise InvalidInstance(f"{file} is there and is not a file that may be replaced; give another name")
        yield parts
        with signals.undivided():
            for part, target in zip(parts, targets, strict=True):
                if target.exists():
                    shutil.copymode(target, part)
                os.replace(part, target)
    except OSError as error:
        where = str(folder or files[0])
        raise InvalidInstance(
            f"{where[:1000]} cannot be written ({error.strerror or error}); give a name in a folder that is there and "
            "where you may write"
        ) from error
    finally:
        for part in parts:
            with suppress(OSError):  # it is in its place, or was never made
                part.unlink()
        signals.unfinished.difference_update(parts)
