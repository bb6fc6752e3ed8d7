"""The former name of `fairopt.verify`, for one version."""

import subprocess
import sys
from pathlib import Path

import pytest

import fairopt as fo
from fairopt.proofs import verify


def test_the_former_name_works_with_a_warning(tmp_path: Path) -> None:
    file = fo.DRF().allocate(fo.Instance([[1, 2], [2, 1]], [6, 6])).save(tmp_path / "answer.json")
    with pytest.warns(DeprecationWarning, match=r"fairopt\.verify"):
        assert verify.verify(file).ok
    with pytest.warns(DeprecationWarning, match=r"fairopt\.verify"):
        assert verify.Verification is fo.checker.Verification
    with pytest.raises(AttributeError, match=r"fairopt\.checker"):
        _ = verify.Cluster


def test_the_script_checks_files_with_a_warning(tmp_path: Path) -> None:
    file = fo.DRF().allocate(fo.Instance([[1, 2], [2, 1]], [6, 6])).save(tmp_path / "answer.json")
    ran = subprocess.run([sys.executable, str(verify.__file__), file], capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stdout == f"{fo.verify(file)}\n" and "DeprecationWarning" in ran.stderr
