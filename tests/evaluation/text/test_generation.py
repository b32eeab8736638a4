"""`depgen generate` on a run made on the spot: files, seeds, JSON, mistakes."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import lightning as L
import pytest
import torch

import depgen
from depgen.cli import main
from depgen.decoding.generation import Generated
from depgen.errors import UserError
from depgen.evaluation.text.generated_text import text_seed
from depgen.evaluation.text.generation import generate
from depgen.evaluation.trained import load_trained
from depgen.language_models.base import LanguageModel


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A tiny DM-Transformer trained for two epochs."""
    folder = tmp_path_factory.mktemp("generation")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPGEN_CACHE", str(folder / "cache"))
        patch.setenv("DEPGEN_RUNS", str(folder / "runs"))
        small = ["train=20", "valid=4", "test=4"]
        code = main([
            "fit", "--config", "experiments/demo_dm_transformer.yaml", "--trainer.max_epochs", "2",
            "--data.init_args.tokens_per_batch", "200", "--trainer.accelerator", "cpu",
            *(f"--data.init_args.corpus.init_args.{size}" for size in small),
        ])  # fmt: skip
        assert code == 0
        yield next((folder / "runs").rglob("run.json")).parent


PROMPTS = ["the queen near", "our boys", "she", "they"]


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("".join(f"{prompt}\n" for prompt in PROMPTS))
    return path


@pytest.mark.slow
def test_same_text_for_any_batch_size_and_any_company(run, prompts, tmp_path):
    options = {"run": str(run), "number": 2, "top_p": 0.9, "seed": 3, "max_new_tokens": 20, "device": "cpu"}
    together = generate(prompts=prompts, batch_size=64, **options).splitlines()
    assert len(together) == 8
    assert together == generate(prompts=prompts, batch_size=1, **options).splitlines()
    assert len(set(together)) > 4
    assert together != generate(prompts=prompts, **{**options, "seed": 4}).splitlines()


@pytest.mark.slow
def test_the_command_prints_what_the_library_gives(run, prompts):
    options = {"number": 2, "top_p": 0.9, "seed": 3, "max_new_tokens": 20}
    texts = depgen.load(run, device="cpu").generate(PROMPTS, batch_size=3, **options)
    rows = [*map(json.loads, generate(run=str(run), prompts=prompts, json=True, device="cpu", **options).splitlines())]
    log_probs = [row.pop("log_prob") for row in rows]
    assert log_probs == pytest.approx([text.log_prob for text in texts], rel=1e-5)
    assert all(log_prob < 0 for log_prob in log_probs)
    assert rows == [{name: row[name] for name in ("prompt", "text", "seed")} for row in texts.rows()]
    assert "".join(f"{each.text}\n" for each in texts) == generate(
        run=str(run), prompts=prompts, device="cpu", **options
    )


@pytest.mark.slow
def test_prompts_of_a_table_are_its_column(run, prompts, tmp_path):
    table, options = tmp_path / "prompts.csv", {"run": str(run), "max_new_tokens": 5}
    table.write_text("".join(f"{line}\n" for line in ["item,prompt", *(f'1,"{prompt}"' for prompt in PROMPTS)]))
    assert generate(prompts=table, **options) == generate(prompts=prompts, **options)


def test_json_lines_carry_prompt_text_and_seed(run, prompts, tmp_path):
    output = tmp_path / "texts.jsonl"
    assert generate(run=str(run), prompts=prompts, json=True, output=output, max_new_tokens=5) is None
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["prompt"] for row in rows] == PROMPTS
    assert [row["seed"] for row in rows] == [text_seed(0, k, 0) for k in range(4)]
    assert all(len(row["text"].split()) <= 5 for row in rows)


@pytest.mark.parametrize(("ending", "json"), [("jsonl", False), ("csv", False), ("txt", True), ("tsv", True)])
def test_a_file_that_other_verbs_would_read_as_something_else_is_refused(run, tmp_path, ending, json):
    output = tmp_path / f"texts.{ending}"
    with pytest.raises(UserError, match=rf"texts\.{ending} is to hold .*expected an ending such as .*found \.{ending}"):
        generate(run=str(run), json=json, output=output, max_new_tokens=5)
    assert not output.exists()


@pytest.mark.slow
def test_prompts_are_brought_into_the_form_that_the_run_has_learnt_from(run, prompts, tmp_path):
    options = {"run": str(run), "number": 2, "max_new_tokens": 20, "device": "cpu", "form": "lower"}
    shouted = tmp_path / "shouted.txt"
    shouted.write_text(prompts.read_text().replace("our boys", "Our BOYS"))
    lower = generate(prompts=prompts, **options)
    assert generate(prompts=shouted, **options) == lower
    assert generate(prompts=shouted, **{**options, "form": "as_is"}) != lower, "capitals are unknown words"


def test_a_run_folder_works_where_corpus_and_parser_are_not(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "empty"))
    moved = shutil.copytree(run, tmp_path / "moved")
    assert main(["generate", "--run", str(moved), "--number", "3", "--top_p", "0.5", "--max_new_tokens", "4"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_what_a_trained_system_brings(run):
    trained = load_trained(run)
    assert not trained.model.training
    assert trained.model.phase == len(trained.model.phases) - 1
    assert trained.vocabulary.size == trained.model.backbone.vocabulary_size
    assert trained.checkpoint.name == "best.ckpt"


@pytest.mark.parametrize(
    ("content", "message"), [("", "is empty"), ("a\n\nb\n", r"txt:2: expected a prompt"), (None, "No file at")]
)
def test_prompts_that_are_none(run, tmp_path, content, message):
    path = tmp_path / "p.txt"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=message):
        generate(run=str(run), prompts=path)


def test_a_checkpoint_cut_short_is_refused_by_name(run, tmp_path):
    broken = shutil.copytree(run, tmp_path / "broken")
    checkpoint = Path(broken / "checkpoints" / "best.ckpt")
    checkpoint.write_bytes(checkpoint.read_bytes()[:5000])
    with pytest.raises(UserError, match=r"best\.ckpt"):
        load_trained(broken)


def test_sentences_are_for_systems_that_read_documents(run):
    with pytest.raises(UserError, match="DMLM has no option of generation 'sentences'"):
        generate(run=str(run), sentences=2)


# -- options of the run at hand ---------------------------------------------------------------------------------------


def said(capsys, *arguments):
    code = main(["generate", *arguments])
    found = capsys.readouterr()
    return code, " ".join(found.out.split()), found.err


def test_help_shows_the_options_of_the_run_at_hand(run, tmp_path, capsys):
    general = said(capsys, "--help")[1]
    assert "--max_new_tokens" in general
    assert "--top_p" not in general
    assert "`depgen generate --help --run RUN` lists them" in general
    (tmp_path / "options.yaml").write_text(f"run: {run}\n")
    for named in (["--run", str(run)], [f"--checkpoint={run}"], ["-c", str(tmp_path / "options.yaml")]):
        code, shown, _ = said(capsys, "--help", *named)
        assert code == 0
        assert "options of DMLM:" in shown
        assert "--top_p TOP_P keep the smallest set of likeliest tokens" in shown
        assert "--beam_size BEAM_SIZE search for the likeliest texts" in shown
        assert "(type: int | null, default: null)" in shown
    assert main(["help", "generate", "--run", str(run)]) == 0
    assert "options of DMLM:" in capsys.readouterr().out


def test_an_option_that_the_system_does_not_have_is_refused_by_name(run, capsys):
    named = ["--run", str(run)]
    code, _, error = said(capsys, *named, "--sentences", "2")
    assert code == 2
    assert "a DMLM, has no option --sentences. `depgen generate --help --run RUN` lists" in error
    for misspelt, meant in (("--beam_sizes=2", "--beam_size"), ("--promts", "--prompts"), ("--topp", "--top_p")):
        code, _, error = said(capsys, *named, misspelt, "2")
        assert code == 2
        assert f"Did you mean '{meant}'?" in error
    code, _, error = said(capsys, *named, "--top_p", "3")
    assert code == 2
    assert "top-p must be above 0 and at most 1" in error


@dataclass(frozen=True)
class LadderOptions:
    """How a ladder is written.

    Attributes:
        shape: the letter that each step begins with.
        widths: the length of each step.
        reversed: from the longest step to the shortest.
    """

    shape: Literal["up", "down"] = "up"
    widths: tuple[int, int] = (1, 2)
    reversed: bool = False

    def __post_init__(self):
        if min(self.widths) < 1:
            raise UserError(f"widths: expected 1 or more each, found {self.widths}.")


class Ladder(LanguageModel):
    """Writes steps of the width that its options say, with the step of each token as its structure."""

    generation_options = LadderOptions

    def __init__(self, height: int = 2, **options):
        super().__init__(**options)
        self.save_hyperparameters()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def generate(self, prompts, *, vocabulary, options, seeds, number=1, max_new_tokens, batch_size=64, progress=False):
        widths = options.widths[::-1] if options.reversed else options.widths
        token = vocabulary.eos + (1 if options.shape == "up" else 2)
        steps = tuple(step for step, width in enumerate(widths) for _ in range(width))
        return [Generated([token] * len(steps), steps, -0.5 * len(steps)) for _ in seeds]


@pytest.fixture
def ladder(run, tmp_path):
    """The run with a toy in place of its system."""
    copy = shutil.copytree(run, tmp_path / "ladder")
    trainer = L.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.strategy.connect(Ladder())
    trainer.save_checkpoint(copy / "checkpoints" / "best.ckpt")
    return copy


def test_a_system_brings_options_of_another_type(ladder, capsys):
    named = ["--run", str(ladder)]
    shown = said(capsys, "--help", *named)[1]
    assert "options of Ladder:" in shown
    assert "--shape {up,down} the letter that each step begins with." in shown
    assert "--reversed from the longest step to the shortest." in shown
    assert "--top_p" not in shown
    wanted = ["--widths", "[1, 3]", "--shape", "down", "--reversed", "--number", "2", "--json"]
    assert main(["generate", *named, *wanted]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["structure"], row["log_prob"]) for row in rows] == [([0, 0, 0, 1], -2.0)] * 2
    text = depgen.load(ladder, device="cpu").generate(widths=(1, 3), shape="down", reversed=True)[0]
    assert (text.text, text.structure, text.log_prob) == (rows[0]["text"], (0, 0, 0, 1), -2.0)
    for wrong, message in (
        (["--top_p", "0.5"], "a Ladder, has no option --top_p"),
        (["--widths", "[0, 3]"], "widths: expected 1 or more each"),
        (["--widths", "[1, x]"], "widths"),
        (["--shape", "sideways"], "shape"),
    ):
        code, _, error = said(capsys, *named, *wrong)
        assert code == 2, wrong
        assert message in error
