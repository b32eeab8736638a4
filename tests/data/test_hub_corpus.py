"""Datasets as corpora: the same documents as the readers of files give, whatever the layout."""

import json
import logging
import shutil
from itertools import islice

import datasets
import pytest
import yaml

from depgen.cli import main
from depgen.data.annotated import AnnotatedSplit
from depgen.data.corpus import SPLITS, Corpus
from depgen.data.generated import GeneratedStories
from depgen.data.hub_corpus import HubCorpus
from depgen.data.missing import check_corpus
from depgen.data.treebank import ConlluTreebank
from depgen.data.wikitext import WikiText
from depgen.errors import MissingDataError, UserError
from depgen.trees.conllu import write_conllu
from tests.data.test_wikitext import TEXT

STORIES = GeneratedStories(train=12, valid=3, test=3)
THEIRS = {"train": "train", "valid": "validation", "test": "test"}
FILES = {split: [f"{split}.conllu"] for split in SPLITS}


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path / "corpora"))


def treebank(folder):
    for split in SPLITS:
        write_conllu(STORIES.documents(split), folder / f"{split}.conllu")
    return ConlluTreebank(str(folder), **FILES, documents_by="sentence")


def rows_like_universal_dependencies(split):
    """Heads as strings, relations by name, tags as numbers of classes, as the hub's treebanks have them."""
    for document in STORIES.documents(split):
        for number, sentence in enumerate(document.sentences, start=1):
            yield {
                "sent_id": f"{document.identifier}-{number}",
                "doc": document.identifier,
                "text": " ".join(sentence.words),
                "tokens": list(sentence.words),
                "xpos": list(sentence.tags or ["_"] * len(sentence)),
                "head": list(map(str, sentence.heads)),
                "deprel": list(sentence.relations),
            }


def parts():
    names = sorted({r for split in SPLITS for row in rows_like_universal_dependencies(split) for r in row["deprel"]})
    string = datasets.Value("string")
    features = datasets.Features({
        "sent_id": string, "doc": string, "text": string, "tokens": datasets.List(string),
        "xpos": datasets.List(string), "head": datasets.List(string),
        "deprel": datasets.List(datasets.ClassLabel(names=names)),
    })  # fmt: skip
    return datasets.DatasetDict({
        THEIRS[split]: datasets.Dataset.from_list(
            [{**row, "deprel": [names.index(each) for each in row["deprel"]]}
             for row in rows_like_universal_dependencies(split)],
            features=features,
        )
        for split in SPLITS
    })  # fmt: skip


def write_parquet(folder):
    folder.mkdir(parents=True)
    for name, part in parts().items():
        part.to_parquet(str(folder / f"{name}-00000-of-00001.parquet"))


def write_saved(folder):
    parts().save_to_disk(str(folder))


def write_json_lines(folder):
    folder.mkdir(parents=True)
    for split in SPLITS:
        lines = [json.dumps(row) for row in rows_like_universal_dependencies(split)]
        (folder / f"{'dev' if split == 'valid' else split}.jsonl").write_text("\n".join(lines))


LAYOUTS = [write_parquet, write_saved, write_json_lines]


@pytest.mark.parametrize("write", LAYOUTS)
def test_a_treebank_in_columns_is_the_one_in_conllu(write, tmp_path, capfd):
    write(tmp_path / "corpora" / "ud")
    expected, found = treebank(tmp_path / "files"), HubCorpus("ud")
    assert isinstance(found, Corpus)
    assert found.name == "ud"
    for split in SPLITS:
        assert list(found.documents(split)) == list(expected.documents(split))
    whole = HubCorpus("ud", document_column="doc")
    by_document = ConlluTreebank(str(tmp_path / "files"), **FILES)
    assert list(whole.documents("valid")) == list(by_document.documents("valid"))
    assert capfd.readouterr().out == ""


def write_lines(folder, text=TEXT):
    folder.mkdir(parents=True)
    for name in THEIRS.values():
        rows = {"text": text.splitlines(keepends=True)}
        datasets.Dataset.from_dict(rows).to_parquet(str(folder / f"{name}-00000-of-00001.parquet"))


@pytest.mark.parametrize("options", [{}, {"headings": True}, {"sentence_splitter": "lines", "lowercase": True}])
def test_lines_of_wikitext_become_articles(options, tmp_path, caplog):
    write_lines(tmp_path / "corpora" / "Salesforce" / "wikitext" / "wikitext-2-v1")
    (tmp_path / "wiki.valid.tokens").write_text(TEXT)
    expected = list(WikiText(str(tmp_path), **options).documents("valid"))
    left_out = [message.partition(": ")[2] for message in caplog.messages]
    caplog.clear()
    found = list(HubCorpus("Salesforce/wikitext", "wikitext-2-v1", **options).documents("valid"))
    assert [each.sentences for each in found] == [each.sentences for each in expected]
    assert found[0].identifier == "Red crane (wikitext wikitext-2-v1, validation:2)"
    assert [message.partition(": ")[2] for message in caplog.messages] == left_out
    rows = list(HubCorpus("Salesforce/wikitext", "wikitext-2-v1", articles=False).documents("valid"))
    assert [" ".join(row.words()) for row in rows][:2] == ["= Red crane =", "The crane is red . It is a <unk> ."]


def write_csv(folder, **texts):
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in texts.items():
        datasets.Dataset.from_dict({"id": list(range(len(lines))), "body": lines}).to_csv(str(folder / f"{name}.csv"))


def test_texts_of_a_named_column(tmp_path, caplog):
    write_csv(tmp_path / "corpora" / "news", train=["He left. She didn't.", " "], dev=["One\nTwo."], test=["a b"])
    corpus = HubCorpus("news", text_column="body", tokens="rules", lowercase=True, name="N")
    (first,) = corpus.documents("train")
    assert [s.words for s in first.sentences] == [("he", "left", "."), ("she", "did", "n't", ".")]
    assert first.identifier == "0"
    assert caplog.messages == ["N, train: left out 1 rows without a token."]
    (dev,) = corpus.documents("valid")
    assert len(dev.sentences) == 2
    assert next(HubCorpus("news", text_column="body", valid="test").documents("valid")).sentences[0].words == ("a", "b")


def test_sentences_listed_in_a_column(tmp_path, caplog):
    folder = tmp_path / "corpora" / "listed"
    folder.mkdir(parents=True)
    row = {"sentences": ["He left .", " ", "She stayed ."]}
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, [row, {"sentences": []}])))
    (document,) = HubCorpus("listed").documents("train")
    assert [" ".join(s.words) for s in document.sentences] == ["He left .", "She stayed ."]
    assert document.identifier == "listed, train, row 1"
    assert sorted(caplog.messages) == [
        "listed, train: left out 1 rows without a token.", "listed, train: left out 1 sentences without a token.",
    ]  # fmt: skip


def test_the_fingerprint_is_that_of_the_files_and_options(tmp_path):
    folder = tmp_path / "corpora" / "news"
    write_csv(folder, train=["a b"], valid=["c"], test=["d"])
    before = {split: HubCorpus(str(folder), text_column="body").fingerprint(split) for split in SPLITS}
    assert len(set(before.values())) == 3
    shutil.copytree(folder, tmp_path / "elsewhere")
    assert HubCorpus(str(tmp_path / "elsewhere"), text_column="body").fingerprint("train") == before["train"]
    options = ({"lowercase": True}, {"tokens": "rules"}, {"sentence_splitter": "lines"}, {"articles": True},
               {"headings": True}, {"root": -1}, {"text_column": "id"}, {"train": "test"})  # fmt: skip
    found = [HubCorpus(str(folder), **{"text_column": "body", **each}).fingerprint("train") for each in options]
    assert len({before["train"], *found}) == 9
    write_csv(folder, train=["a c"])
    assert HubCorpus(str(folder), text_column="body").fingerprint("train") != before["train"]
    assert HubCorpus(str(folder), text_column="body").fingerprint("valid") == before["valid"]


def test_the_fingerprint_of_what_save_to_disk_wrote(tmp_path):
    write_saved(tmp_path / "corpora" / "ud")
    before = HubCorpus("ud").fingerprint("train")
    assert before != HubCorpus("ud").fingerprint("valid")
    shutil.rmtree(tmp_path / "corpora")
    part = parts()["train"]
    part.save_to_disk(str(tmp_path / "corpora" / "ud"))
    assert HubCorpus("ud").fingerprint("train") == before
    assert len(list(HubCorpus("ud").documents("train"))) == len(part)
    part.select(range(2)).save_to_disk(str(tmp_path / "corpora" / "less"))
    assert HubCorpus("less").fingerprint("train") != before


def test_no_more_rows_are_read_than_are_used(tmp_path):
    folder = tmp_path / "corpora" / "news"
    folder.mkdir(parents=True)
    lines = [json.dumps({"text": f"word {k}"}) for k in range(5)]
    (folder / "train-00000-of-00002.jsonl").write_text("\n".join(lines))
    (folder / "train-00001-of-00002.jsonl").write_text("{")
    table = AnnotatedSplit(HubCorpus("news"), "train", None, max_documents=3).table()
    assert [row["words"] for row in table] == [["word", str(k)] for k in range(3)]
    with pytest.raises(UserError, match=r"news, train: .*Copy the files again"):
        AnnotatedSplit(HubCorpus("news"), "train", None, max_documents=6).table()
    assert not list((tmp_path / "cache" / "datasets").rglob("*.arrow"))


def test_a_damaged_file_is_named_with_its_split(tmp_path):
    folder = tmp_path / "corpora" / "news"
    folder.mkdir(parents=True)
    (folder / "train.parquet").write_bytes(b"PAR1 no parquet PAR1")
    with pytest.raises(UserError, match=r"news, train: .*Copy the files again"):
        list(HubCorpus("news").documents("train"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"news, train: expected a column of tokens, sentences or text, found the columns .*body"),
        ({"text_column": "bodies"}, r"'bodies' \(text_column\), found the columns .*Did you mean 'body'"),
        ({"heads_column": "body"}, "expected a column of tokens"),
        ({"text_column": "body", "train": "x"}, "expected a split x, found train"),
        ({"text_column": "id"}, r"train, row 1: expected a string in the column 'id', found int"),
        ({"tokens_column": "body"}, r"row 1: expected a list in the column 'body', found str"),
    ],
)
def test_wrong_columns(options, message, tmp_path):
    write_csv(tmp_path / "corpora" / "news", train=["a b"])
    with pytest.raises(UserError, match=message):
        list(HubCorpus("news", **options).documents("train"))


def test_a_split_that_is_not_there(tmp_path):
    write_csv(tmp_path / "corpora" / "news", train=["a b"])
    with pytest.raises(
        UserError, match=r"expected a split validation or valid or dev or val, found train.*valid: train"
    ):
        HubCorpus("news", text_column="body").fingerprint("valid")


def test_two_kinds_of_columns():
    with pytest.raises(UserError, match="found text_column, heads_column"):
        HubCorpus("news", text_column="a", heads_column="b")


def experiment(path, **corpus):
    block = {"class_path": "depgen.data.hub_corpus.HubCorpus", "init_args": corpus}
    gold = {"class_path": "depgen.annotation.trivial.GoldTrees", "init_args": {"scheme": "gold"}}
    backbone = {"layers": 2, "width": 16, "attention_heads": 2, "feedforward": 16}
    content = {
        "seed_everything": 1,
        "trainer": {"max_epochs": 2, "accelerator": "cpu"},
        "model": {
            "class_path": "depgen.models.dmlm.DMLM",
            "init_args": {
                "backbone": {"class_path": "depgen.backbones.transformer.Transformer", "init_args": backbone},
                "dependency_modeling_share": 0.5,
                "optimizer": {"class_path": "torch.optim.AdamW", "init_args": {"lr": 1e-3}},
            },
        },
        "data": {
            "class_path": "depgen.data.text.TextData",
            "init_args": {"corpus": block, "annotator": gold},
        },
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


@pytest.mark.slow
def test_fit_and_test_on_a_folder_of_parquet(tmp_path, capsys):
    write_parquet(tmp_path / "corpora" / "treebanks" / "ud")
    config = experiment(tmp_path / "hub.yaml", dataset="treebanks/ud")
    assert main(["fit", "--config", config]) == 0
    (run,) = (tmp_path / "runs" / "hub").iterdir()
    record = json.loads((run / "run.json").read_text())
    sentences = sum(len(document.sentences) for document in STORIES.documents("train"))
    assert record["data"]["corpus"] == "ud"
    assert record["data"]["train_documents"] == sentences
    assert main(["test", "--run", str(run)]) == 0
    assert "test/perplexity\t" in capsys.readouterr().out
    assert (run / "test.json").is_file()


def test_an_experiment_without_its_dataset_stops_before_anything_is_made(tmp_path, capsys):
    for name in ("treebanks/none", str(tmp_path / "none"), "none"):
        config = experiment(tmp_path / "hub.yaml", dataset=name)
        with pytest.raises(MissingDataError, match=r"No dataset"):
            check_corpus([tmp_path / "hub.yaml"])
        assert main(["fit", "--config", config]) == 2
        message = capsys.readouterr().err
        assert message.count("\n") == 1
        assert "DEPGEN_DATA" in message or "Name a folder" in message
    assert not (tmp_path / "runs").exists()


def test_nothing_is_read_before_it_is_wanted(tmp_path):
    write_lines(tmp_path / "corpora" / "lines")
    corpus = HubCorpus("lines", articles=True)
    assert len(list(islice(corpus.documents("train"), 1))) == 1
    shutil.rmtree(tmp_path / "corpora")
    write_lines(tmp_path / "corpora" / "lines", " \n Nobody . \n")
    with pytest.raises(UserError, match=r"lines, train:2: expected an article's title"):
        list(corpus.documents("train"))


@pytest.fixture(autouse=True)
def _log(caplog):
    caplog.set_level(logging.WARNING)


def test_sentences_without_a_tree_can_be_left_out(tmp_path, caplog):
    folder = tmp_path / "corpora/half"
    folder.mkdir(parents=True)
    rows = [{"tokens": ["up"], "head": ["0"]}, {"tokens": ["down"], "head": ["None"]}]
    (folder / "train.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    every, trees = HubCorpus("half"), HubCorpus("half", with_trees_only=True)
    assert [[each.sentences[0].words for each in corpus.documents("train")] for corpus in (every, trees)] == [
        [("up",), ("down",)], [("up",)],
    ]  # fmt: skip
    assert "half, train: left out 1 sentences without a tree." in caplog.messages
    assert every.fingerprint("train") != trees.fingerprint("train")
