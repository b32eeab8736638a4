from pathlib import Path

import pytest

from depgen.errors import UserError
from depgen.locations import (
    OTHER_RUNS,
    below_runs,
    cache_root,
    check_output,
    check_writable,
    data_root,
    file_sha256,
    find_data,
    find_file,
    folder_written_whole,
    json_object,
    locked,
    made_once,
    matching,
    results_root,
    runs_root,
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


def test_the_variable_is_named_where_it_matters(monkeypatch, tmp_path):
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path))
    with pytest.raises(UserError, match=r"Ask the author\. Set DEPGEN_DATA"):
        find_data("corpus", how_to_get="Ask the author.")
    with pytest.raises(UserError) as error:
        find_data(tmp_path / "corpus", how_to_get="Ask the author.")
    assert str(error.value) == f"No corpus at {tmp_path / 'corpus'}. Ask the author."


def test_a_folder_is_no_file(tmp_path):
    assert find_data(tmp_path, how_to_get="") == tmp_path
    with pytest.raises(UserError, match="expected a file, found a folder"):
        find_file(tmp_path, how_to_get="")


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


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "cache").write_text("in the way")
    with (
        pytest.raises(UserError, match=r"cache can't be written \(.*set DEPGEN_CACHE"),
        locked(tmp_path / "cache" / "a"),
    ):
        pass
    with pytest.raises(FileNotFoundError), locked(tmp_path / "new" / "b"):
        (tmp_path / "none").read_text()  # what happens under the lock keeps its own name
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["b.lock"]


def test_without_a_home_folder_the_variable_is_named(monkeypatch):
    def homeless(path):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    monkeypatch.delenv("DEPGEN_CACHE", raising=False)
    with pytest.raises(UserError, match="set DEPGEN_CACHE"):
        cache_root()


def test_patterns_name_files_below_a_folder(tmp_path):
    for name in ("b.mrg", "a.mrg", "c.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "d.mrg").mkdir()
    assert [path.name for path in matching(tmp_path, "*.mrg")] == ["a.mrg", "b.mrg"]
    for pattern in ("", str(tmp_path / "*.mrg")):
        with pytest.raises(UserError, match="pattern of files below"):
            matching(tmp_path, pattern)


def test_an_unwritable_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match=r"/file/runs can't be written .*DEPGEN_RUNS"):
        check_writable(tmp_path / "file" / "runs", otherwise=OTHER_RUNS)
    check_writable(tmp_path / "runs", otherwise=OTHER_RUNS)
    assert not list((tmp_path / "runs").iterdir())


def test_an_output_is_a_file_in_a_folder_that_can_be_written(tmp_path):
    with pytest.raises(UserError, match=r"--output .* is a folder: name a file"):
        check_output(tmp_path)
    check_output(tmp_path / "made" / "texts.txt")
    assert not list((tmp_path / "made").iterdir())
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match=r"/file can't be written .*--output"):
        check_output(tmp_path / "file" / "texts.txt")


@pytest.mark.parametrize(("answers", "made"), [([False, False], True), ([True], False), ([False, True], False)])
def test_what_another_process_has_made_is_not_made_again(tmp_path, answers, made):
    calls = []
    assert made_once(tmp_path / "a", lambda: calls.append("made"), is_made=lambda: answers.pop(0)) == made
    assert (bool(calls), answers) == (made, [])


@pytest.mark.parametrize(
    ("content", "message"), [("{", "expected JSON, found"), ("[1]", "expected a JSON object, found a")]
)
def test_a_file_of_the_cache_that_does_not_read_is_named(tmp_path, content, message):
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(UserError, match=rf"a\.json: {message}.* Make it again\.$"):
        json_object(path, remedy="Make it again.")
