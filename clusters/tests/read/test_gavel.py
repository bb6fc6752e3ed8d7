"""Throughputs as in Gavel's simulator, on made-up files of both of its formats."""

import json
from pathlib import Path
from typing import Any

import pytest
from fairopt_clusters import read_gavel_throughputs

import fairopt as fo
from fairopt.errors import InvalidInstance

PAIRS = {"('LM (batch size 5)', 1)": [1.0, 2.0]}
MEASURED = {
    "k80": {
        "('A3C', 1)": {"null": 2.5, **PAIRS},
        "('LM (batch size 5)', 1)": {"null": 10},
        "('LM (batch size 5)', 2)": {"null": 0.0},
    },
    "v100": {"('A3C', 1)": {"null": 4.0}, "('LM (batch size 5)', 2)": {"null": 70.5}},
}


def written(folder: Path, data: Any) -> Path:
    file = folder / "throughputs.json"
    file.write_text(json.dumps(data))
    return file


def test_rates_by_type_of_job_and_of_device(tmp_path: Path) -> None:
    file = written(tmp_path, MEASURED)
    assert read_gavel_throughputs(file).to_dict("index") == {
        "A3C": {"k80": 2.5, "v100": 4.0},
        "LM (batch size 5)": {"k80": 10.0, "v100": 0.0},
    }
    assert read_gavel_throughputs(file, gpus=2).to_dict("index") == {"LM (batch size 5)": {"k80": 0.0, "v100": 70.5}}
    earlier = written(tmp_path, {"p100": {"A3C": {"null": 3.0, "A3C": [1.0, 1.0]}}})
    assert read_gavel_throughputs(earlier).to_dict("index") == {"A3C": {"p100": 3.0}}


def test_the_table_gives_an_instance_its_rates(tmp_path: Path) -> None:
    rates = read_gavel_throughputs(written(tmp_path, MEASURED))
    jobs = fo.Instance(
        [[1], [1]], [[1], [1]], task_limits=1, users=[*rates.index], servers=[*rates.columns], rates=rates
    )
    assert jobs.rates is not None
    assert jobs.rates.tolist() == [[2.5, 4.0], [10.0, 0.0]]
    hours = fo.Policy(fo.Leximin(fo.ThroughputShare())).allocate(jobs).tasks_by_server
    assert hours.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("data", "gpus", "message"),
    [
        (MEASURED, 4, "has no jobs on 4 devices; they are on 1, 2"),
        ({}, 1, "has no jobs on 1 devices; expected"),
        ([1], 1, "the text does not start with"),
        ({"k80": [1]}, 1, "k80 is a list; give an object"),
        ({"k80": {"A3C": 3.0}}, 1, "k80.A3C is 3.0"),
        ({"k80": {"A3C": {}}}, 1, "k80.A3C.null is missing"),
        ({"k80": {"A3C": {"null": -1}}}, 1, "k80.A3C.null is -1"),
    ],
)
def test_a_file_that_is_wrong(tmp_path: Path, data: Any, gpus: int, message: str) -> None:
    with pytest.raises(InvalidInstance, match=message):
        read_gavel_throughputs(written(tmp_path, data), gpus)
