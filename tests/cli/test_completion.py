"""The script that completes verbs and options."""

import contextlib
import subprocess
import sys

import pytest

from depgen.cli import main
from depgen.cli.verbs import TRAINING_VERBS, VERBS


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "depgen.bash"
    with path.open("w") as stream, contextlib.redirect_stdout(stream):
        assert main(["completion"]) == 0
    return path


def completed(script, line):
    """What bash offers after a line."""
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    code = (
        f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
        'eval "$(complete -p depgen | sed -E "s/.* -F ([^ ]+).*/\\1/")" depgen "${COMP_WORDS[-1]}" x; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_bash_completes_verbs_options_and_choices(script):
    assert {"fit", "score", "human-eval", "push"} <= completed(script, "depgen ")
    assert completed(script, "depgen evalua") == {"evaluate"}
    assert "--config" in completed(script, "depgen fit --c")
    assert "--trainer.max_epochs" in completed(script, "depgen fit --trainer.max_e")
    assert completed(script, "depgen score --unit ") == {"nats", "bits"}
    assert {"export", "score"} <= completed(script, "depgen human-eval ")


def test_every_verb_and_its_options_are_there(script):
    names = {name.partition(" ")[0] for name in (*TRAINING_VERBS, *VERBS)}
    assert {name for name in completed(script, "depgen ") if not name.startswith("-")} == names
    assert {"--config", "--resume", "--model", "--data"} <= completed(script, "depgen fit --")
    assert "--trainer.logger" not in completed(script, "depgen fit --trainer.l"), "what the help hides stays hidden"
    assert "--to" in completed(script, "depgen push --")


def test_without_shtab_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion"]) == 2
    assert "depgen[completion]" in capsys.readouterr().err
