"""Datasets as corpora: the same documents as the readers of files give, whatever the layout and where they lie."""

import json
import logging
import shutil

import datasets
import pytest
import yaml

from depgen.cli import main
from depgen.data.corpora import ConlluTreebank
from depgen.data.corpus import SPLITS, Corpus
from depgen.data.formats import Conllu, WikiText
from depgen.data.generated import GeneratedLanguage
from depgen.data.hub_corpus import HubCorpus
from depgen.data.steps import Lowercase
from depgen.errors import MissingDataError, UserError
from depgen.trees.conllu import write_conllu
from tests.data.test_formats import ARTICLES
from tests.fixtures.kinds import named

STORIES = GeneratedLanguage(train=12, valid=3, test=3, sentences=(5, 5))
THEIRS = {"train": "train", "valid": "validation", "test": "test"}


@pytest.fixture(autouse=True)
def corpora(tmp_path, monkeypatch, caplog):
    """The folder of corpora."""
    for name, folder in {"CACHE": "cache", "RUNS": "runs", "DATA": "corpora"}.items():
        monkeypatch.setenv(f"DEPGEN_{name}", str(tmp_path / folder))
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.WARNING)
    return tmp_path / "corpora"


def write(folder, rows, name="train.jsonl"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def texts(corpus, split="train"):
    return [" ".join(document.words()) for document in corpus.documents(split)]


# -- layouts ----------------------------------------------------------------------------------------------------------


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
    rows = {split: list(rows_like_universal_dependencies(split)) for split in SPLITS}
    names = sorted({relation for split in SPLITS for row in rows[split] for relation in row["deprel"]})
    string = datasets.Value("string")
    features = datasets.Features({
        "sent_id": string, "doc": string, "text": string, "tokens": datasets.List(string),
        "xpos": datasets.List(string), "head": datasets.List(string),
        "deprel": datasets.List(datasets.ClassLabel(names=names)),
    })  # fmt: skip
    numbered = {
        split: [{**row, "deprel": list(map(names.index, row["deprel"]))} for row in rows[split]] for split in rows
    }
    return datasets.DatasetDict(
        {THEIRS[split]: datasets.Dataset.from_list(numbered[split], features=features) for split in SPLITS}
    )


def write_parquet(folder):
    folder.mkdir(parents=True)
    for name, part in parts().items():
        part.to_parquet(str(folder / f"{name}-00000-of-00001.parquet"))


def write_json_lines(folder):
    for split in SPLITS:
        write(folder, rows_like_universal_dependencies(split), f"{'dev' if split == 'valid' else split}.jsonl")


@pytest.mark.parametrize("layout", [write_parquet, write_json_lines])
def test_a_treebank_in_columns_is_the_one_in_conllu(layout, corpora, tmp_path, capfd):
    layout(corpora / "ud")
    for split in SPLITS:
        write_conllu(STORIES.documents(split), tmp_path / f"{split}.conllu")
    files = {split: f"{split}.conllu" for split in SPLITS}
    sentences = ConlluTreebank(str(tmp_path), Conllu(documents_by="sentence"), **files)
    found = HubCorpus("ud")
    assert isinstance(found, Corpus)
    assert found.name == "ud"
    for split in SPLITS:
        assert list(found.documents(split)) == list(sentences.documents(split))
    assert capfd.readouterr().out == ""


def write_lines(folder, text=ARTICLES):
    folder.mkdir(parents=True)
    for name in THEIRS.values():
        rows = {"text": text.splitlines(keepends=True)}
        datasets.Dataset.from_dict(rows).to_parquet(str(folder / f"{name}-00000-of-00001.parquet"))


@pytest.mark.parametrize("options", [{}, {"splitter": "lines"}])
def test_lines_of_wikitext_become_articles(options, corpora, tmp_path):
    write_lines(corpora / "Salesforce" / "wikitext" / "wikitext-2-v1")
    (tmp_path / "wiki").write_text(ARTICLES)
    expected = list(WikiText(**options).read(tmp_path / "wiki", "wiki"))
    found = list(HubCorpus("Salesforce/wikitext", "wikitext-2-v1", articles=True, **options).documents("valid"))
    assert [each.sentences for each in found] == [each.sentences for each in expected]
    assert found[0].identifier == "Red crane (wikitext wikitext-2-v1, validation:2)"
    rows = texts(HubCorpus("Salesforce/wikitext", "wikitext-2-v1"), "valid")
    assert rows[:2] == ["= Red crane =", "The crane is red . It is a <unk> ."]


def write_csv(folder, **splits):
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in splits.items():
        datasets.Dataset.from_dict({"id": list(range(len(lines))), "body": lines}).to_csv(str(folder / f"{name}.csv"))


def test_texts_of_a_named_column(corpora, caplog):
    write_csv(corpora / "news", train=["He left. She didn't.", " "], dev=["One\nTwo."], test=["a b"])
    corpus = HubCorpus("news", columns={"text": "body"}, tokens="rules", name="N", steps=[Lowercase()])
    (first,) = corpus.documents("train")
    assert [s.words for s in first.sentences] == [("he", "left", "."), ("she", "did", "n't", ".")]
    assert first.identifier == "0"
    assert caplog.messages == ["N, train: left out 1 rows without a token."]
    (dev,) = corpus.documents("valid")
    assert len(dev.sentences) == 2
    assert texts(HubCorpus("news", columns={"text": "body"}, valid="test"), "valid") == ["a b"]
    with pytest.raises(UserError, match="expected a split x, found train"):
        texts(HubCorpus("news", train="x"))


# -- where it lies ----------------------------------------------------------------------------------------------------


def test_the_fingerprint_is_that_of_the_files_and_options(corpora, tmp_path):
    folder = corpora / "news"
    write_csv(folder, train=["a b"], valid=["c"], test=["d"])

    def fingerprint(split="train", dataset="news", **options):
        return HubCorpus(dataset, **{"columns": {"text": "body"}, **options}).fingerprint(split)

    before = {split: fingerprint(split) for split in SPLITS}
    assert len(set(before.values())) == 3
    shutil.copytree(folder, tmp_path / "elsewhere")
    assert fingerprint(dataset=str(tmp_path / "elsewhere")) == before["train"]
    options = ({"steps": [Lowercase()]}, {"tokens": "rules"}, {"splitter": "lines"}, {"articles": True},
               {"columns": {"text": "id"}}, {"train": "test"})  # fmt: skip
    assert len({before["train"], *(fingerprint(**each) for each in options)}) == 7
    write_csv(folder, train=["a c"])
    assert fingerprint() != before["train"]
    assert fingerprint("valid") == before["valid"]


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A dataset of the hub, by a stand-in that the library reads from local files; how often it was asked."""
    served = tmp_path / "served"
    write(served, [{"text": "one"}, {"text": "two"}], "train.jsonl")
    write(served, [{"text": "four"}], "test.jsonl")
    real, calls = datasets.load_dataset_builder, []

    def builder(source, configuration, *, revision=None, cache_dir=None):
        if source != "owner/news":
            return real(source, configuration, revision=revision, cache_dir=cache_dir)
        calls.append((configuration, revision))
        return real(str(served), None, cache_dir=cache_dir)

    monkeypatch.setattr(datasets, "load_dataset_builder", builder)
    return calls


def test_a_dataset_of_the_hub_is_read_through_the_librarys_cache(hub, tmp_path):
    corpus = HubCorpus("owner/news")
    assert [texts(corpus), texts(corpus, "test")] == [["one", "two"], ["four"]]
    assert len(list((tmp_path / "cache" / "datasets").rglob("*.arrow"))) == 2
    assert texts(HubCorpus("owner/news", "a", revision="refs/convert/parquet"), "test") == ["four"]
    assert hub == [(None, None), ("a", "refs/convert/parquet")]
    assert len({corpus.fingerprint("train"), corpus.fingerprint("test")}) == 2
    assert HubCorpus("owner/news").fingerprint("train") == corpus.fingerprint("train")


def test_configurations_of_a_folder(corpora):
    folder = corpora / "owner/news"
    write(folder / "a", [{"text": "of a"}])
    write(folder / "files", [{"text": "of b"}], "b.jsonl")
    configs = [{"config_name": "b", "data_files": [{"split": "dev", "path": "files/b.jsonl"}]},
               {"config_name": "c", "data_files": "files/b.jsonl"}]  # fmt: skip
    (folder / "README.md").write_text(f"---\nconfigs: {json.dumps(configs)}\n---\n# News\n")
    assert texts(HubCorpus("owner/news", "a")) == ["of a"]
    assert texts(HubCorpus("owner/news", "b"), "valid") == ["of b"]


def test_without_a_network_the_message_is_one_line_with_a_remedy():
    with pytest.raises(MissingDataError) as caught:
        HubCorpus("Salesforce/wikitext", "wikitext-2-v1").fingerprint("train")
    message = str(caught.value)
    assert "\n" not in message
    assert "$DEPGEN_DATA" in message
    assert "hf download Salesforce/wikitext --repo-type dataset" in message


def test_folders_that_are_not_whole(corpora):
    (corpora / "empty").mkdir(parents=True)
    with pytest.raises(UserError, match=r"empty: expected parquet"):
        texts(HubCorpus("empty"))
    (corpora / "damaged").mkdir()
    (corpora / "damaged" / "train.parquet").write_bytes(b"PAR1 no parquet PAR1")
    with pytest.raises(UserError, match=r"damaged, train: .*Copy the files again"):
        texts(HubCorpus("damaged"))


# -- the command line -------------------------------------------------------------------------------------------------


def experiment(path, **corpus):
    gold = named("annotation.controls.GoldTrees", scheme="gold")
    backbone = {"layers": 2, "width": 16, "attention_heads": 2, "feedforward": 16}
    content = {
        "seed_everything": 1,
        "trainer": {"max_epochs": 1, "accelerator": "cpu"},
        "model": named(
            "models.causal_lm.CausalLM",
            backbone=named("backbones.transformer.Transformer", **backbone),
            optimizer=named("torch.optim.AdamW", lr=0.001),
        ),
        "data": named("data.text.TextData", corpus=named("data.hub_corpus.HubCorpus", **corpus), annotator=gold),
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


@pytest.mark.slow
def test_fit_and_test_on_a_folder_of_parquet(corpora, tmp_path, capsys):
    write_parquet(corpora / "treebanks" / "ud")
    assert main(["fit", "--config", experiment(tmp_path / "hub.yaml", dataset="treebanks/ud")]) == 0
    (run,) = (tmp_path / "runs" / "hub").iterdir()
    record = json.loads((run / "run.json").read_text())
    sentences = sum(len(document.sentences) for document in STORIES.documents("train"))
    assert (record["data"]["corpus"], record["data"]["train_documents"]) == ("ud", sentences)
    assert main(["test", "--run", str(run)]) == 0
    assert "test/perplexity\t" in capsys.readouterr().out
    assert (run / "test.json").is_file()
