"""Which files of runs are the user's own, and what others may have imported."""

import json
import logging

import pytest
from jsonargparse import ArgumentParser

from depgen.errors import UserError
from depgen.locations import file_sha256
from depgen.training.runs import check_vocabulary, note_vocabulary, read_record, update_record
from depgen.training.trust import (
    all_runs_trusted,
    classes_checked,
    is_own,
    is_trusted,
    lengthen,
    note_written,
    pickles_refused_for,
    trust,
    write_settings,
)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("DEPGEN_CACHE", str(folder))
    return folder


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "runs" / "lm" / "now"
    (folder / "checkpoints").mkdir(parents=True)
    update_record(folder, {"experiment": "lm"})
    write_settings(folder, {"trainer": {"max_epochs": 1}})
    return folder


def test_a_file_is_the_users_own_as_long_as_it_is_not_changed(run):
    path = run / "config.yaml"
    assert is_own(path)
    path.write_text(path.read_text() + "model: {}\n")
    assert not is_own(path)


def test_a_run_of_another_key_is_not_the_users_own(run, cache):
    (key,) = cache.glob("signing-*.key")
    assert key.stat().st_mode & 0o777 == 0o600
    key.unlink()
    assert not is_own(run / "config.yaml")


def test_a_signature_covers_every_digest(run):
    path = run / "checkpoints" / "best.ckpt"
    path.write_text("from elsewhere")
    record = read_record(run)["written_here"]
    record["files"]["checkpoints/best.ckpt"] = [file_sha256(path)]
    update_record(run, {"written_here": record})
    assert not is_own(path)
    assert not is_own(run / "config.yaml")


@pytest.mark.parametrize("entry", [None, [], "signed", {"files": [], "signature": ""}, {"files": {}}])
def test_a_damaged_signature_is_none(run, entry):
    update_record(run, {"written_here": entry})
    assert not is_own(run / "config.yaml")


def test_a_file_is_own_before_and_after_it_is_replaced(run):
    path, digests = run / "checkpoints" / "resume.ckpt", []
    for content in ("first", "second", "third"):
        part = path.with_name("part")
        part.write_text(content)
        digests.append(file_sha256(part))
        note_written(run, {"checkpoints/resume.ckpt": digests[-1]})
        assert not path.exists() or is_own(path)  # a kill may come here
        part.replace(path)
        assert is_own(path)
    assert read_record(run)["written_here"]["files"]["checkpoints/resume.ckpt"] == [digests[2], digests[1]]


def test_notes_of_others_are_not_signed(run, cache):
    (key,) = cache.glob("signing-*.key")
    key.unlink()
    note_written(run, {"checkpoints/best.ckpt": "0" * 64})
    assert list(read_record(run)["written_here"]["files"]) == ["checkpoints/best.ckpt"]
    assert not is_own(run / "config.yaml")


def test_a_run_that_is_lengthened_stays_what_it_was(run):
    lengthen(run, {"trainer.max_epochs": 3})
    assert is_own(run / "config.yaml")
    (run / "config.yaml").write_text("trainer: {max_epochs: 4}\n")
    lengthen(run, {"trainer.max_epochs": 5})
    assert not is_own(run / "config.yaml")


def test_a_key_that_others_can_read_signs_nothing(run, cache, caplog):
    (key,) = cache.glob("signing-*.key")
    key.chmod(0o640)
    with caplog.at_level(logging.WARNING):
        assert not is_own(run / "config.yaml")
    assert f"{key} can be read by others" in caplog.text


def test_without_a_cache_runs_are_not_signed(run, cache, monkeypatch, caplog):
    before = read_record(run)
    (cache / "file").write_text("in the way")
    monkeypatch.setenv("DEPGEN_CACHE", str(cache / "file"))
    with caplog.at_level(logging.WARNING):
        note_written(run, {"checkpoints/best.ckpt": "0" * 64})
    assert read_record(run) == before
    assert "not signed" in caplog.text


def test_what_the_user_says_is_trusted(run, cache):
    (run / "config.yaml").write_text("{}")
    checkpoint = run / "checkpoints" / "best.ckpt"
    assert not is_trusted(checkpoint)
    with all_runs_trusted():
        assert is_trusted(checkpoint)
    assert not is_trusted(checkpoint)
    trust(checkpoint)
    assert is_trusted(checkpoint)
    assert is_trusted(run / "config.yaml")
    assert not is_trusted(run.parent / "other" / "checkpoints" / "best.ckpt")


def parse(path):
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--kind", type=type)
    return parser.parse_args([f"--kind={path}"]).kind


def test_classes_are_those_of_known_modules_within_a_run_of_others(run, tmp_path):
    own, other = run / "config.yaml", tmp_path / "lone.ckpt"
    with classes_checked(other):
        assert pickles_refused_for() == other
        assert parse("torch.optim.Adam").__name__ == "Adam"
        with classes_checked(own):
            assert pickles_refused_for() is None
            assert parse("json.JSONDecoder") is json.JSONDecoder
        with classes_checked():
            assert pickles_refused_for() == other
        with pytest.raises(UserError, match=r"found json\.JSONDecoder.* --trust-run"), classes_checked(own, other):
            parse("json.JSONDecoder")
    assert parse("json.JSONDecoder") is json.JSONDecoder
    assert pickles_refused_for() is None


def test_an_error_that_is_about_something_else_keeps_its_words(tmp_path):
    with pytest.raises(ValueError, match="another"), classes_checked(tmp_path / "lone.ckpt"):
        raise ValueError("another")


def test_a_vocabulary_is_the_one_that_was_noted(run):
    (run / "vocabulary").mkdir()
    path = run / "vocabulary" / "vocabulary.json"
    path.write_text("{}")
    check_vocabulary(run / "vocabulary")  # as in runs of earlier versions
    note_vocabulary(run)
    check_vocabulary(run / "vocabulary")
    path.write_text("[]")
    with pytest.raises(UserError, match=r"vocabulary\.json is damaged or replaced"):
        check_vocabulary(run / "vocabulary")
    path.unlink()
    with pytest.raises(UserError, match=r"vocabulary\.json is damaged or replaced"):
        check_vocabulary(run / "vocabulary")
