"""The dispatcher: verbs, help, exit codes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonargparse.typing import PositiveInt

from depgen import cli
from depgen.cli import main
from depgen.cli.verb_functions import run_function
from depgen.cli.verbs import Verb
from depgen.data.vocabulary import VocabularyBuilder
from depgen.errors import UserError


def test_nothing_asked_is_answered_by_the_usage(capsys):
    assert main([]) == 2
    assert "usage: depgen" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("depgen ")


def show(file: str, corpus: str, count: int = 3, json: bool = False, ratio: float | None = None) -> str:
    """Shows what it is given.

    Args:
        file: a file.
        corpus: a corpus.
        count: how many.
        json: as JSON.
        ratio: a ratio.
    """
    if count < 0:
        raise UserError("count is -1; it must not be negative.")
    return repr((file, corpus, count, json, ratio))


VERB = Verb("show", f"{__name__}:show", positionals=("file",))


def test_a_verb_is_parsed_by_its_functions_signature():
    assert run_function("show", VERB, ["a.txt", "--corpus", "c"]) == "('a.txt', 'c', 3, False, None)"
    arguments = ["--json", "a.txt", "--corpus=c", "--count", "5", "--ratio", "0.5"]
    assert run_function("show", VERB, arguments) == "('a.txt', 'c', 5, True, 0.5)"


def show_lists(
    *, names: Sequence[str], files: list[Path], sizes: Sequence[int] = (1,), seeds: Sequence[int] | None = None
) -> str:
    """Shows what it is given.

    Args:
        names: some names.
        files: some files.
        sizes: some sizes.
        seeds: some seeds.
    """
    return repr((names, files, sizes)) + ("" if seeds is None else repr(seeds))


def test_a_verb_takes_lists_of_values():
    verb = Verb("show", f"{__name__}:show_lists", positionals=("files",))
    shown = run_function("show", verb, ["a.txt", "b.txt", "--names", "A=x, y", "--sizes", "2", "3"])
    assert shown == repr((["A=x, y"], [Path("a.txt"), Path("b.txt")], [2, 3]))
    assert run_function("show", verb, ["a", "--names", "b"]) == repr((["b"], [Path("a")], [1]))
    for arguments in (["a"], ["--names", "b"], ["a", "--names"], ["a", "--names", "b", "--sizes", "c"]):
        with pytest.raises(UserError):
            run_function("show", verb, arguments)


@dataclass(frozen=True)
class Shown:
    """What is shown.

    Attributes:
        sizes: some sizes.
        loud: loudly.
        ratio: a ratio.
    """

    sizes: Sequence[int] = (1,)
    loud: bool = False
    ratio: float | None = None


@dataclass(frozen=True)
class ShownDeep(Shown):
    """What else is shown.

    Attributes:
        depth: how deep.
    """

    depth: PositiveInt = 2


def show_options(file: str, *, json: bool = False, **options: Any) -> str:
    """Shows what it is given.

    Args:
        file: a file.
        json: as JSON.
        options: others.
    """
    return repr((file, json, options))


def options_of(arguments):
    return [Shown, ShownDeep]


def test_the_fields_of_a_dataclass_are_options_of_a_verb():
    verb = Verb("show", f"{__name__}:show_options", positionals=("file",), options=f"{__name__}:options_of")
    shown = {"sizes": [1], "loud": False, "ratio": None, "depth": 2}
    assert run_function("show", verb, ["a"]) == repr(("a", False, shown))
    given = ["a", "--sizes", "2", "3", "--loud", "--json", "--ratio", "0.5", "--depth", "4"]
    assert run_function("show", verb, given) == repr(
        ("a", True, {**shown, "sizes": [2, 3], "loud": True, "ratio": 0.5, "depth": 4})
    )
    for wrong in (["--shown", "x"], ["--depth", "0"], ["--dep", "1"]):
        with pytest.raises(UserError):
            run_function("show", verb, ["a", *wrong])


def show_vocabulary(*, vocabulary: VocabularyBuilder | None = None) -> str:
    return str(vocabulary)


def test_what_a_class_refuses_is_said_in_its_own_words():
    verb = Verb("show", f"{__name__}:show_vocabulary")
    with pytest.raises(UserError, match=r"^max_size: expected at least 3"):
        run_function("show", verb, ["--vocabulary=depgen.data.vocabulary.WordVocabulary", "--vocabulary.max_size=1"])


def show_items(*, items: int = 3) -> str:
    return str(items)


def test_no_value_is_lost_under_a_name_that_jsonargparse_keeps_for_itself():
    with pytest.raises(AssertionError, match="jsonargparse keeps such names"):
        run_function("show", Verb("show", f"{__name__}:show_items"), ["--items", "5"])


def test_a_verb_may_have_two_words(monkeypatch, capsys):
    monkeypatch.setitem(cli.VERBS, "show files", VERB)
    assert main(["show", "files", "a", "--corpus", "c"]) == 0
    assert capsys.readouterr().out == "('a', 'c', 3, False, None)\n"
    for arguments in (["show"], ["show", "flies"], ["show", "--help"]):
        assert main(arguments) == 2
        assert "Expected one of `show files`" in capsys.readouterr().err


def test_a_verb_takes_a_yaml(tmp_path):
    (tmp_path / "x.yaml").write_text("corpus: c\ncount: 7\n")
    assert run_function("show", VERB, ["a", "--config", str(tmp_path / "x.yaml")]) == "('a', 'c', 7, False, None)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "--corpus", "c", "--cuont", "3"], "--cuont 3"),
        (["a", "--corpus", "c", "--qqq"], "unrecognized arguments: --qqq\n"),
        (["a", "--corpus", "c", "--coun", "3"], "--coun"),
        (["a", "--corpus", "c", "--count", "x"], "count"),
        (["a"], "corpus"),
        (["a", "--corpus", "c", "--count", "-1"], "must not be negative"),
    ],
)
def test_a_verbs_mistakes_exit_with_2_and_name_the_option(monkeypatch, capsys, arguments, message):
    monkeypatch.setitem(cli.VERBS, "show", VERB)
    assert main(["show", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert len(error.splitlines()) < 6


def test_traceback_shows_where_a_mistake_was_seen(monkeypatch, capsys):
    monkeypatch.setitem(cli.VERBS, "show", VERB)
    assert main(["show", "a", "--corpus", "c", "--count", "-1", "--traceback"]) == 2
    assert "in show" in capsys.readouterr().err


def test_an_error_of_ours_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr("depgen.cli.verb_functions.run_function", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["annotate"])


def test_ctrl_c_exits_with_130(monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("depgen.cli.verb_functions.run_function", stop)
    assert main(["annotate"]) == 130
