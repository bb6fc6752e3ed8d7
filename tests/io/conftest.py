"""A folder of tables."""

import pytest


@pytest.fixture
def tables(tmp_path):
    """Write users.csv and servers.csv with some content and give the folder."""

    def write(users="user,cpu,memory\nweb,1,2\nbatch,4,1\n", servers="server,cpu,memory\ns1,10,20\ns2,30,10\n"):
        for name, content in (("users.csv", users), ("servers.csv", servers)):
            if content is not None:
                (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path

    return write
