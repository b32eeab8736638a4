"""The dispatcher: verbs, help, exit codes."""

import inspect
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import docstring_parser
import pytest

from depgen import cli
from depgen.cli import OTHER_WORDS, main, usage
from depgen.cli.requests import Request
from depgen.cli.verb_functions import _target, parser_of, run_function
from depgen.cli.verbs import GROUPS, TRAINING_VERBS, VERBS, Verb
from depgen.data.vocabulary import VocabularyBuilder
from depgen.errors import UserError


def test_help_imports_nothing_heavy():
    script = (
        "import sys; from depgen.cli import main; code = main(['--help']); "
        "heavy = {'torch', 'lightning', 'jsonargparse', 'numpy', 'spacy', 'yaml'} & set(sys.modules); "
        "sys.exit(f'{code} {sorted(heavy)}')"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.stderr.strip() == "0 []"
    assert "evaluate-text" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["score", "a.txt", "--output", "a.txt"], "--output a.txt would overwrite the file that is read"),
        (["parse", "--input=a.txt", "--output", "./a.txt"], "--output a.txt would overwrite the file that is read"),
        (["generate", "--prompts", "a.txt", "--output=link.txt"], "--output link.txt would overwrite the file"),
        (["minimal-pairs", "a.txt", "--item-output", "a.txt"], "--item-output a.txt would overwrite the file"),
        (["score", "a.txt", "b" * 300, "--output", "a.txt"], "--output a.txt would overwrite the file that is read"),
        (["minimal-pairs", "a.txt", "--output", "b", "--item_output", "b"], "expected another file for each output"),
        (["test", "--run="], "--run: expected a name, found an empty one"),
        (["fit", "--resume", ""], "--resume: expected a name, found an empty one"),
    ],
)
def test_slips_that_destroy_a_file_or_take_another_run_are_refused(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("a b\n")
    Path("link.txt").symlink_to("a.txt")
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
    assert Path("a.txt").read_text() == "a b\n"


@pytest.mark.parametrize("option", ["--run", "--size"])
def test_an_option_that_decides_on_the_run_is_given_once(option, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path))
    with pytest.raises(UserError, match=f"^{option}: expected once, found several times"):
        Request.of("test", [option, "one", f"{option}=two"])


def test_every_verb_has_a_line_of_help():
    lines = usage().splitlines()
    for verb in (*TRAINING_VERBS, *VERBS):
        assert any(line.startswith(f"  {verb}  ") and len(line.split()) > 3 for line in lines)
        assert sum(verb in group for group in GROUPS.values()) == 1
    assert max(map(len, lines)) <= 120


def test_help_of_a_verb_may_be_asked_for_by_name(monkeypatch, capsys):
    monkeypatch.setitem(cli.VERBS, "show", VERB)
    assert main(["help", "show"]) == main(["show", "--help"]) == 0
    asked, same = capsys.readouterr().out.split("usage: ")[1:]
    assert asked == same
    assert main(["help"]) == 0
    assert capsys.readouterr().out == usage() + "\n"


@pytest.mark.parametrize("name", ["data-statistics", "table", "reproduce"])
def test_every_option_of_a_verb_is_explained(name):
    function = _target(VERBS[name].target)
    explained = {each.arg_name for each in docstring_parser.parse(inspect.getdoc(function)).params if each.description}
    assert explained == set(inspect.signature(function).parameters)


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_the_targets_of_verbs_are_well_formed(verb):
    module, _, function = verb.target.partition(":")
    assert module.startswith("depgen.")
    assert function.isidentifier()


def test_an_unknown_verb_suggests_the_nearest(capsys):
    assert main(["tets"]) == 2
    assert "There is no verb 'tets'. Did you mean 'test'? `depgen --help`" in capsys.readouterr().err
    for arguments in (["traning"], ["help", "traning"]):
        assert main(arguments) == 2
        meant = "Did you mean 'fit', 'train-union' or 'train-oracle'?"
        assert meant in capsys.readouterr().err
    assert {verb for verbs in OTHER_WORDS.values() for verb in verbs} <= {*TRAINING_VERBS, *VERBS}
    assert main(["qqq"]) == 2
    assert "There is no verb 'qqq'. `depgen --help` lists all." in capsys.readouterr().err


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


@pytest.mark.parametrize(
    "again",
    [["--count", "1", "--count", "2"], ["--count=1", "-k", "2"], ["--ratio", "0.5", "--ratio=0.5"], ["--json"] * 2],
)
def test_an_option_that_is_given_twice_is_refused(again):
    with pytest.raises(UserError, match=r"^--\w+.*: expected once, found several times: leave out all but one"):
        run_function("show", VERB._replace(also={"count": "k"}), ["a.txt", "--corpus", "c", *again])


@pytest.mark.parametrize("verb", ["annotate", "train-union"])
def test_a_bare_overwrite_is_understood_as_messages_advise(verb, capsys):
    assert main([verb, "--overwrite", "--print_config"]) == 0
    assert "overwrite: true" in capsys.readouterr().out


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
    for apart in (["--sizes", "[2, 3]"], ["--sizes=[2,3]"], ["--sizes", "2", "[3]"]):
        shown = run_function("show", verb, ["[a]", "--names", "[b]", "c [d]", *apart])
        assert shown == repr((["b", "c [d]"], [Path("[a]")], [2, 3]))
    for seeds in (["1", "2"], ["[1,2]"]):
        assert run_function("show", verb, ["a", "--names", "b", "--seeds", *seeds]).endswith("[1])[1, 2]")
    with pytest.raises(
        UserError, match=r"^--names: expected once, found several times: put all values after one --names"
    ):
        run_function("show", verb, ["a", "--names", "b", "--names", "c"])
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


def show_dataclass(file: str, *, json: bool = False, shown: Shown = Shown()) -> str:
    """Shows what it is given.

    Args:
        file: a file.
        json: as JSON.
        shown: what.
    """
    return repr((file, json, shown))


def test_the_fields_of_a_dataclass_are_options_of_a_verb():
    verb = Verb("show", f"{__name__}:show_dataclass", positionals=("file",), spread=("shown",))
    assert run_function("show", verb, ["a"]) == "('a', False, Shown(sizes=[1], loud=False, ratio=None))"
    given = ["a", "--sizes", "[2, 3]", "--loud", "--json", "--ratio", "0.5"]
    assert run_function("show", verb, given) == "('a', True, Shown(sizes=[2, 3], loud=True, ratio=0.5))"
    lines = parser_of("show", verb).format_help().splitlines()
    assert any("--ratio" in line and "a ratio" in line for line in lines)
    for wrong in (["--ratio", "1", "--ratio", "2"], ["--shown", "x"], ["--loud", "--loud"]):
        with pytest.raises(UserError):
            run_function("show", verb, ["a", *wrong])


@pytest.mark.parametrize(("verb", "count"), [(name, count) for name, verb in VERBS.items() for count in verb.counts])
def test_a_count_is_at_least_one(verb, count, capsys):
    for number in ("0", "-1", "1.5"):
        assert main([*verb.split(), f"--{count}", number]) == 2
        assert f'"{count}":' in capsys.readouterr().err


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


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
@pytest.mark.parametrize("verb", ["show", "fit"])
def test_a_yaml_in_another_encoding_is_named(monkeypatch, tmp_path, capsys, verb, encoding):
    monkeypatch.setitem(cli.VERBS, "show", VERB)
    path = tmp_path / "x.yaml"
    path.write_bytes("corpus: café\n".encode(encoding))
    for given in (["--config", str(path)], [f"--config={path}"]):
        assert main([verb, *given]) == 2
        assert f"{path}: expected UTF-8, found " in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "- a\n", "# nothing\n"])
@pytest.mark.parametrize("verb", ["show", "fit"])
def test_a_yaml_without_settings_is_named(monkeypatch, tmp_path, capsys, verb, content):
    monkeypatch.setitem(cli.VERBS, "show", VERB)
    path = tmp_path / "x.yaml"
    path.write_text(content)
    for given in (["--config", str(path)], [f"--config={path}"]):
        assert main([verb, *given]) == 2
        assert f"{path}: expected settings in YAML, each a `name: value`, found none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "--corpus", "c", "--cuont", "3"], "--cuont 3. Did you mean '--count'?"),
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


def test_a_missing_option_is_named_with_its_dashes(capsys):
    assert main(["dependent-loss", "--size", "small"]) == 2
    assert "required: --config\n" in capsys.readouterr().err


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


def test_a_place_that_cannot_be_written_ends_in_a_message(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DEPGEN_RESULTS", str(tmp_path))
    (tmp_path / "file").write_text("in the way")
    assert main(["table", "demo", "--size", "paper", "--output", str(tmp_path / "file" / "table.md")]) == 2
    said = capsys.readouterr().err
    assert "Choose another place" in said
    assert "Traceback" not in said
