"""What two trees compute, compared number by number: `python .golden/compare.py OLD NEW [--short]`.

OLD and NEW are folders of two worktrees, of any commits. Each runs in one process of its own, on the same inputs; both
run at once. A result of an earlier call (`--save FILE.json`) may stand in place of OLD, on the same machine.
Texts, weights, documents and configurations are equal to the letter; numbers that differ by rounding alone (`TOLERANCE`)
are counted and shown, and fail with `--exact`. What may differ is listed in `differences.yaml`.
"""

import argparse
import fnmatch
import hashlib
import json
import math
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml
from commands import GENERATIONS, GOLDEN, CommandError, Depgen, generations_of
from experiments import (
    COPIES,
    CORPORA,
    JUDGES,
    KINDS,
    ORACLE,
    PARSERS,
    RESUMED,
    STORIES,
    SUPAR,
    TREEBANK,
    UNION,
)

TOLERANCE = {"relative": 1e-6, "absolute": 1e-5}
"""What counts as rounding: of a number, and nats of an item."""
SENTENCE = "the old mother was very happy ."
CPU = ("--device", "cpu")
CLOCK = ("words_per_second", "training_seconds", "seconds", "date", "commit", "measured_commit", "run", "hardware")
"""Names in JSON whose values are of the clock or the machine."""
MASKED = ("udgn", "structformer", "masked_transformer")
STRUCTURED = ("gilt", "dtg", "pushdown", "tg")
FINETUNED = ("similarity", "prompted")
MIXTURES = ("dmlm", "dm_gpt2", "dm_lstm")
PREDICTED = {"on_lstm": "bracketings", "udgn": "trees"}
KILL = """
import os, signal
try:
    from depgen.training.resume import Resume
except ImportError:
    from depgen.training.keeping import Resume
save = Resume._save
def saved(self, trainer):
    save(self, trainer)
    if trainer.global_step >= {step}:
        os.kill(os.getpid(), signal.SIGKILL)
Resume._save = saved
"""
"""Ends a process right after it has saved the state of a step."""
DOUBLE = """
import torch
torch.set_default_dtype(torch.float64)
linear = torch.nn.functional.linear
torch.nn.functional.linear = lambda values, weight, bias=None: linear(values.to(weight.dtype), weight, bias)
"""
"""Code that a tree runs first with `--double`."""
Numbers = dict[str, Any]


class Tree:
    """A tree at work in a folder of inputs; fills `numbers`."""

    def __init__(self, tree: Path, home: Path, *, short: bool, double: bool, parts: Sequence[str]) -> None:
        self.depgen, self.home, self.short, self.parts = Depgen(tree, home), home, short, parts
        if double:
            self.depgen.environment["GOLDEN_FIRST"] += DOUBLE
        self.numbers: Numbers = {}
        self.seconds: dict[str, float] = {}

    def path(self, kind: str, name: str = "finished") -> Path:
        """The folder of a run."""
        return self.home / "runs" / kind / name

    def runs(self) -> set[Path]:
        """The folders of all runs, at whatever depth a tree's depgen lays them."""
        return {path.parent for path in (self.home / "runs").rglob("run.json")}

    def add(self, name: str, value: Any) -> None:
        """Keep a number, text or JSON; the paths of this place are left out of texts."""
        for place, leaf in leaves(name, value):
            if place.rpartition("/")[2] not in CLOCK:
                if isinstance(leaf, str):
                    leaf = leaf.replace(str(self.home), "HOME").replace(str(self.depgen.tree), "TREE")
                self.numbers[place] = leaf

    def say(self, name: str, *arguments: str | Path, output: Path | None = None, as_json: bool = True) -> None:
        """Keep what a command prints or writes; a refusal is an answer too."""
        try:
            said = self.depgen(*arguments)
        except CommandError as error:
            said = str(error).replace(str(self.home), "HOME").replace(str(self.depgen.tree), "TREE")
            self.numbers[name] = f"REFUSED: {said.strip().splitlines()[-1][:300]}"
            return
        if output is not None:
            said = output.read_text(encoding="utf-8")
        rows = None
        if as_json:
            try:
                rows = [json.loads(said)] if said.lstrip().startswith(("{\n", "[\n")) else None
                rows = rows or [json.loads(line) for line in said.splitlines() if line.strip()]
            except json.JSONDecodeError:
                rows = None
        if rows is None:
            self.add(name, said)
            return
        if arguments[0] == "data-statistics" and "splits" not in rows[0]:  # a line a split
            names = [row.pop("name") + ", published" * (row.pop("level") == "published") for row in rows]
            splits = [{"split": name, **row} for name, row in zip(names, rows)]
            rows = [{"corpus": [row.pop("corpus") for row in splits][0], "splits": splits}]
        if arguments[0] == "evaluate-text" and "metrics" not in rows[0]:  # a line a measure
            by = lambda key: {row["name"]: row[key] for row in rows if row[key] is not None}
            rows = [{
                "texts": rows[0]["texts"], "empty": rows[0]["empty"], "metrics": by("value"),
                "intervals": {row["name"]: [row["low"], row["high"]] for row in rows if row["low"] is not None},
                "excluded": {name: left for name, left in by("left_out").items() if left},
                "not_computed": by("not_computed"), "settings": by("settings"), "unknown": by("unknown"),
            }]  # fmt: skip
        answers = [self.depgen.former_answer(str(arguments[0]), row) for row in rows]
        if arguments[0] == "coherence" and len(answers) > 1:  # a line a document, without facts and figures of all
            answers = [{"documents_asked": answers}]
        self.add(name, answers[0] if len(answers) == 1 else answers)

    # -- inputs -------------------------------------------------------------------------------------------------------

    def write_inputs(self) -> None:
        """Copy the inputs and write all configurations in the terms of this tree."""
        shutil.copytree(GOLDEN / "inputs", self.home, dirs_exist_ok=True)
        shutil.copytree(self.home / "models" / "gpt2", self.home / "models" / "gpt2-medium")
        folder = self.home / "experiments"
        folder.mkdir(exist_ok=True)
        parsers = {f"parser_{name}": {"name": name, **each} for name, each in PARSERS.items()}
        parsers["parser_stories"] = {"name": "stories", "treebank": TREEBANK, "parser": SUPAR}
        for name, content in {**KINDS, **JUDGES, **parsers, "union": UNION, "oracle": ORACLE}.items():
            settings = self.depgen.settings(json.loads(json.dumps(content)))
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
        prompts = "".join(f"{' '.join(line.split()[:3])}\n" for line in (self.home / "stories.txt").open())
        (self.home / "prompts.txt").write_text(prompts, encoding="utf-8")

    def config(self, name: str) -> Path:
        """A configuration."""
        return self.home / "experiments" / f"{name}.yaml"

    # -- parts --------------------------------------------------------------------------------------------------------

    def collect(self) -> Numbers:
        """Everything."""
        started = time.time()
        with self.depgen:
            self.write_inputs()
            self.timed("configurations", self.configurations)
            self.timed("tables", lambda: self.add("tables", self.depgen.probe("tables", folder="")))
            self.timed("parsers", self.parsers)
            self.timed("corpora", self.corpora)
            for kind in KINDS:
                self.timed(f"kind {kind}", lambda kind=kind: self.kind(kind))
            for kind in ("dmlm", "gilt", "udgn", "adclm"):
                self.timed(f"verbs of {kind}", lambda kind=kind: self.verbs(kind))
            self.timed("texts", self.texts)
            if not self.short:
                self.timed("union", self.union)
                self.timed("resumed", self.resumed)
                self.timed("pictures", self.pictures)
                self.timed("real corpora", self.real_corpora)
        self.seconds["all"] = time.time() - started
        return self.numbers

    def timed(self, name: str, part: Callable[[], None]) -> None:
        """Do a part and keep how long it took; a part that breaks off is a difference, not the end."""
        if self.parts and not any(fnmatch.fnmatchcase(name, part) for part in self.parts):
            return
        started = time.time()
        try:
            part()
        except (CommandError, OSError, KeyError, ValueError) as error:
            self.numbers[f"{name}: BROKE OFF"] = f"{type(error).__name__}: {error}"[-1500:]
        self.seconds[name] = time.time() - started
        (self.home.parent / f"{self.home.name}.json").write_text(json.dumps(self.numbers), encoding="utf-8")

    def configurations(self) -> None:
        """Resolved values of every experiment, size and table row."""
        self.resolved = self.depgen.probe("configurations")
        for label, each in self.resolved.items():
            self.numbers[f"configuration/{label}"] = each["values"]

    def parsers(self) -> None:
        """Parsers of each kind, trained for some steps, and their scores."""
        folder = self.home / "cache" / "parsers"
        for name in PARSERS:
            self.depgen("train-parser", "--config", self.config(f"parser_{name}"))
            self.add(f"parsers/{name}", json.loads((folder / name / "scores.json").read_text()))
        for copy, name in COPIES.items():
            shutil.copytree(folder / name, folder / copy)
        self.say("parse by ewt_supar", "parse", "--parser", "ewt_supar", "--input", self.home / "text.txt")
        self.say("parse by ewt", "parse", "--parser", "ewt", "--input", self.home / "text.txt")

    def corpora(self) -> None:
        """Documents, annotated rows and encoded rows of every corpus recipe and data module of the experiments."""
        corpora = {name: self.depgen.settings(each) for name, each in CORPORA.items()}
        modules = {}
        for label, data in self.depgen.probe("data_settings", every=not self.short).items():
            modules[label] = data
            corpus = data["init_args"].get("corpus")
            if isinstance(corpus, dict) and corpus not in corpora.values():
                corpora[f"of {label}"] = corpus
        self.add("documents", self.depgen.probe("all_corpora", data_settings=corpora))
        self.add("data", self.depgen.probe("data_modules", settings=modules))

    def real_corpora(self) -> None:
        """sha256 of the documents of the real corpora, where DEPGEN_DATA names them."""
        data = os.environ.get("DEPGEN_DATA")
        if not data:
            return
        here = Depgen(self.depgen.tree, self.home / "real", {"DEPGEN_DATA": data})
        with here:
            settings = {
                name: here.settings(each)
                for name, each in CORPORA.items()
                if name not in ("conllu", "sdp", "sentences", "brackets")
            }
            self.add("real documents", here.probe("all_corpora", data_settings=settings))

    def fit(self, kind: str, name: str = "finished", *, killed_at: int | None = None) -> Path:
        """Train a run, to its end or until it is killed, and move it to where `path` says."""
        before = self.runs()
        command = ("fit", "--config", self.config(kind), "--resume_every_n_steps", "1")
        if killed_at is None:
            self.depgen(*command)
        else:
            self.depgen(*command, expected=-9, first=KILL.format(step=killed_at))
        (made,) = self.runs() - before
        (made / "lock").unlink(missing_ok=True)
        self.path(kind, name).parent.mkdir(exist_ok=True)
        made.rename(self.path(kind, name))
        return self.path(kind, name)

    def weights(self, name: str, run: Path) -> None:
        """Every logged loss; of every weight of the best and the last checkpoint its sha256 (for `--exact`), its mean
        size and its projection onto a cosine."""
        import torch

        header, *rows = (run / self.depgen.file("metrics.csv")).read_text().splitlines()
        for row in rows:
            values = dict(zip(header.split(","), row.split(","), strict=True))
            for column, value in values.items():
                if value and column.startswith(("train/", "val/")):
                    self.numbers[f"{name}/step {values['step']} {column}"] = float(value)
        for file in ("checkpoints/best.ckpt", "checkpoints/resume.ckpt"):
            content = torch.load(run / self.depgen.file(file), weights_only=True)["state_dict"]
            for parameter, value in content.items():
                data = value.detach().contiguous()
                exact, flat = hashlib.sha256(data.numpy().tobytes()).hexdigest()[:16], data.double().flatten()
                waves = torch.arange(len(flat), dtype=torch.double).cos()
                key = f"{name}/{file}/{self.depgen.parameter(parameter)}"
                self.numbers[key] = str(list(data.shape))
                self.numbers[f"{key}/sha"] = exact
                self.numbers[f"{key}/mean size"] = float(flat.abs().mean()) if len(flat) else 0.0
                self.numbers[f"{key}/projected"] = float(flat @ waves) / max(1.0, len(flat) ** 0.5)

    def kind(self, kind: str) -> None:
        """Three steps of a system; its weights, test, scores, texts and trees."""
        import numpy as np

        run = self.fit(kind)
        self.weights(kind, run)
        self.depgen("test", "--run", run, "--trainer.accelerator", "cpu")
        self.add(f"{kind}/test", json.loads((run / self.depgen.file("test.json")).read_text())["metrics"])
        if (items := run / self.depgen.file("test_items.npz")).is_file():
            with np.load(items) as scores:
                for item, nll in zip(scores["items"].tolist(), scores["nll"].tolist(), strict=True):
                    self.numbers[f"{kind}/test item {item}"] = nll
        if kind in FINETUNED:
            return
        text, common = self.home / "text.txt", ("--run", run, *CPU)
        if kind == "itexp":
            sampled = ("--trees", "sampled", "--parser", "ewt_supar", "--number_of_trees", "3", "--seed", "1")
            self.say(f"{kind}/score sampled", "score", text, *sampled, "--by", "sentence", "--json", *common)
        else:
            self.say(f"{kind}/score", "score", text, "--by", "word", "--json", *common)
        if kind in MASKED:
            heads = ("--attention_head", "[1,0]") if kind == "masked_transformer" else ()
            self.say(f"{kind}/parse", "parse", "--input", text, "--form", "as_is", *common, *heads)
        else:
            sampling = ("--seed", "3", "--max_new_tokens", "12", "--json")
            self.say(f"{kind}/generate", "generate", "-n", "3", *sampling, *common)
            if kind != "itexp":
                prompts = ("--prompts", self.home / "prompts.txt")
                self.say(f"{kind}/generate on", "generate", "-n", "2", *prompts, *sampling, *common)
        if kind in STRUCTURED:
            form = ("--format", "brackets") if kind in ("pushdown", "tg") else ()
            for beam in ("1", "4"):
                parse = ("parse", "--input", text, "--form", "as_is", "--beam_size", beam, *form, *common)
                self.say(f"{kind}/parse beam {beam}", *parse)
            self.say(f"{kind}/score beam 5", "score", text, "--by", "sentence", "--beam_size", "5", "--json", *common)
            self.say(f"{kind}/generate beam", "generate", "-n", "2", "--beam_size", "4", *sampling, *common)
        if kind in ("on_lstm", "prpn", "tg", "pushdown"):
            files = ("--treebank", "brackets", "--seeds", "2", "--json")
            self.say(f"{kind}/bracketing-f1", "bracketing-f1", *files, *common)
        if kind in PREDICTED:
            self.depgen("predict", "--run", run, "--trainer.accelerator", "cpu")
            for path in sorted((run / PREDICTED[kind]).iterdir()):
                self.add(f"{kind}/predict/{path.name}", path.read_text())

    def verbs(self, kind: str) -> None:
        """JSON of all other verbs on one of the small runs."""
        run, text = self.path(kind), self.home / "text.txt"
        common = ("--run", run, *CPU)
        if kind in MASKED:
            self.say(f"{kind}/parsing-scores", "parsing-scores", "--config", self.config("parsing"), "--json", *common)
            correlations = ("--config", self.config("correlations"), "--json")
            self.say(f"{kind}/head-correlations", "head-correlations", *correlations, *common)
        for by in ("sentence", "document"):
            self.say(f"{kind}/score by {by}", "score", text, "--by", by, "--unit", "bits", "--json", *common)
        if kind not in ("adclm", "udgn"):
            self.say(f"{kind}/minimal-pairs", "minimal-pairs", "--json", *common)
            self.say(f"{kind}/syntactic-suites", "syntactic-suites", "--json", *common)
        if kind == "dmlm":
            self.say(f"{kind}/next words", "score", text, "--by", "word", "--next_words", "--json", *common)
            self.say(f"{kind}/dependent-loss", "dependent-loss", "--config", self.config("dmlm"), *common)
            others = [self.path("transformer"), self.path("awd_lstm")]
            self.say("compare", "compare", run, *others, "--format", "json")
            self.say("compare as text", "compare", run, *others, as_json=False)
            self.say("validate", "validate", "--run", run, "--trainer.accelerator", "cpu")
        if kind in ("dmlm", "adclm"):
            for task in ("order", "insertion", "ending") if kind == "adclm" else ("order",):
                output = run / f"{task}.json"
                coherence = ("--config", self.config(task), "--run", run, "--output", output, *CPU)
                self.say(f"{kind}/coherence {task}", "coherence", *coherence, output=output)

    def texts(self) -> None:
        """Measures of texts, with invented models; files of trees; people."""
        home = self.home
        said = self.depgen("train-oracle", "--config", self.config("oracle"))
        self.add("train-oracle", said.partition("\n")[2])  # without its folder, whose name has the hour
        options = {
            "references": home / "references.txt", "perplexity_model": home / "models" / "gpt2",
            "oracle": self.config("oracle"), "bertscore_model": home / "models" / "bert", "bertscore_layer": "2",
            "resamples": "50",
        }  # fmt: skip
        given = [each for name, value in options.items() for each in (f"--{name}", value)]
        self.say("evaluate-text", "evaluate-text", home / "stories.txt", *given, "--json", *CPU)
        gold, parsed = home / "data" / "stories" / "test.conllu", home / "parsed.conllu"
        self.depgen("parse", "--parser", "ewt_supar", "--input", gold, "--output", parsed)
        for by in ((), ("--by", "relation"), ("--by", "length")):
            name = " ".join(("attachment-scores", *by))
            named = self.depgen.translated(["attachment-scores"])[0] == "evaluate"
            files = ("--gold", gold, "--predicted", parsed) if named else (gold, parsed)
            self.say(name, "attachment-scores", *files, *by, "--json")
        statistics = ("--corpus", json.dumps(self.depgen.settings(STORIES)), "--json")
        self.say("data-statistics", "data-statistics", *statistics)
        if not self.short:
            self.say("parser-agreement", "parser-agreement", "--config", self.config("agreement"))
        folder = home / "people"
        texts = [f"{name}={home / name}.txt" for name in ("stories", "references")]
        people = ("--texts", *texts, "-n", "2", "--raters", "2", "--contexts", home / "prompts.txt", "--output", folder)
        self.say("human-eval export", "human-eval export", *people)
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            if path.is_file():
                self.add(f"human-eval/{path.relative_to(folder)}", path.read_text(encoding="utf-8"))

    def union(self) -> None:
        """The story metric."""
        bert = self.home / "models" / "bert"
        length = json.loads((bert / "config.json").read_text())["max_position_embeddings"]
        options = {"encoder": bert, "max_length": length}
        given = [f"--model.init_args.{name}={value}" for name, value in options.items()]
        self.depgen("fit", "--config", self.config("union"), *given, "--name", "union")
        areas = {}
        for split, verb, stage in (("valid", "validate", "val"), ("test", "test", "test")):
            said = self.depgen(verb, "--run", "union")
            areas[split] = {"all": float(str(said).split(f"{stage}/auc\t")[1].split()[0])}
        self.add("union/auc", areas)
        none = ("--bertscore_model", "null", "--perplexity_model", "null", *CPU)
        self.say("union", "evaluate-text", self.home / "stories.txt", "--union", "union", "--json", *none)

    def resumed(self) -> None:
        """Runs that are killed after a step and continued."""
        for kind, steps in RESUMED.items():
            for step in steps:
                run = self.fit(kind, f"killed{step}", killed_at=step)
                self.depgen("fit", "--resume", run)
                self.weights(f"{kind}/killed after step {step}", run)

    def pictures(self) -> None:
        """sha256 of pictures, pushed folders and exported networks."""
        run = self.path("dmlm")
        commands = {
            "attention.png": ("attention", "--run", run, "--sentence", SENTENCE),
            "curves.png": ("curves", "dmlm_table7"),
            "series.png": ("series", "udgn_figure4"),
            "heat-map.png": ("heat-map", "--config", self.config("correlations"), "--run", self.path("udgn")),
        }
        for name, command in commands.items():
            path = self.home / name
            try:
                self.depgen(*command, "--output", path)
                self.numbers[f"pictures/{name}"] = hashlib.sha256(path.read_bytes()).hexdigest()
            except CommandError as error:
                self.numbers[f"pictures/{name}"] = f"REFUSED {str(error).strip().splitlines()[-1]}"
        for name, verb in {"pushed": "push", "exported": "export-pretrained"}.items():
            folder = self.home / name
            of_run = (run,) if verb == "push" else ("--run", self.path("dm_gpt2"))
            self.say(name, verb, "--to", folder, *of_run, as_json=False)
            for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
                if path.is_file():
                    self.numbers[f"{name}/{path.relative_to(folder)}"] = hashlib.sha256(path.read_bytes()).hexdigest()
        self.say("reproduce --list", "reproduce", "dmlm_table2", "--list", as_json=False)
        report = self.home / "report.html"
        self.say("report", "report", "--tables", "demo", "--output", report, output=report, as_json=False)


def leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Numbers and texts of nested lists and dictionaries, by their places."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(f"{name}/{key}", each)
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from leaves(f"{name}/{place}", each)
    else:
        yield name, value


def as_in(values: Any, old: Path | None, new: Path) -> Any:
    """Resolved values of the old tree in the terms of the new one."""
    behind = {generation.name for generation in generations_of(old)} if old else set()
    for generation in GENERATIONS:
        if generation.holds(new) and generation.name not in behind:
            values = generation.settings(values)
    return values


def how(old: Any, new: Any) -> str:
    """`equal`, `rounding` or `different`."""
    if old == new:
        return "equal"
    if any(not isinstance(each, int | float) or isinstance(each, bool) for each in (old, new)):
        return "different"
    if math.isnan(old) and math.isnan(new):
        return "equal"
    near = math.isclose(old, new, rel_tol=TOLERANCE["relative"], abs_tol=TOLERANCE["absolute"])
    return "rounding" if near else "different"


def shown(old: Any, new: Any) -> str:
    """Two values where they begin to differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        one, other = dict(leaves("", old)), dict(leaves("", new))
        parts = [
            f"{place}: {one.get(place, 'nothing')!r} -> {other.get(place, 'nothing')!r}"
            for place in sorted(one.keys() | other.keys())
            if one.get(place, "nothing") != other.get(place, "nothing")
        ]
        return "; ".join(parts)[:600]
    one, other = str(old), str(new)
    start = next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, start - 40) if len(one) > 160 else 0
    return f"{one[start : start + 160]!r} -> {other[start : start + 160]!r}"


def report(old: Mapping[str, Any], new: Mapping[str, Any], *, exact: bool, most: int) -> int:
    """Print what differs; the number of differences that are not listed."""
    listed = yaml.safe_load((GOLDEN / "differences.yaml").read_text(encoding="utf-8")) or []
    counts = {"equal": 0, "rounding": 0, "different": 0, "listed": 0}
    used, wrong, largest = set(), {}, 0.0
    for name in sorted(old.keys() | new.keys()):
        if name.endswith("/sha") and not exact:  # the mean size and the projection say whether it is rounding
            continue
        one, other = old.get(name, "nothing"), new.get(name, "nothing")
        kind = how(one, other)
        if kind == "rounding":
            largest = max(largest, abs(one - other) / max(abs(one), abs(other)))
        patterns = [each["number"] for each in listed if fnmatch.fnmatchcase(name, each["number"])]
        if kind != "equal" and patterns:
            used.update(patterns)
            counts["listed"] += 1
            continue
        counts[kind] += 1
        if kind == "different" or (kind == "rounding" and exact):
            wrong[name] = f"{name}: {shown(one, other)}"
    groups: dict[str, list[str]] = {}
    for name, line in wrong.items():
        groups.setdefault("/".join(name.split("/")[:2]) if "/" in name else name.split(" item ")[0], []).append(line)
    for group, lines in groups.items():
        print(*lines[:most], sep="\n")
        if len(lines) > most:
            print(f"... and {len(lines) - most} more of {group}")
    for each in listed:
        if each["number"] not in used:
            print(f"not used: {each['number']} ({each['reason']})")
    broken = [name for name in old.keys() | new.keys() if "BROKE OFF" in name]
    broken += [name for name in old.keys() & new.keys() if str(old[name]).startswith("REFUSED")]
    for name in sorted(broken):
        print(f"{name} in {'both' if name in old and name in new else 'one'}: {str(old.get(name, new.get(name)))[:300]}")
    print(
        f"{len(old)} numbers of OLD, {len(new)} of NEW: {counts['equal']} equal to the last bit, {counts['rounding']} "
        f"by rounding (at most {largest:.1e}), {counts['listed']} listed, {len(wrong)} different."
    )
    return len(wrong)


def main() -> int:
    """The exit code: 0 if nothing differs but what is listed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="a worktree, or a file of --save; - for none, to save NEW alone")
    parser.add_argument("new", type=Path, help="a worktree")
    parser.add_argument("--short", action="store_true", help="without UNION, kills, pictures and real corpora")
    parser.add_argument("--exact", action="store_true", help="rounding is a difference")
    parser.add_argument("--most", type=int, default=4, help="lines of each group of numbers that differ")
    parser.add_argument("--parts", nargs="+", default=[], help="some parts alone, such as tables 'kind dmlm' 'verbs *'")
    parser.add_argument("--double", action="store_true", help="compute in double precision, where rounding has no effect")
    parser.add_argument("--save", type=Path, help="keep the numbers of NEW in a file, to stand for OLD later")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="golden-") as temporary:
        print(f"At work in {temporary}: the numbers so far are in old.json and new.json there.", flush=True)
        trees = {
            name: Tree(path, Path(temporary) / name, short=arguments.short, double=arguments.double, parts=arguments.parts)
            for name, path in (("old", arguments.old), ("new", arguments.new))
            if path.is_dir()
        }
        for tree in trees.values():
            tree.home.mkdir(exist_ok=True)
        with ThreadPoolExecutor(2) as both:
            futures = {name: both.submit(tree.collect) for name, tree in trees.items()}
            numbers = {name: future.result() for name, future in futures.items()}
    if arguments.save:
        arguments.save.write_text(json.dumps(numbers["new"]), encoding="utf-8")
    if str(arguments.old) == "-":
        numbers["old"] = numbers["new"]
    elif "old" not in numbers:
        saved = json.loads(arguments.old.read_text(encoding="utf-8"))
        numbers["old"] = saved if not arguments.parts else {name: saved[name] for name in saved if name in numbers["new"]}
    old_tree = arguments.old if arguments.old.is_dir() else None
    old = {
        name: as_in(value, old_tree, arguments.new) if name.startswith("configuration/") else value
        for name, value in numbers["old"].items()
    }
    wrong = report(json.loads(json.dumps(old)), json.loads(json.dumps(numbers["new"])), exact=arguments.exact, most=arguments.most)
    for name, tree in trees.items():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"processor time of all trees so far: {used.ru_utime + used.ru_stime:.0f} s")
        slow = sorted(tree.seconds.items(), key=lambda each: -each[1])[:12]
        print(f"{name}: {', '.join(f'{part} {seconds:.0f} s' for part, seconds in slow)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
