"""A run's own test split as a text: `depgen score` finds what `depgen test` has found, however the run reads."""

import json

import pytest
import yaml

from depgen.cli import main
from depgen.data.experiment import data_of
from depgen.evaluation.verbs import score
from depgen.training.evaluated import NUMBERS
from depgen.training.runs import newest_run
from tests.fixtures.kinds import named

STORIES = named("data.generated.GeneratedLanguage", train=10, valid=2, test=3, sentences=[5, 5])
DOCUMENT_MODEL = named("models.dclm.DCLM", context=named("models.dclm.ContextToContext", size=6), embedding_size=6)
BACKBONE = named("backbones.transformer.Transformer", layers=1, width=8, attention_heads=2, feedforward=8)
WRITER = named("models.causal_lm.CausalLM", backbone=BACKBONE)
STARTS = named("data.vocabulary.WordVocabulary", starts=True)
RUNS = {
    "text": (WRITER, "depgen.data.text.TextData", {}),
    "documents": (DOCUMENT_MODEL, "depgen.data.documents.DocumentData", {"vocabulary": STARTS}),
    "last words twice": (
        DOCUMENT_MODEL,
        "depgen.data.documents.DocumentData",
        {"vocabulary": STARTS, "duplicate_final_word": True},
    ),
    "segments": (
        DOCUMENT_MODEL,
        "depgen.data.documents.DocumentData",
        {"vocabulary": STARTS, "eval_sentences_per_segment": 2, "segmentation": "code2015"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_scores_of_the_test_split_are_those_of_the_test(name, tmp_path, monkeypatch):
    for folder in ("cache", "runs", "data"):
        monkeypatch.setenv(f"DEPGEN_{folder.upper()}", str(tmp_path / folder))
    model, kind, options = RUNS[name]
    trainer = {"max_epochs": 1, "accelerator": "cpu", "enable_progress_bar": False}
    data = {"class_path": kind, "init_args": {"corpus": STORIES, **options}}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump({"trainer": trainer, "model": model, "data": data}))
    assert main(["fit", "--config", str(tmp_path / "tiny.yaml")]) == 0
    run = newest_run()
    assert main(["test", "--run", str(run)]) == 0
    tested = json.loads((run / NUMBERS["test"]).read_text())["metrics"]
    documents = data_of(run / "config.yaml").corpus.documents("test")
    text = tmp_path / "test.jsonl"
    lines = [json.dumps({"sentences": [" ".join(each.words) for each in document.sentences]}) for document in documents]
    text.write_text("".join(f"{line}\n" for line in lines))
    row = json.loads("".join(score(text, run=str(run), by="all", reads="document", json=True)))
    assert row["token_perplexity"] == pytest.approx(tested["test/perplexity"], rel=1e-5)
    printed = "".join(score(text, run=str(run), reads="document", json=True))
    words = [json.loads(line) for line in printed.splitlines()]
    doubled = [each["word"] for each in words if each["tokens"] == 2]
    assert doubled == (["."] * row["sentences"] if name == "last words twice" else [])
