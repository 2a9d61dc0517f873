import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lakelog.cli.up.data_folder import DataFolder, wait_for_port
from lakelog.cli.up.up import find_pipeline_files
from lakelog.errors import AlreadyExists, InvalidArgument, LakelogError, NotFound

HOLD = """
import sys, time
from pathlib import Path
from lakelog.cli.up.data_folder import DataFolder
with DataFolder(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_folder_is_used_by_one_and_taken_over_from_the_dead(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(AlreadyExists, match=f"in use by another `lakelog up` \\(process {holder.pid}\\)"):
            DataFolder(tmp_path).__enter__()
        holder.kill()
        holder.wait()
    with DataFolder(tmp_path) as folder:
        assert folder.abandoned_by == holder.pid
    with DataFolder(tmp_path) as folder:
        assert folder.abandoned_by is None


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LakelogError, match="file/data cannot be used: Not a directory"):
        DataFolder(tmp_path / "file" / "data").__enter__()


def test_a_port_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(AlreadyExists, match=f"Port {port} of 127.0.0.1 is in use"):
            wait_for_port("127.0.0.1", port, patient=False)
    wait_for_port("127.0.0.1", port, patient=False)


def test_pipeline_files_are_found_by_name_and_once(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "notes.txt"):
        (tmp_path / name).touch()
    found = find_pipeline_files([tmp_path, tmp_path / "b.yaml"])
    assert [file.name for file in found] == ["a.yml", "b.yaml"]
    with pytest.raises(NotFound, match="no such file or folder"):
        find_pipeline_files([tmp_path / "c.yaml"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match=r"no file that ends in \.yaml"):
        find_pipeline_files([tmp_path / "empty"])
    (tmp_path / "empty" / "a.yaml").touch()
    with pytest.raises(InvalidArgument, match="have the same name"):
        find_pipeline_files([tmp_path, tmp_path / "empty"])
