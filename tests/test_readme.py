"""Every command of the README and of the guides is run: depgen's own on invented data, make's as dry runs."""

import csv
import importlib
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
import yaml

import depgen
from depgen.cli import main
from depgen.data.batch import ItemBatch, TokenItem
from depgen.data.generated import GeneratedLanguage
from depgen.data.vocabulary import WordVocabulary
from depgen.evaluation.minimal_pairs import read_pairs
from depgen.reporting.table import load_definition
from depgen.trees.conllu import read_conllu
from tests.fixtures.kinds import named
from tests.invented_data import write_corpora
from tests.invented_models import write_bert
from tests.invented_similarity import write_similarity
from tests.invented_syntax import write_syntax
from tests.reporting.raters import answer

ROOT = Path(__file__).parent.parent
GUIDES = (
    "data", "training", "text", "scoring", "syntax", "trees", "graphs", "expansion", "documents", "coherence",
    "people", "tables", "speed", "findings", "new_system",
)  # fmt: skip
PAGES = {
    "README": (ROOT / "README.md").read_text(encoding="utf-8"),
    **{name: (ROOT / f"experiments/guides/{name}.md").read_text(encoding="utf-8") for name in GUIDES},
}
MEASURED = {"measured results": "README", "unrecorded numbers": "unrecorded"}
PROSE = PAGES | {
    name: (ROOT / f"experiments/measured/{file}.md").read_text(encoding="utf-8") for name, file in MEASURED.items()
}


def blocks(language, *pages):
    """The blocks of code in a language, of some pages or of all."""
    texts = (PAGES[page] for page in pages or PAGES)
    return [block for text in texts for block in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)]


def commands(*pages):
    return [line for block in blocks("sh", *pages) for line in block.splitlines() if line]


def block(language, page, start):
    """The one block of a page that has a line of this beginning."""
    (found,) = (each for each in blocks(language, page) if re.search(rf"^{re.escape(start)}", each, re.MULTILINE))
    return found


MAKE = [command for command in commands() if command.startswith("make ")]
MINE = block("yaml", "README", "trainer:")
TABLE = "mine_table.yaml"
WARM_UP = "model.init_args.scheduler.init_args.warmup_steps"
STRUCTFORMER = "model:\n  class_path: depgen.models.structformer"


def test_every_guide_is_tested_and_linked():
    assert sorted(GUIDES) == sorted(path.stem for path in (ROOT / "experiments/guides").glob("*.md"))
    assert all(f"(experiments/guides/{name}.md)" in PAGES["README"] for name in GUIDES)


def test_every_command_is_depgens_or_makes():
    assert {command.split()[0] for command in commands()} == {"depgen", "make", "echo"}
    assert {"make demo", "make reproduce-table2"} <= set(MAKE)
    assert all("```sh" in text for name, text in PAGES.items() if name not in ("speed", "findings"))


@pytest.mark.parametrize("command", dict.fromkeys(MAKE))
def test_make_knows_the_target(command):
    made = subprocess.run([*shlex.split(command), "-n"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert made.stdout


@pytest.mark.parametrize("page", PROSE)
def test_links_lead_to_files_and_headings(page):
    folder = ROOT / ("" if page == "README" else "experiments/guides" if page in PAGES else "experiments/measured")
    for link in re.findall(r"\]\(([^)]+)\)", PROSE[page]):
        path, _, heading = link.partition("#")
        target = folder / path
        assert target.exists(), link
        headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE) if heading else []
        assert not heading or heading in [each.lower().replace(" ", "-").replace(",", "") for each in headings], link


@pytest.mark.parametrize("page", PROSE)
def test_sentences_are_short(page):
    assert PAGES["README"].count("\n") <= 200
    prose = re.sub(r"```.*?```", "", PROSE[page], flags=re.DOTALL)
    lines = ["" if line.startswith(("|", "#")) else re.sub(r"^\s*- ", "\n\n", line) for line in prose.splitlines()]
    for sentence in re.split(r"(?<=[.:?!;])\s|\n\s*\n", "\n".join(lines)):
        words = [word for word in re.sub(r"`[^`]*`", "code", sentence).split() if re.search(r"\w", word)]
        assert len(words) <= 25, sentence
    banned = r"stands?|goes on|gone on|anew|behind|beside|of its own|so many|made of|asked|told"
    assert not re.search(rf"\b({banned})\b", prose)


def write_texts(folder: Path) -> None:
    """Texts to ask people about."""
    for name in ("dm", "base", "human", "beginnings"):
        (folder / f"{name}.txt").write_text("".join(f"{name} {line} .\n" for line in range(100)))


def write_treebank(folder: Path) -> None:
    """A constituency treebank of one tree, in files for training, validation and test."""
    folder.mkdir(parents=True)
    tree = "( (S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT a) (NN cat))) (. .)) )"
    for number in (1, 101, 161, 181):
        (folder / f"wsj_{number:04}.mrg").write_text(tree)


def write_own(folder: Path) -> None:
    """The user's own text, documents and raw stories, and the configurations of the pages."""
    mine = folder / "data/mine"
    mine.mkdir()
    lines = "Ada lost her keys. “Don't run!” she said.\nShe ran 👍🏽.\nShe won...\n\nThe end.\nIt rained in the U.S.\n"
    (mine / "test.txt").write_text(lines)
    for split, word in (("train", "often"), ("valid", "again")):
        (mine / f"{split}.txt").write_text(lines.replace("\n\n", "\n").replace(".\n", f" {word}.\n") * 4)
    (folder / "my_pairs.tsv").write_text("good\tbad\nAda was late.\tAda were late.\n")
    (folder / "sentences.txt").write_text("Ada lost her keys, again.\nShe ran!\n")
    rows = (
        "1 Ada _ NNP - - _ ARG1",
        "2 ran _ VBD + + _ _",
        "3 , _ , - - _ _",
        "4 again _ RB - - _ loc",
        "5 . _ . - - _ _",
    )
    (folder / "gold.sdp").write_text(
        "\n".join(["#SDP 2015", "#20001001", *("\t".join(row.split()) for row in rows), "\n"])
    )
    for split in ("train", "dev", "test"):
        shutil.copy(folder / f"data/ud_english_ewt/en_ewt-ud-{split}.conllu", mine / f"{split}.conllu")
    (folder / "treebank.yaml").write_text(block("yaml", "README", "base: [mine.yaml]"))
    (folder / "baseline.yaml").write_text(block("yaml", "README", "base: [treebank.yaml]"))
    (folder / "head_word_lm.py").write_text(block("python", "new_system", "class HeadWordLM"))
    heads = block("yaml", "new_system", "trainer:").replace("max_epochs: 8", "max_epochs: 1")
    (folder / "heads.yaml").write_text(
        heads.replace("GeneratedLanguage}", "GeneratedLanguage, init_args: {train: 40}}")
    )
    (folder / "gru.py").write_text(block("python", "new_system", "class GRU"))
    (folder / "gru.yaml").write_text(block("yaml", "new_system", "base: heads.yaml"))
    (folder / "mine.yaml").write_text(
        MINE.replace("max_epochs: 10", "max_epochs: 2").replace("en_core_web_sm", "ewt_lowercased")
    )


def shorten(experiments: Path) -> None:
    """Let every training end after two epochs, one a phase, of a narrow network; a parser's after four small steps."""
    for path in experiments.rglob("*.yaml"):
        text = re.sub(
            r"^( +)steps: 3000$",
            r"\1steps: 4\n\1width: 32\n\1depth: 1\n\1min_action_freq: 1",
            path.read_text(),
            flags=re.MULTILINE,
        )
        text = re.sub(r"^( +)(steps|evaluate_every): [0-9]+0$", r"\1\2: 4", text, flags=re.MULTILINE)
        text = re.sub(r"^( +)(train|valid|test): 2000?$", r"\1\2: 8", text, flags=re.MULTILINE)
        text = re.sub(r"^( +)(width|feedforward): (128|256|512|1024)$", r"\1\2: 32", text, flags=re.MULTILINE)
        text = text.replace("precision: bf16-mixed", "precision: 32-true")  # quicker on many CPUs
        path.write_text(re.sub(r"^( +max_epochs): \d+", r"\1: 2", text, flags=re.MULTILINE))


def verdict(rater: str, row: Mapping[str, str]) -> dict[str, str]:
    """A tie, for all raters but one."""
    return dict.fromkeys(("grammaticality", "logicality"), "1" if rater == "rater-1" else "tie")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with experiments, corpora and files as a user would have them."""
    write_corpora(tmp_path / "data")
    write_treebank(tmp_path / "data/wsj_sample/constituency")
    write_similarity(tmp_path / "data/sts")
    write_syntax(tmp_path / "data")
    shutil.copytree(ROOT / "experiments", tmp_path / "experiments")
    shorten(tmp_path / "experiments")
    write_own(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEPGEN_DATA", "data")
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    for variable in ("DEPGEN_RUNS", "DEPGEN_RESULTS"):
        monkeypatch.delenv(variable, raising=False)
    write_texts(tmp_path)
    write_bert(tmp_path / "minilm", ["the", "dog"], length=256)
    return tmp_path


def run(command: str, capsys) -> None:
    """Run one command of a page."""
    if command.startswith("echo "):
        subprocess.run(command, shell=True, check=True)
    elif command == "make demo":
        for name in ("transformer_controlled", "dmlm_controlled"):
            assert main(["fit", "--config", f"experiments/{name}.yaml", f"--{WARM_UP}=0"]) == 0
    elif command.startswith("depgen "):
        if command.startswith("depgen human-eval score"):
            answer(Path(shlex.split(command)[3]), verdict)
        assert main(shlex.split(command)[1:]) == 0, f"{command}\n{capsys.readouterr().err}"


@pytest.mark.slow
def test_depgens_commands_run_one_after_the_other(place, capsys):
    first = [command for command in commands("data") if command.startswith("depgen")]  # parsers
    for command in [*first, *commands("README")]:
        run(command, capsys)
    exec(block("python", "README", "import depgen"), {})
    assert "surprisal" in capsys.readouterr().out
    assert not {"mine", "treebank", "baseline", "dmlm_controlled"} - {*os.listdir("runs")}
    for command in dict.fromkeys(commands(*GUIDES[1:])):
        if TABLE not in command and command not in commands("README"):
            run(command, capsys)
    assert Path("attention.png").read_bytes().startswith(b"\x89PNG")
    parsed = [document.sentences[0].words for document in read_conllu(Path("sentences.conllu"), by_document=False)]
    assert parsed == [("Ada", "lost", "her", "keys", ",", "again", "."), ("She", "ran", "!")]
    assert Path("trees.html").read_text().count('class="displacy"') == 2
    assert Path("gold-above-induced.svg").read_text().count("gold") >= 10
    assert Path("heat-map.png").read_bytes().startswith(b"\x89PNG")
    assert len(list(Path("runs/on_lstm_ptb").glob("**/bracketings/layer-*.txt"))) == 2


def settings_of_mine(model: dict[str, Any]) -> dict[str, Any]:
    """The README's configuration with another model, on generated stories with gold trees."""
    settings = yaml.safe_load(MINE)
    settings["trainer"] = {"max_epochs": 2, "accelerator": "cpu"}
    settings["model"] = {**model, "init_args": {**model.get("init_args", {}), **settings["model"]["init_args"]}}
    stories = named("data.generated.GeneratedLanguage", train=6, valid=2, test=2, sentences=[5, 5])
    settings["data"]["init_args"] |= {
        "corpus": stories,
        "annotator": {"class_path": "depgen.annotation.controls.GoldTrees"},
    }
    return settings


@pytest.mark.slow
def test_the_system_of_the_guide_trains_tests_and_scores(place, monkeypatch, capsys):
    assert (place / "head_word_lm.py").read_text().count("\n") <= 48
    monkeypatch.syspath_prepend(place)
    system = importlib.import_module("head_word_lm")
    items = [TokenItem(0, np.array([7, 8, 9]), heads=np.array([2, 0, 2])), TokenItem(1, np.array([5]))]
    vocabulary = WordVocabulary(min_count=1).build([])
    batch = system.collate_heads(ItemBatch(items, 6, vocabulary))
    eos = vocabulary.eos
    assert batch.head_words.tolist() == [[eos, 8, eos, 8], [eos, eos, eos, eos]]
    monkeypatch.delitem(sys.modules, "head_word_lm")
    Path("prompts.txt").write_text("the king sleeps .\n")
    for command in commands("new_system"):
        run(command, capsys)
    assert "exact" in capsys.readouterr().out
    exec(block("python", "new_system", "from depgen.testing import"), {})
    assert f"below {math.exp(GeneratedLanguage().floor()):.2f}, its floor" in PAGES["new_system"]


@pytest.mark.parametrize("page", ["documents", pytest.param("trees", marks=pytest.mark.slow), "expansion"])
def test_the_configuration_of_own_data_trains(place, capsys, page):
    for split in ("train", "dev", "test"):
        shutil.copy(f"data/ud_english_ewt/en_ewt-ud-{split}.conllu", f"data/mine/{split}.conllu")
    text, sizes = re.subn(r"(size|width|feedforward): (128|256|1024)\b", r"\1: 16", block("yaml", page, "trainer:"))
    text, lengths = re.subn(r"epochs: 2\d", "epochs: 1", text)
    assert (sizes >= 1, lengths) == (True, 1)
    Path("own.yaml").write_text(text)
    assert main(["fit", "--config", "own.yaml", "--trainer.accelerator", "cpu"]) == 0, capsys.readouterr().err
    if page == "trees":
        Path("other.yaml").write_text(f"base: own.yaml\n{block('yaml', page, STRUCTFORMER).replace('512', '16')}")
        assert main(["fit", "--config", "other.yaml", "--trainer.accelerator", "cpu"]) == 0, capsys.readouterr().err
        Path("own_treebank.yaml").write_text(
            block("yaml", page, "corpus:\n  class_path: depgen.data.corpora.ConlluTreebank\n  init_args:\n")
        )
        command = ["evaluate", "parsing", "--config", "own_treebank.yaml", "--run", "own"]
        assert main(command) == 0, capsys.readouterr().err
        assert "next word" in capsys.readouterr().out


def test_a_folder_of_any_text_files_is_drawn_into_splits_as_the_guide_says(place, capsys):
    """Its test split, and the same lines as new text, have the same perplexity."""
    folder, settings = Path("data/any"), yaml.safe_load(MINE)
    folder.mkdir()
    lines = [f"“{name} didn't run,” Mr. Lee said. She won {n} cups! Where?" for n, name in enumerate("ABCDEFGHIJKL")]
    (folder / "a.txt").write_bytes("\r\n\r\n".join(lines[:5]).encode())
    (folder / "b c.txt").write_text("\n".join(["", *lines[5:], ""]), encoding="utf-8")
    options = re.search(r'`(train: "\*\.txt")` and `(draw: {valid: 50, test: 50})`', PAGES["data"])
    corpus = settings["data"]["init_args"]["corpus"]["init_args"] = {"folder": "any"}
    corpus |= yaml.safe_load("\n".join(options.groups()).replace("50", "3"))
    del settings["data"]["init_args"]["annotator"]
    settings["trainer"] = {"max_epochs": 1, "accelerator": "cpu"}
    settings["model"]["class_path"] = "depgen.models.causal_lm.CausalLM"
    Path("any.yaml").write_text(yaml.safe_dump(settings))
    assert main(["fit", "--config", "any.yaml"]) == 0, capsys.readouterr().err
    (run,) = Path("runs/any").iterdir()
    splits = json.loads((run / "splits.json").read_text())
    assert {split: len(names) for split, names in splits.items()} == {"train": 6, "valid": 3, "test": 3}
    places = {f"a.txt:{2 * n + 1}": line for n, line in enumerate(lines[:5])}
    places |= {f"b c.txt:{n}": line for n, line in enumerate(lines[5:], start=2)}
    assert sorted(name for names in splits.values() for name in names) == sorted(places)
    Path("new.txt").write_text("\n".join(places[name] for name in splits["test"]), encoding="utf-8")
    assert main(["test", "--run", "any"]) == 0, capsys.readouterr().err
    (measured,) = (json.loads(path.read_text()) for path in run.glob("**/test.json"))
    (row,) = depgen.load("any", device="cpu").score(Path("new.txt").read_text(), by="all").to_dict("records")
    assert row["token_perplexity"] == pytest.approx(measured["metrics"]["test/perplexity"], rel=1e-5)
    assert row["perplexity"] == pytest.approx(measured["metrics"]["test/word_perplexity"], rel=1e-5)


@pytest.mark.slow
def test_a_parser_and_gilt_learn_from_own_trees_and_graphs(place, capsys):
    for split in ("train", "dev", "test"):
        shutil.copy(f"data/ud_english_ewt/en_ewt-ud-{split}.conllu", f"data/mine/{split}.conllu")
        shutil.copy("gold.sdp", f"data/mine/{split}.sdp")
    parser, steps = re.subn("steps: 3000", "steps: 4", block("yaml", "trees", "name: mine"))
    Path("own_parser.yaml").write_text(parser)
    graphs, sizes = re.subn(r"(width|feedforward|epochs): \d+", r"\1: 16", block("yaml", "graphs", "trainer:"))
    Path("own_graphs.yaml").write_text(graphs)
    assert (steps, sizes) == (1, 3)
    for command in (
        "annotate --train own_parser.yaml",
        "parse --input sentences.txt --parser mine --output parsed.conllu",
        "fit --config own_graphs.yaml --trainer.accelerator cpu",
        "parse --input gold.sdp --run own_graphs --output own.sdp",
        "evaluate attachment --gold gold.sdp --predicted own.sdp",
    ):
        assert main(command.split()) == 0, capsys.readouterr().err
    assert Path("parsed.conllu").read_text().count("# sent_id") == 2


def test_a_long_table_becomes_pairs_as_the_guide_says(place):
    rows = [(7, "bad", "Ada were late."), (7, "good", "Ada was late."), (9, "good", "We are."), (9, "bad", "We is.")]
    pandas.DataFrame(rows, columns=["item", "condition", "sentence"]).to_csv("sentences.csv", index=False)
    exec(block("python", "syntax", "import pandas"), {})
    pairs = read_pairs(Path("my_pairs.csv"))
    assert pairs[["id", "good", "bad"]].to_numpy().tolist() == [
        ["7", "Ada was late.", "Ada were late."], ["9", "We are.", "We is."],
    ]  # fmt: skip


def test_surprisals_are_joined_with_reading_times_as_the_guide_says(place, capsys):
    Path("mine.yaml").write_text(yaml.safe_dump(settings_of_mine({"class_path": "depgen.models.causal_lm.CausalLM"})))
    assert main(["fit", "--config", "mine.yaml", "--trainer.max_epochs", "1"]) == 0, capsys.readouterr().err
    text = 'She  didn\'t lose her "key", again.'
    with Path("stimuli.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([["item", "condition", "sentence"], [7, "NA", "She ran."], [7, "b", text]])
    times = [f"7,{condition},{place},300" for condition, n in (("NA", 2), ("b", 6)) for place in range(1, n + 1)]
    Path("times.csv").write_text("\n".join(["item,condition,position,time", *times]))
    found = {}
    exec(block("python", "scoring", "stimuli ="), found)
    both, rows = found["both"], found["rows"]
    assert both["condition"].tolist() == ["NA"] * 2 + ["b"] * 6
    assert both["time"].tolist() == [300] * 8
    assert both["word"].tolist() == ["She", "ran.", *text.split()]
    words = depgen.load("mine").score(text, tokens="rules")
    assert words["word"].tolist()[1:3] == ["did", "n't"]
    own = rows[rows["condition"] == "b"]
    assert both["frequency"].notna().all()
    assert own["surprisal"].iloc[1] == pytest.approx(words["surprisal"][1:3].sum(), abs=1e-5)
    assert own["surprisal"].sum() == pytest.approx(words["surprisal"].sum())


@pytest.mark.slow
def test_the_table_of_the_guide_is_made(place, monkeypatch, capsys):
    text = block("yaml", "tables", "table: mine")
    assert text.count("\n") <= 25
    Path(TABLE).write_text(text)
    for name, system in (("mine", "dmlm.DMLM"), ("mine_base", "causal_lm.CausalLM")):
        settings = settings_of_mine({"class_path": f"depgen.models.{system}"})
        Path(f"{name}.yaml").write_text(yaml.safe_dump(settings))

    def in_this_process(arguments, environment):
        with monkeypatch.context() as context:
            for name, value in environment.items():
                context.setenv(name, value)
            assert main(list(arguments)) == 0

    monkeypatch.setattr("depgen.reporting.reproduce.run_depgen", in_this_process)
    (command,) = (each for each in commands("tables") if TABLE in each)
    run(command, capsys)
    table = Path("results/mine/table-paper.md").read_text()
    assert re.search(r"\| Transformer \|.* ± .*\|", table)
    assert re.search(r"\| DM-Transformer \|.* ± .*\|", table)
    variant = yaml.safe_load(block("yaml", "tables", "- name:"))
    assert yaml.safe_load(text)["rows"][1].keys() >= {"experiment", "against"}
    Path(TABLE).write_text(yaml.safe_dump({**yaml.safe_load(text), "rows": variant}))
    (row,) = load_definition(TABLE).rows
    assert row.experiment_at("paper").settings["model"]["init_args"]["window"] == 5
    texts = yaml.safe_load(block("yaml", "tables", "generation:"))
    texts["generation"]["samples"] = texts["measures"][0]["init_args"]["per_sample"] = 4
    rows = [{**row, "against": []} for row in yaml.safe_load(text)["rows"][:1]]
    Path(TABLE).write_text(yaml.safe_dump({**yaml.safe_load(text), **texts, "rows": rows}))
    run(f"{command} --remeasure", capsys)
    assert re.search(r"\| Transformer \|.* \d+\.\d ± ", Path("results/mine/table-paper.md").read_text())


@pytest.mark.slow
def test_an_optimizer_a_schedule_and_a_plain_trainer_are_taken_as_the_guide_says(place, capsys):
    Path("base.yaml").write_text(yaml.safe_dump(settings_of_mine({"class_path": "depgen.models.causal_lm.CausalLM"})))
    Path("sgd.yaml").write_text(block("yaml", "training", "    optimizer:"))
    fit = ["fit", "--config", "base.yaml", "--trainer.max_epochs", "1"]
    longer = "--model.scheduler.total_steps=200"  # than the one step of this phase, which the warm-up alone exceeds
    assert main([*fit, "--config", "sgd.yaml", longer]) == 0, capsys.readouterr().err
    (run,) = Path("runs/base+sgd").iterdir()
    (state,) = torch.load(run / "checkpoints/resume.ckpt", weights_only=True)["optimizer_states"]
    (group,) = state["param_groups"]
    assert group["momentum"] == 0.9
    assert group["lr"] == pytest.approx(0.5 * 2 / 100)  # after one step of the warm-up
    for option in ("optimizer.lr=0.5", "scheduler.total_steps=9", "optimizer.accumulate_clipped=true"):
        assert main([*fit, f"--model.{option}"]) == 2  # its class is to come first
    exec(block("python", "training", "data = TextData("), {})
    names: dict[str, Any] = {}
    exec(block("python", "training", "class Lines"), names)
    assert names["figures"][0]["test/perplexity"] > 1


def test_jobs_of_a_cluster_and_sweeps_name_what_there_is():
    script = block("bash", "training", "#SBATCH")
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    table = load_definition(re.search(r"reproduce (\w+)", script)[1])
    rows = re.search(r"rows=\((.*?)\)", script)[1].split()
    assert {*rows} <= {row.slug for row in table.rows}
    seeds = re.search(r"seeds=\((.*?)\)", script)[1].split()
    assert int(re.search(r"array=0-(\d+)", script)[1]) + 1 == len(rows) * len(seeds)
    sweep = yaml.safe_load(block("yaml", "training", "program:"))
    options = [f"--{name}={each['values'][0]}" for name, each in sweep["parameters"].items()]
    command = [each for each in sweep["command"] if each not in ("depgen", "--wandb", "online", "${args}")]
    assert main([*command, *options, "--print_config"]) == 0


def test_numbers_of_the_findings_are_measured():
    section = PAGES["findings"] + PAGES["README"].split("## What we found")[1].split("\n## ")[0]
    measured = " ".join(path.read_text(encoding="utf-8") for path in (ROOT / "experiments/measured").glob("*-*.md"))
    known = {*re.findall(r"\d*\.\d+", measured)}
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| ") and " claim of " not in line]
    assert len(rows) == 18
    missing = {number for row in rows for number in re.findall(r"\d*\.\d+", " ".join(row[2:]))} - known
    assert not {number for number in missing if f"0{number}" not in known}
