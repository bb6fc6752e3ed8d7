"""Files written as a whole or not at all: every writer of the package writes through `replacing`."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fairopt.errors import InvalidInstance

_FULL = (None, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # None: numpy wrote less than requested


def unwritable(path: Path, number: int, fix: str, problem: str = "") -> OSError:
    """The `OSError` of a number (such as `FileNotFoundError`) about a path, with the fix as a note."""
    error = OSError(number, problem or os.strerror(number), str(path)[:1000])
    error.add_note(fix)
    return error


def write_whole(path: Path, content: str | Callable[[BinaryIO], object]) -> None:
    r"""Write one file as a whole or not at all.

    Parameters
    ----------
    path : Path
        The file.
    content : str or callable
        A text, or a function that writes to an open binary file.

    Examples
    --------
    >>> import fairopt as fo
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "quotas.csv"
    >>> fo.io.write_whole(file, "team,cpu\n")
    >>> file.read_text()
    'team,cpu\n'
    """
    with replacing([path]) as (file,):
        if isinstance(content, str):
            file.write(content.encode(errors="backslashreplace"))
        else:
            content(file)


@contextmanager
def _before_sigterm() -> Iterator[None]:
    """Let SIGTERM, if it has its default action, end the process after the block and not in it."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for number in came[:1]:
            signal.raise_signal(number)


@contextmanager
def replacing(
    files: Sequence[Path], folder: Path | None = None, removing: Sequence[Path] = ()
) -> Iterator[Sequence[BinaryIO]]:
    """In its block, open new files that replace the given ones together at the end; if anything fails, nothing changes.

    They are written under temporary names in the same folders; links are followed.

    Parameters
    ----------
    files : sequence of Path
        The files.
    folder : Path, optional
        A folder that is created first if it is missing.
    removing : sequence of Path, default ()
        Older files that would contradict the new ones, removed in the same step.

    Examples
    --------
    >>> import fairopt as fo
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "new"
    >>> with fo.io.replacing([folder / "a.txt", folder / "b.txt"], folder) as files:
    ...     for file in files:
    ...         _ = file.write(b"done")
    >>> sorted(file.name for file in folder.iterdir())
    ['a.txt', 'b.txt']
    """
    try:
        targets = [Path(os.path.realpath(file)) for file in files]
    except ValueError as error:  # a NUL character
        raise InvalidInstance(f"{str(files[0])!r} is not the name of a file ({error}); give another name") from error
    for file, target in zip(files, targets, strict=True):
        if os.path.lexists(target) and not (target.is_file() and os.access(target, os.W_OK)):
            raise unwritable(file, errno.EACCES, "give another name", "This is not a file that can be replaced")
    parts = [_beside(target) for target in targets]
    new_folders = [] if folder is None else [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    done = False
    with _before_sigterm():
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            with ExitStack() as stack:
                streams = [stack.enter_context(part.open("xb")) for part in parts]
                yield streams
                for stream in streams:
                    stream.flush()
                    os.fsync(stream.fileno())
            for part, target in zip(parts, targets, strict=True):
                if target.exists():
                    shutil.copymode(target, part)
            _rename_all(parts, targets, [file for file in removing if os.path.lexists(file)])
            done = True
        except OSError as error:
            fix = "give a name in an existing folder where you may write"
            if error.errno in _FULL:
                fix = "the old files are kept; free some space, or give a name on another disk"
            raise unwritable(files[0], error.errno or errno.ENOSPC, fix, error.strerror or str(error)) from error
        finally:
            for part in parts:
                with suppress(OSError):  # it was renamed, or never created
                    part.unlink()
            for path in () if done else new_folders:
                with suppress(OSError):  # it was never created, or another process uses it
                    path.rmdir()


def _beside(target: Path) -> Path:
    """An unused name in the same folder."""
    return target.with_name(f".fairopt-{secrets.token_hex(8)}")


def _rename_all(parts: Sequence[Path], targets: Sequence[Path], removing: Sequence[Path]) -> None:
    """Rename the files to their final names, all or none.

    No system renames several files at once. So older ones are renamed first, and the first of the new ones comes last:
    if the machine stops in between, it is missing, so that new files are never read together with old ones.
    """
    if len(targets) == 1 and not removing:
        os.replace(parts[0], targets[0])
    else:
        backups = {old: _beside(old) for old in (*targets, *removing) if os.path.lexists(old)}
        try:
            for old, kept in backups.items():
                os.replace(old, kept)
            for part, target in reversed([*zip(parts, targets, strict=True)]):
                os.replace(part, target)
        except BaseException:
            for target in targets:
                if target not in backups:
                    target.unlink(missing_ok=True)
            for old, kept in backups.items():
                if os.path.lexists(kept):
                    os.replace(kept, old)
            raise
        for kept in backups.values():
            with suppress(OSError):  # the new files are in place
                kept.unlink()
    for folder in {target.parent for target in targets}:
        with suppress(OSError):  # where folders cannot be opened, as on Windows
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
