"""Files whose name ends in .gz are read as what they hold."""

import gzip

import pytest

import fairopt as fo
from fairopt.errors import InvalidInstance

TABLE = "user,arrival,duration,cpu\nweb,0,60,1\nbatch,5,300,3\n"


def test_a_compressed_table_of_jobs_is_read_as_the_table(tmp_path):
    cluster = fo.Instance([], [9], resources=["cpu"])
    (tmp_path / "jobs.csv").write_text(TABLE)
    (tmp_path / "jobs.csv.gz").write_bytes(gzip.compress(TABLE[:30].encode()) + gzip.compress(TABLE[30:].encode()))
    (tmp_path / "plain.csv.gz").write_text(TABLE)
    expected = list(fo.online.read_jobs(tmp_path / "jobs.csv", cluster))
    for name in ("jobs.csv.gz", "plain.csv.gz"):
        assert list(fo.online.read_jobs(tmp_path / name, cluster)) == expected


@pytest.mark.parametrize("damaged", [lambda raw: raw[:-9], lambda raw: raw[:20] + b"~~~~" + raw[24:]])
def test_a_damaged_file_is_refused_by_name(damaged, tmp_path):
    (tmp_path / "jobs.csv.gz").write_bytes(damaged(gzip.compress(TABLE.encode())))
    with pytest.raises(InvalidInstance, match=r"jobs.csv.gz is not a whole file of gzip .*compress it again; expected"):
        fo.io.read_text(tmp_path / "jobs.csv.gz", "expected jobs")
