"""Every command of the README is run: depgen's own on invented data, make's as dry runs."""

import importlib
import inspect
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from depgen.cli import main
from depgen.trees.conllu import read_conllu
from tests.evaluation.human.raters import fill
from tests.invented_data import write_corpora
from tests.invented_similarity import write_similarity

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) for line in block.splitlines() if line]
DEPGEN = [command for command in COMMANDS if command.startswith("depgen ")]
MAKE = [command for command in COMMANDS if command.startswith("make ")]


def test_every_command_is_depgens_or_makes():
    assert sorted(DEPGEN + MAKE) == sorted(COMMANDS)
    assert len(DEPGEN) > 8
    assert {"make demo", "make test", "make parser", "make reproduce-table2"} <= set(MAKE)


@pytest.mark.parametrize("command", MAKE)
def test_make_knows_the_target(command):
    made = subprocess.run([*shlex.split(command), "-n"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert made.stdout


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", README, re.DOTALL))
def test_classes_of_yaml_take_what_they_are_given(block):
    for part in yaml.safe_load(block).values():
        module, _, name = part["class_path"].rpartition(".")
        given = inspect.signature(getattr(importlib.import_module(module), name)).bind(**part.get("init_args", {}))
        assert given.arguments.keys() == part.get("init_args", {}).keys()


def write_texts(folder: Path) -> None:
    """What two rows of Table 2 would have written, and other texts to ask people about."""
    rows = folder / "results/dmlm_table2"
    for row, file in (("DM-Transformer", "dm.txt"), ("Transformer", "base.txt"), ("Human", "human.txt")):
        texts = "".join(f"{row.lower()} {line} .\n" for line in range(100))
        for path in (folder / file, rows / row / "small-seed1/texts.txt"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts)
        (rows / row / "small-seed1/prompts.txt").write_text("one day .\n" * 100)


def write_treebank(folder: Path) -> None:
    """A constituency treebank of one tree."""
    folder.mkdir(parents=True)
    tree = "( (S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT a) (NN cat))) (. .)) )"
    (folder / "wsj_0001.mrg").write_text(tree)


def shorten(experiments: Path) -> None:
    """Let every training end after two epochs, one a phase, and a parser's after four small steps."""
    for path in (*experiments.glob("*.yaml"), *experiments.glob("sizes/*/*.yaml")):
        text = re.sub(r"^( +\w+_modeling_epochs): \d+", r"\1: 1", path.read_text(), flags=re.MULTILINE)
        text = re.sub(
            r"^( +)steps: 3000$", r"\1steps: 4\n\1width: 32\n\1depth: 1\n\1min_action_freq: 1", text, flags=re.M
        )
        path.write_text(re.sub(r"^( +max_epochs): \d+", r"\1: 2", text, flags=re.MULTILINE))


def answer(questionnaire: Path) -> None:
    """Let all raters call everything a tie, but for one."""
    for sheet in (questionnaire / "raters").glob("*.csv"):
        verdict = "1" if sheet.stem == "rater-1" else "tie"
        given = {"grammaticality": verdict, "logicality": verdict}
        fill(
            sheet.read_text(encoding="utf-8-sig"), questionnaire / "answers" / sheet.name, lambda *_, given=given: given
        )


def test_depgens_commands_run_one_after_the_other(tmp_path, monkeypatch, capsys):
    write_corpora(tmp_path / "data")
    write_treebank(tmp_path / "data/wsj_sample/constituency")
    write_similarity(tmp_path / "data/sts")
    shutil.copytree(ROOT / "experiments", tmp_path / "experiments")
    shorten(tmp_path / "experiments")
    (tmp_path / "prompts.txt").write_text("[FEMALE] was tired .\none day\n")
    (tmp_path / "sentences.txt").write_text("Ada lost her keys, again.\nShe ran!\n")
    (tmp_path / "data/mine").mkdir()
    (tmp_path / "data/mine/test.txt").write_text(
        "ada lost her keys .\nshe ran .\nshe won .\n\nthe end .\nit rained .\n"
    )
    header = ",".join(f"sentence{number}" for number in range(1, 6))
    (tmp_path / "raw.csv").write_text(f"{header}\nAda lost her keys.,She ran.,She cried.,She won.,The end.\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEPGEN_DATA", "data")
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    for variable in ("DEPGEN_RUNS", "DEPGEN_RESULTS"):
        monkeypatch.delenv(variable, raising=False)
    write_texts(tmp_path)
    for command in DEPGEN:
        if command.startswith("depgen human-eval score"):
            answer(tmp_path / shlex.split(command)[3])
        assert main(shlex.split(command)[1:]) == 0, f"{command}\n{capsys.readouterr().err}"
    assert len(Path("endings.txt").read_text().splitlines()) == 2
    assert Path("attention.png").read_bytes().startswith(b"\x89PNG")
    assert "[FEMALE]" in Path("stories.csv").read_text()
    fitted = re.findall(r"^depgen fit --config experiments/(\w+)\.yaml(?: --size (\w+))?", README, re.MULTILINE)
    assert sorted(os.listdir("runs")) == sorted("_".join(filter(None, each)) for each in fitted)
    parsed = [document.sentences[0].words for document in read_conllu(Path("sentences.conllu"), by_document=False)]
    assert parsed == [("Ada", "lost", "her", "keys", ",", "again", "."), ("She", "ran", "!")]
    assert Path("trees.html").read_text().count("<figure>") == 2
    assert Path("gold-above-induced.svg").read_text().count("gold") >= 10
    assert Path("heat-map.png").read_bytes().startswith(b"\x89PNG")
    assert len(list(Path("runs/on_lstm_ptb_small").glob("*/bracketings/layer-*.txt"))) == 2
