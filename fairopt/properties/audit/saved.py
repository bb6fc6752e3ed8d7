"""The file of an audit: write it, and read it with a check of its digest."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from fairopt.errors import FairoptError, InvalidInstance
from fairopt.policies.parse import parse_policy
from fairopt.policies.registry import known_policies

__all__ = ["_UnknownPolicyError", "policy_from", "read", "write"]

FORMAT = "fairopt.audit/1"


def write(report: dict[str, Any], policy: Any, path: Path) -> Path:
    """Write a report's plain data; see `AuditReport.save`."""
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    try:
        versions["fairopt"] = version("fairopt")
    except PackageNotFoundError:  # run from a folder
        versions["fairopt"] = "unknown"
    data = {"format": FORMAT, **report, "policy": _policy_text(policy), "versions": versions}
    data["digest"] = _digest(data)
    path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return path


def _digest(data: dict[str, Any]) -> str:
    """SHA-256 of all other entries of a file, in any layout, by which an edited file is recognised."""
    rest = {key: value for key, value in data.items() if key != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read(path: Path) -> dict[str, Any]:
    """The data that `write` wrote; `InvalidInstance` for another file, or one that was changed."""
    try:
        data = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise InvalidInstance(f"no file {path}; give one that AuditReport.save wrote") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInstance(
            f"{path}: cannot be read as a saved audit ({error}); give one that AuditReport.save wrote"
        ) from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InvalidInstance(f"{path}: not a saved audit (no format {FORMAT!r}); give one that AuditReport.save wrote")
    if "digest" in data and data["digest"] != _digest(data):
        raise InvalidInstance(
            f"{path}: it was changed after it was saved (its digest does not match); save the audit again, or remove "
            "the line of the digest to have the numbers checked as they are now"
        )
    return data


class _UnknownPolicyError(ValueError):
    """The mechanism of a file is not made of fairopt's blocks, and was not given."""


def _policy_text(policy: Any) -> str:
    """A text from which the mechanism can be made again without executing code, where there is one."""
    text = repr(policy)
    with contextlib.suppress(FairoptError):  # not blocks of fairopt alone: a name may do
        if parse_policy(text) == policy:
            return text
    for name, notion in known_policies().items():
        try:
            if repr(notion.make()) == text:
                return name
        except Exception:  # a parameter without default, or a failing package
            continue
    return text


def policy_from(text: str) -> Any:
    """The mechanism that a file names."""
    try:
        return parse_policy(text)
    except FairoptError:
        known = known_policies()
        if text in known:
            return known[text].make()
    raise _UnknownPolicyError(
        f"its mechanism is {text[:120]!r}, which is not made of fairopt's blocks; give it: replay(path, mechanism=...)"
    )
