import os
import stat
from pathlib import Path

import pytest

from depgen.errors import UserError
from depgen.locations import (
    below_runs,
    cache_root,
    check_output,
    data_root,
    file_sha256,
    find_data,
    find_file,
    folder_written_whole,
    json_object,
    json_value,
    made_once,
    results_root,
    runs_root,
    write_atomically,
)

DEFAULTS = {
    "DEPGEN_DATA": (data_root, "data"),
    "DEPGEN_CACHE": (cache_root, "~/.cache/depgen"),
    "DEPGEN_RUNS": (runs_root, "runs"),
    "DEPGEN_RESULTS": (results_root, "results"),
}


@pytest.mark.parametrize("variable", DEFAULTS)
def test_an_empty_variable_counts_as_unset(monkeypatch, variable):
    root, default = DEFAULTS[variable]
    monkeypatch.setenv(variable, "")
    assert root() == Path(default).expanduser()
    monkeypatch.setenv(variable, "/elsewhere")
    assert root() == Path("/elsewhere")


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    place = tmp_path / "parser"
    for content in ("first", "second"):
        with folder_written_whole(place) as part:
            (part / "file").write_text(content)
            assert not place.exists() or (place / "file").read_text() == "first"
        assert (place / "file").read_text() == content
    with pytest.raises(FileNotFoundError), folder_written_whole(place) as part:
        (part / "folder" / "file").write_text("half")
    assert (place / "file").read_text() == "second"
    assert [each.name for each in tmp_path.iterdir()] == ["parser"]


def test_a_run_is_named_below_the_folder_of_runs(monkeypatch, tmp_path):
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "runs"))
    assert below_runs(str(tmp_path / "runs/udgn_ptb/first")) == "udgn_ptb/first"
    assert below_runs("udgn_ptb") == "udgn_ptb"
    assert below_runs(str(tmp_path / "elsewhere")) == str(tmp_path / "elsewhere")


def test_a_files_digest_is_that_of_its_bytes(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    assert file_sha256(tmp_path / "file") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize(("answers", "made"), [([False, False], True), ([True], False), ([False, True], False)])
def test_what_another_process_has_made_is_not_made_again(tmp_path, answers, made):
    calls = []
    assert made_once(tmp_path / "a", lambda: calls.append("made"), is_made=lambda: answers.pop(0)) == made
    assert (bool(calls), answers) == (made, [])


def test_an_output_reaches_what_a_link_leads_to(tmp_path):
    real, link, dangling = (tmp_path / name for name in ("real.txt", "link.txt", "dangling.txt"))
    real.write_text("old")
    link.symlink_to("real.txt")
    dangling.symlink_to(tmp_path / "made" / "later.txt")
    for path in (link, dangling):
        check_output(path)
        write_atomically(path, "new")
        assert path.is_symlink()
        assert path.read_text() == "new"
    assert real.read_text() == "new"


def test_an_output_is_written_into_a_device_which_stays(tmp_path):
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))  # /dev/null's number
        device.write_text("")
    except OSError:  # needs rights that few have: the device itself, which nobody but root could replace
        device = Path("/dev/null")
    check_output(device)
    write_atomically(device, "new")
    assert stat.S_ISCHR(device.stat().st_mode)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda folder: find_data("corpus", how_to_get="Ask."), r"Did you mean 'corpora'\? Ask\. Set DEPGEN_DATA"),
        (lambda folder: find_data(folder / "corpus", how_to_get="Ask."), r"Did you mean 'corpora'\? Ask\.$"),
        (lambda folder: find_file("corpora", how_to_get=""), "expected a file, found a folder"),
        (lambda folder: check_output(folder), r"--output .* is a folder: name a file"),
        (lambda folder: json_value("{", "a.jsonl:3"), r"a\.jsonl:3: expected JSON, found: .*column 2"),
        (lambda folder: json_value("[" * 100_000, "a.jsonl:3"), r"a\.jsonl:3: expected JSON"),
        (lambda folder: json_object(folder / "a.json", remedy="Again."), r"a\.json: expected a JSON object.* Again\.$"),
    ],
)
def test_what_is_refused(tmp_path, monkeypatch, use, message):
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path))
    (tmp_path / "corpora").mkdir()
    (tmp_path / "a.json").write_text("[1]")
    with pytest.raises(UserError, match=message):
        use(tmp_path)


def test_a_folder_that_can_not_be_written_in_is_named_before_the_work(tmp_path, monkeypatch):
    check_output(tmp_path / "made" / "texts.txt")
    assert not list((tmp_path / "made").iterdir())
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(PermissionError, match="/made'"):
        check_output(tmp_path / "made" / "texts.txt")
