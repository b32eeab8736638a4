"""What a run keeps of its data, sizes counted by hand, and files replaced under the same names, which are noticed."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import yaml

from depgen.cli import main
from depgen.data.corpora import Brown, DocumentLines, RocStories, TextLines
from depgen.data.corpus import SplitStatistics
from depgen.data.generated import GeneratedLanguage
from depgen.data.record import (
    DataSource,
    Sizes,
    fingerprint_of,
    measure,
    record_data,
    source_of,
    split_counts,
)
from depgen.data.steps import BareWords, FirstDocuments, Lowercase, SingleSentences, WithoutHeldOut
from depgen.data.text import TextData
from depgen.errors import MissingDataError, UserError
from depgen.evaluation.corpus_sizes import CorpusOptions, corpus_sizes
from depgen.training.runs import read_record
from tests.fixtures.kinds import named
from tests.invented_data import write_corpora

EXPERIMENT = {
    "seed_everything": 1,
    "trainer": {"max_epochs": 1, "accelerator": "cpu"},
    "model": named(
        "models.causal_lm.CausalLM",
        backbone=named("backbones.awd_lstm.AWDLSTM", layers=1, embedding_size=8, hidden_size=8),
    ),
    "data": named(
        "data.text.TextData",
        corpus={"class_path": "depgen.data.corpora.RocStories"},
        annotator={"class_path": "depgen.annotation.controls.LeftChain"},
    ),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    write_corpora(folder / "data")
    stories = folder / "data" / "rocstories"
    recurring = (stories / "valid.csv").read_text().splitlines()[1]
    (stories / "train.csv").write_text((stories / "train.csv").read_text() + recurring + "\n")
    (folder / "stories.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("cache", "data", "runs"):
            patch.setenv(f"DEPGEN_{name.upper()}", str(folder / name))
        assert main(["fit", "--config", str(folder / "stories.yaml")]) == 0
    return folder


@pytest.fixture
def run(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    for name in ("cache", "data", "runs"):
        monkeypatch.setenv(f"DEPGEN_{name.upper()}", str(tmp_path / name))
    (folder,) = (tmp_path / "runs").glob("*/*")
    return folder


def _replace(data):
    shutil.rmtree(data)
    write_corpora(data, stories=32)


def test_a_run_keeps_what_it_is_trained_on(run):
    record, source = read_record(run), source_of(RocStories())
    assert record["data"] == {
        "corpus": "ROCStories",
        "reduced": source.reduced,
        "train_documents": 24,
        "fingerprint": source.fingerprint,
    }
    assert record["equal_documents"] == 0, "the one that recurs is left out"
    assert record["trees"] is None
    words = sum(len(list(document.words())) + 1 for document in RocStories().documents("train"))
    assert record["tokens_per_epoch"] == words


def test_trees_are_those_that_the_system_learns_from(run, tmp_path):
    backbone = named("backbones.transformer.Transformer", layers=2, width=8, attention_heads=1, feedforward=8)
    arguments = {"backbone": backbone, "dependency_modeling_share": 0.5}
    settings = {**EXPERIMENT, "model": named("models.dmlm.DMLM", **arguments)}
    settings["trainer"] = {**EXPERIMENT["trainer"], "max_epochs": 2}
    (tmp_path / "dmlm.yaml").write_text(yaml.safe_dump(settings))
    assert main(["fit", "--config", str(tmp_path / "dmlm.yaml")]) == 0
    (found,) = (tmp_path / "runs" / "dmlm").iterdir()
    assert read_record(found)["trees"] == "left chain"
    assert read_record(run)["trees"] is None


@pytest.mark.slow
def test_a_run_goes_on_with_its_own_data_alone(run, tmp_path, capsys):
    config = str(tmp_path / "stories.yaml")
    assert main(["fit", "--config", config, "--resume"]) == 0
    _replace(tmp_path / "data")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert main(["fit", "--config", config, "--resume"]) == 2
    error = capsys.readouterr().err
    assert f"{run} was trained on other data: put those back, or start a new run." in error
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_numbers_on_other_data_are_printed_only(run, tmp_path, capsys):
    assert main(["test", "--run", str(run)]) == 0
    kept = json.loads((run / "test.json").read_text())
    assert "was trained on other data" not in capsys.readouterr().err
    _replace(tmp_path / "data")
    (run / "test_items.npz").unlink()
    assert main(["test", "--run", str(run)]) == 0
    error = capsys.readouterr().err
    assert "was trained on other data" in error
    assert "printed only" in error
    assert json.loads((run / "test.json").read_text()) == kept
    assert not (run / "test_items.npz").exists()


# -- sizes -----------------------------------------------------------------------------------------------------------


class Pets(TextLines):
    published = {"train": SplitStatistics(sentences=2, tokens=7), "test": SplitStatistics(documents=3)}  # noqa: RUF012


@pytest.fixture
def pets(tmp_path, monkeypatch):
    texts = {"train": "the cat sat\nthe dog\n", "valid": "the\n", "test": "the cow sat down\nthedog\n"}
    for split, text in texts.items():
        (tmp_path / f"{split}.txt").write_text(text)
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    return Pets(str(tmp_path), steps=[], name="pets")


def test_sizes(pets):
    assert measure(pets, ["test", "train"]) == {
        "train": Sizes(2, 2, tokens=7, types=5, mean_length=2.5, max_length=3, mean_sentences=1.0),
        "test": Sizes(2, 2, 7, 6, 2.5, 4, 1.0, in_training=1, unknown=0.6),
    }


def test_without_the_training_split_nothing_is_compared_with_it(pets, tmp_path):
    (tmp_path / "train.txt").unlink()
    assert measure(pets, ["valid"]) == {"valid": Sizes(1, 1, 2, 2, 1.0, 1, 1.0)}
    with pytest.raises(MissingDataError, match=r"train\.txt"):
        measure(pets)


def test_the_published_sizes_stand_below(pets, tmp_path):
    rows = corpus_sizes(CorpusOptions(corpus=pets)).rows
    assert list(rows[["level", "name", "documents"]].itertuples(index=False, name=None))[2:] == [
        ("split", "valid", 1), ("split", "test", 2), ("published", "test", 3),
    ]  # fmt: skip
    assert rows["in_training"].isna().tolist() == [True, True, False, False, True]
    assert rows["name"].tolist()[:2] == ["train", "train"]
    with pytest.raises(UserError, match="--config, or a corpus by --corpus"):
        corpus_sizes(CorpusOptions())


STORIES = GeneratedLanguage(train=4, valid=2, test=2, sentences=(5, 5))


def test_a_corpus_is_reduced_if_its_files_or_a_limit_leave_documents_out(pets, monkeypatch):
    assert source_of(pets) == DataSource("pets", True, 2, fingerprint_of(pets)), "two of three published for the test"
    monkeypatch.setitem(Pets.published, "test", SplitStatistics(documents=2))
    monkeypatch.setitem(Pets.published, "train", SplitStatistics(documents=2))
    assert not source_of(replace(pets, name="whole", steps=[Lowercase()])).reduced
    without = source_of(replace(pets, name="without what is held out", steps=[WithoutHeldOut()]))
    assert (without.reduced, without.train_documents) == (False, 1), "the files hold all that is published"
    limits = [source_of(replace(pets, steps=[FirstDocuments(most)])) for most in (1, 2)]
    assert [(source.reduced, source.train_documents) for source in limits] == [(True, 1), (False, 2)]
    for corpus in (STORIES, replace(pets, steps=[Lowercase()])):
        assert [source_of(corpus, max_documents=most).reduced for most in (1, 99)] == [True, False]
        assert len({source_of(corpus, max_documents=most).fingerprint for most in (1, 2, None)}) == 3


def test_all_sentences_of_a_corpus_are_the_same_data_and_some_of_them_are_not(tmp_path, monkeypatch):
    write_corpora(tmp_path)
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path))
    whole, first, single = fingerprint_of(Brown()), FirstDocuments(2), SingleSentences()
    assert fingerprint_of(Brown(steps=[single])) == whole
    assert fingerprint_of(Brown(steps=[single, BareWords()])) == fingerprint_of(Brown(steps=[BareWords()]))
    assert fingerprint_of(Brown(), max_documents=2) == fingerprint_of(Brown(steps=[first, single])) != whole
    others = [Brown(steps=[SingleSentences(2)]), Brown(steps=[SingleSentences(max_words=30)]), Brown(steps=[first])]
    first_sentences = Brown(steps=[single, first])
    assert len({whole, *map(fingerprint_of, [*others, first_sentences])}) == 5
    assert fingerprint_of(Brown(steps=[single]), max_documents=2) == fingerprint_of(first_sentences)


def test_documents_of_training_that_equal_one_held_out_are_counted_whatever_the_steps(pets, tmp_path):
    assert split_counts(pets)["equal"] == 1
    assert split_counts(replace(pets, steps=[WithoutHeldOut()]))["equal"] == 0
    (tmp_path / "train.txt").write_text("the\nthecow sat down\n")
    assert split_counts(pets)["equal"] == 2


def test_what_is_equal_in_the_splits_is_counted_in_documents_and_sentences(tmp_path, monkeypatch, caplog):
    """Of three documents of two sentences in training one is held out, and one sentence of another."""
    for name in ("data", "cache"):
        monkeypatch.setenv(f"DEPGEN_{name.upper()}", str(tmp_path / name))
    (tmp_path / "data").mkdir()
    texts = {"train": "a b\nc\n\nd\ne\n\nf\ng\n", "valid": "ab\nc\n\nh\n", "test": "h\n\ne\n"}
    for split, text in texts.items():
        (tmp_path / "data" / f"{split}.txt").write_text(text)
    data = TextData(DocumentLines("", steps=[], name="small"))
    trainer = SimpleNamespace(datamodule=data, is_global_zero=True, loggers=[])
    caplog.set_level("INFO")
    record_data(tmp_path / "run", trainer, None)
    record = read_record(tmp_path / "run")
    assert [record[f"equal_{what}"] for what in ("documents", "sentences", "held_out")] == [1, 3, 1]
    assert "small: 1 of 3 training documents and 3 of 6 training sentences equal" in caplog.text
