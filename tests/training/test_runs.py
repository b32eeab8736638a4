import json
import multiprocessing
import os
import re

import pytest

from depgen.errors import UserError
from depgen.evaluation.system import located
from depgen.training import runs
from depgen.training.runs import (
    all_runs,
    best_checkpoint,
    checkpoint_folder,
    create_run,
    find_run,
    forget_run,
    is_finished,
    newest_run,
    read_record,
    resume_checkpoint,
    run_of_checkpoint,
    run_of_name,
    update_record,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _root(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "runs"))
    for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "DEPGEN_RUN"):
        monkeypatch.delenv(name, raising=False)
    yield
    forget_run()


def make(experiment, started, *files, **record):
    run = create_run(experiment)
    update_record(run, {"started": started, **record})
    for name in files:
        (checkpoint_folder(run) / name).touch()
    return run


def test_a_run_folder_is_named_by_its_time():
    run = create_run("x")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", run.name)
    assert run.parent.name == "x"
    assert checkpoint_folder(run).is_dir()
    assert os.environ["DEPGEN_RUN"] == str(run.absolute())


def _create(root, queue):
    os.environ["DEPGEN_RUNS"] = root
    queue.put([create_run("x").name for _ in range(5)])


def test_runs_that_start_at_once_do_not_collide(tmp_path):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    processes = [context.Process(target=_create, args=(str(tmp_path / "runs"), queue)) for _ in range(4)]
    for process in processes:
        process.start()
    names = [name for _ in processes for name in queue.get(timeout=60)]
    for process in processes:
        process.join()
    assert len(set(names)) == 20


def test_other_processes_of_a_run_use_the_first_ones_folder(monkeypatch):
    run = create_run("x")
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
        monkeypatch.delenv(runs.RUN_VARIABLE, raising=False)
    assert runs_of_ranks[0] == runs_of_ranks[1]
    assert checkpoint_folder(runs_of_ranks[0]).is_dir()
    with pytest.raises(UserError, match="is there already"):
        create_run("x")
    monkeypatch.setenv("SLURM_STEP_ID", "2")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert create_run("x") != runs_of_ranks[0]


def test_a_process_that_was_told_nothing_says_so(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    with pytest.raises(UserError, match="DEPGEN_RUN"):
        create_run("x")


def test_the_newest_run_is_the_latest_start_that_holds_a_best_checkpoint(caplog):
    caplog.set_level("INFO", "depgen")
    old = make("x", "2026-01-01T10:00", "best.ckpt")
    best = make("y", "2026-01-03T10:00", "best.ckpt")
    bare = make("x", "2026-01-04T10:00", "resume.ckpt", "first-best.ckpt")
    assert newest_run() == best
    assert f"Passing over {bare}: it holds no best.ckpt" in caplog.text
    assert newest_run("x") == old
    assert newest_run("x", holding="resume.ckpt") == bare
    assert all_runs() == [bare, best, old]
    with pytest.raises(UserError, match=r"No run of z under .*runs holds a best.ckpt"):
        newest_run("z")


def test_the_newest_run_of_a_name_or_a_folder_is_of_any_size():
    plain = make("mine", "2026-01-01T10:00", "best.ckpt")
    of_table = make("mine/paper/seed2", "2026-01-02T10:00", "best.ckpt", "resume.ckpt")
    assert newest_run("mine") == find_run("mine") == newest_run(root=plain.parent) == find_run("mine/paper") == of_table
    assert located("mine") == ("run", of_table)


def test_find_run(tmp_path):
    run = make("x", "2026-01-01T10:00", "best.ckpt")
    for reference in (run, f"x/{run.name}", "x"):
        assert find_run(reference) == run
    assert run_of_checkpoint(best_checkpoint(run)) == run
    assert run_of_checkpoint(tmp_path / "a" / "b.ckpt") is None
    with pytest.raises(UserError, match=r"No run at .*elsewhere nor at .*runs/elsewhere"):
        find_run("elsewhere")
    (tmp_path / "copied").mkdir()
    (tmp_path / "copied" / "config.yaml").touch()
    with pytest.raises(UserError, match=r"copied has no run\.json.*copy the run again, whole"):
        find_run(tmp_path / "copied")
    make("udgn_ewt_small", "2026-01-01T10:00", "best.ckpt")
    with pytest.raises(UserError, match=r"Did you mean 'udgn_ewt_small'\? Name a run folder or an experiment"):
        find_run("udgn_ewt_smal")


def test_a_folder_of_runs_stands_for_its_newest(monkeypatch, tmp_path):
    root = runs.runs_root()
    monkeypatch.setenv("DEPGEN_RUNS", str(root / "table" / "Row" / "small-seed1"))
    older, newer = (make("x", f"2026-01-0{day}T10:00", "best.ckpt") for day in (1, 2))
    make("x", "2026-01-03T10:00", "resume.ckpt")
    monkeypatch.setenv("DEPGEN_RUNS", str(root))
    assert find_run("table/Row/small-seed1") == find_run(root / "table" / "Row") == newer
    (root / "table" / "empty").mkdir()
    with pytest.raises(UserError, match="No run at"):
        find_run("table/empty")
    other = make("table", "2025-01-01T10:00", "best.ckpt")
    assert find_run("table") == other, "an experiment's name comes first"
    assert find_run(f"table/Row/small-seed1/x/{older.name}") == older


def test_a_damaged_record_of_one_run_hides_no_other(caplog):
    whole, damaged = (make("x", f"2026-01-0{day}T10:00", "best.ckpt") for day in (1, 2))
    (damaged / "run.json").write_text("{")
    assert all_runs() == [whole]
    assert newest_run() == find_run("x") == whole
    assert f"Passing over {damaged}: " in caplog.text


def test_a_name_of_weights_is_that_of_a_run_only_where_a_run_has_it(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_MODELS", str(tmp_path / "models"))
    run = make("mine", "2026-01-01T10:00", "best.ckpt")
    for place in ("mine", "gpt2"):
        (tmp_path / "models" / place).mkdir(parents=True)
    assert run_of_name("mine") == run
    assert run_of_name("gpt2") is run_of_name(str(tmp_path / "models" / "gpt2")) is None
    (tmp_path / "models" / "mine" / "config.json").touch()
    assert run_of_name("mine") is None, "models come first"
    make("unfinished", "2026-01-01T10:00")
    with pytest.raises(UserError, match=r"No run of unfinished .* holds a best\.ckpt"):
        run_of_name("unfinished")


def test_missing_checkpoints_are_named():
    run = create_run("x")
    with pytest.raises(UserError, match=r"no best checkpoint of its last phase .*best.ckpt does not exist"):
        best_checkpoint(run)
    with pytest.raises(UserError, match=r"resume.ckpt does not exist"):
        resume_checkpoint(run)


def test_records():
    run = make("x", "2026-01-01T10:00", "resume.ckpt", finished=None)
    assert not is_finished(run)
    update_record(run, {"finished": "2026-01-02"})
    assert is_finished(run)
    assert read_record(run) == {"started": "2026-01-01T10:00", "finished": "2026-01-02"}
    (run / "run.json").write_text(json.dumps(read_record(run))[:-5])
    with pytest.raises(UserError, match=r"run\.json: expected JSON"):
        read_record(run)
