"""`depgen generate` on a run made on the spot: files, seeds, JSON, mistakes."""

import json
import shutil
from pathlib import Path

import pytest

import depgen
from depgen.cli import main
from depgen.errors import UserError
from depgen.evaluation.generated_text import text_seed
from depgen.evaluation.generation import generate
from depgen.evaluation.trained import load_trained


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
            "--trainer.accelerator", "cpu",
            "--model.init_args.dependency_modeling_epochs", "1", "--model.init_args.language_modeling_epochs", "1",
            *(f"--data.init_args.corpus.init_args.{size}" for size in small),
        ])  # fmt: skip
        assert code == 0
        yield next((folder / "runs").glob("*/*/run.json")).parent


PROMPTS = ["[FEMALE] was a", "one day", "she", "[MALE]"]


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("".join(f"{prompt}\n" for prompt in PROMPTS))
    return path


def test_same_text_for_any_batch_size_and_any_company(run, prompts, tmp_path):
    options = {"run": str(run), "number": 2, "top_p": 0.9, "seed": 3, "max_new_tokens": 20, "device": "cpu"}
    together = generate(prompts=prompts, batch_size=64, **options).splitlines()
    assert len(together) == 8
    assert together == generate(prompts=prompts, batch_size=1, **options).splitlines()
    assert len(set(together)) > 4
    assert together != generate(prompts=prompts, **{**options, "seed": 4}).splitlines()


def test_the_command_prints_what_the_library_gives(run, prompts):
    options = {"number": 2, "top_p": 0.9, "seed": 3, "max_new_tokens": 20}
    texts = depgen.load(run, device="cpu").generate(PROMPTS, batch_size=3, **options)
    rows = generate(run=str(run), prompts=prompts, json=True, device="cpu", **options).splitlines()
    assert [json.loads(row) for row in rows] == texts.rows()
    assert "".join(f"{each.text}\n" for each in texts) == generate(
        run=str(run), prompts=prompts, device="cpu", **options
    )


def test_json_lines_carry_prompt_text_and_seed(run, prompts, tmp_path):
    output = tmp_path / "texts.jsonl"
    assert generate(run=str(run), prompts=prompts, json=True, output=output, max_new_tokens=5) is None
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["prompt"] for row in rows] == PROMPTS
    assert [row["seed"] for row in rows] == [text_seed(0, k, 0) for k in range(4)]
    assert all(len(row["text"].split()) <= 5 for row in rows)


def test_prompts_are_brought_into_the_form_that_the_run_has_learnt_from(run, prompts, tmp_path):
    options = {"run": str(run), "number": 2, "max_new_tokens": 20, "device": "cpu", "form": "lower"}
    shouted = tmp_path / "shouted.txt"
    shouted.write_text(prompts.read_text().replace("one day", "One DAY"))
    lower = generate(prompts=prompts, **options)
    assert generate(prompts=shouted, **options) == lower
    assert generate(prompts=shouted, **{**options, "form": "as_is"}) != lower, "capitals are unknown words"


def test_a_run_folder_works_where_corpus_and_parser_are_not(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "empty"))
    moved = shutil.copytree(run, tmp_path / "moved")
    assert main(["generate", "--run", str(moved), "-n", "3", "--top-p", "0.5", "--max-new-tokens", "4"]) == 0
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
    with pytest.raises(UserError, match=r"DMLM.*leave --sentences out"):
        generate(run=str(run), sentences=2)
