import json
import multiprocessing
import os
import re

import pytest

from depgen.errors import UserError
from depgen.evaluation.trained import located
from depgen.training.runs import (
    CHECKPOINTS,
    all_runs,
    announce_run,
    best_checkpoint,
    create_run,
    find_run,
    forget_run,
    is_finished,
    newest_run,
    read_record,
    run_of_checkpoint,
    run_of_name,
    update_record,
)


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """The folder of runs, empty; and a process that belongs to no job."""
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "runs"))
    for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "DEPGEN_RUN"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path / "runs"
    forget_run()


def make(place, day, *files, **record):
    run = create_run(place)
    update_record(run, {"started": f"2026-01-{day:02}T10:00", **record})
    for name in files:
        (run / CHECKPOINTS / name).touch()
    return run


def test_a_run_folder_is_named_by_its_time(root):
    run = create_run("x")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", run.name)
    assert run.parent == root / "x"


def _create(root, queue):
    os.environ["DEPGEN_RUNS"] = root
    queue.put([create_run("x").name for _ in range(5)])


def test_runs_that_start_at_once_do_not_collide(root):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    processes = [context.Process(target=_create, args=(str(root), queue)) for _ in range(4)]
    for process in processes:
        process.start()
    names = [name for _ in processes for name in queue.get(timeout=60)]
    for process in processes:
        process.join()
    assert len(set(names)) == 20


def test_other_processes_of_a_run_use_the_first_ones_folder(monkeypatch):
    run = create_run("x")
    announce_run(run)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert create_run("x") == run.absolute()


@pytest.mark.parametrize(
    "job",
    [
        {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0"},
        {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "1"},
    ],
)
def test_processes_of_a_job_have_one_folder_whichever_asks_first(monkeypatch, job):
    for name, value in job.items():
        monkeypatch.setenv(name, value)
    runs_of_ranks = []
    for rank in ("1", "0"):
        monkeypatch.setenv("RANK", rank)
        runs_of_ranks.append(create_run("x"))
    assert runs_of_ranks[0] == runs_of_ranks[1]
    with pytest.raises(FileExistsError):
        create_run("x")
    monkeypatch.setenv("SLURM_STEP_ID", "2")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert create_run("x") != runs_of_ranks[0]


def test_the_newest_run_is_the_latest_start_that_holds_a_checkpoint(root, caplog):
    caplog.set_level("INFO", "depgen")
    old = make("x", 1, "best.ckpt")
    best = make("y", 3, "best.ckpt")
    bare = make("x/small/seed1", 4, "resume.ckpt", "first-best.ckpt")
    damaged = make("x", 5, "best.ckpt")
    (damaged / "run.json").write_text("{")
    assert all_runs() == [bare, best, old]
    assert newest_run() == best
    assert newest_run(root / "x") == find_run("x") == old
    assert newest_run(root / "x", holding="resume.ckpt") == find_run("x", holding="resume.ckpt") == bare
    assert f"Passing over {bare}: it holds no best.ckpt" in caplog.text
    assert f"Passing over {damaged}: " in caplog.text
    with pytest.raises(UserError, match=r"No run under .*runs/z holds a best.ckpt"):
        newest_run(root / "z")


def test_a_name_means_a_run_folder_or_the_newest_run_in_a_folder(root, tmp_path):
    run, older = make("mine", 1, "best.ckpt"), make("mine/paper/seed2", 2, "best.ckpt")
    of_table = make("mine/paper/seed2", 3, "best.ckpt", "resume.ckpt")
    for reference in (run, f"mine/{run.name}"):
        assert find_run(reference) == run
    for reference in ("mine", "mine/paper", root / "mine", "mine/paper/seed2"):
        assert find_run(reference) == of_table
    assert find_run(f"mine/paper/seed2/{older.name}") == older
    assert located("mine") == ("run", of_table)
    assert run_of_checkpoint(best_checkpoint(run)) == run
    assert run_of_checkpoint(tmp_path / "a" / "b.ckpt") is None
    with pytest.raises(UserError, match=r"No run at .*elsewhere nor at .*runs/elsewhere"):
        find_run("elsewhere")
    with pytest.raises(UserError, match=r"Did you mean 'mine'\? Name a run folder"):
        find_run("mines")


def test_a_name_of_weights_is_that_of_a_run_only_where_a_run_has_it(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_MODELS", str(tmp_path / "models"))
    run = make("mine", 1, "best.ckpt")
    for place in ("mine", "gpt2"):
        (tmp_path / "models" / place).mkdir(parents=True)
    assert run_of_name("mine") == run
    assert run_of_name("gpt2") is run_of_name(str(tmp_path / "models" / "gpt2")) is None
    (tmp_path / "models" / "mine" / "config.json").touch()
    assert run_of_name("mine") is None, "models come first"
    make("unfinished", 1)
    with pytest.raises(UserError, match=r"No run under .*unfinished holds a best\.ckpt"):
        run_of_name("unfinished")


def test_records():
    run = make("x", 1, "resume.ckpt", finished=None)
    assert not is_finished(run)
    update_record(run, {"finished": "2026-01-02"})
    assert is_finished(run)
    assert read_record(run) == {"started": "2026-01-01T10:00", "finished": "2026-01-02"}
    with pytest.raises(UserError, match=r"no best checkpoint of its last phase .*best.ckpt does not exist"):
        best_checkpoint(run)
    (run / "run.json").write_text(json.dumps(read_record(run))[:-5])
    with pytest.raises(UserError, match=r"run\.json: expected JSON"):
        read_record(run)
