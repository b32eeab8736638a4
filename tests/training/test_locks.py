import fcntl
import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from depgen.errors import UserError
from depgen.training.locks import RunLock

HOLD = """import sys, time
from pathlib import Path
from depgen.training.locks import RunLock
RunLock(Path(sys.argv[1])).acquire()
print('held', flush=True)
time.sleep(60)"""


def test_a_live_run_refuses_and_a_killed_one_gives_way(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=rf"is being trained by process {holder.pid} on this host"):
            RunLock(tmp_path).acquire()
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
    with RunLock(tmp_path):
        assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()
    assert not (tmp_path / "lock").exists()


def test_a_process_that_has_inherited_a_dead_ones_number_does_not_count(tmp_path):
    holder = {"pid": os.getppid(), "host": socket.gethostname(), "process_start": "1"}
    (tmp_path / "lock").write_text(json.dumps(holder))
    with RunLock(tmp_path):
        assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()


def test_a_lock_of_another_host_can_not_be_judged(tmp_path):
    (tmp_path / "lock").write_text(json.dumps({"pid": 1, "host": "elsewhere", "process_start": "1"}))
    with pytest.raises(UserError, match=r"process 1 on host elsewhere.*delete .*/lock"):
        RunLock(tmp_path).acquire()


def test_an_unreadable_lock_is_taken_over(tmp_path, caplog):
    (tmp_path / "lock").write_text("{half")
    with RunLock(tmp_path):
        pass
    assert "unreadable" in caplog.text


def test_only_the_owner_releases(tmp_path):
    content = json.dumps({"pid": 1, "host": "elsewhere", "process_start": "1"})
    (tmp_path / "lock").write_text(content)
    RunLock(tmp_path).release()
    assert (tmp_path / "lock").read_text() == content


@pytest.mark.parametrize("holder", [None, "elsewhere"])
def test_a_lock_file_replaced_while_it_was_waited_for_counts_no_more(tmp_path, monkeypatch, holder):
    path, calls = tmp_path / "lock", []

    def replaced(stream, operation):
        if not calls:
            path.unlink()
            if holder:
                path.write_text(json.dumps({"pid": 1, "host": holder, "process_start": "1"}))
        calls.append(operation)

    monkeypatch.setattr(fcntl, "flock", replaced)
    if holder:
        with pytest.raises(UserError, match="process 1 on host elsewhere"):
            RunLock(tmp_path).acquire()
        return
    RunLock(tmp_path).acquire()
    assert json.loads(path.read_text())["pid"] == os.getpid()
    assert len(calls) == 2
