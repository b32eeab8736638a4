"""Where datasets lie: folders with and without configurations, and the hub, by a stand-in that serves local files."""

import json
from pathlib import Path

import datasets
import pytest
from depgen.data.hub_corpus import HubCorpus
from huggingface_hub.errors import HTTPError

from depgen.errors import MissingDataError, UserError

NAME = "owner/news"


@pytest.fixture(autouse=True)
def _places(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path / "corpora"))


def write(folder, name, *texts):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Served files; what was resolved is counted, and `None` in its place takes the network away."""
    served = tmp_path / "served"
    write(served / "data", "train-00000-of-00002.jsonl", "one", "two")
    write(served / "data", "train-00001-of-00002.jsonl", "three")
    write(served / "data", "test-00000-of-00001.jsonl", "four")
    real, calls = datasets.load_dataset_builder, []

    def builder(source, configuration, *, revision=None, cache_dir=None):
        if source != NAME:
            return real(source, configuration, revision=revision, cache_dir=cache_dir)
        calls.append((configuration, revision))
        return real(str(served), None, cache_dir=cache_dir)

    monkeypatch.setattr(datasets, "load_dataset_builder", builder)
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", lambda api, name, *, revision, timeout: None)
    return served, calls


def words(corpus, split="train"):
    return [" ".join(document.words()) for document in corpus.documents(split)]


def test_files_of_the_hub_are_fetched_when_they_are_read_and_kept(hub, tmp_path):
    served, calls = hub
    corpus = HubCorpus(NAME)
    kept = tmp_path / "cache" / "hub" / "owner--news" / "default@main"
    before = corpus.fingerprint("train")
    documents = corpus.documents("train")
    assert " ".join(next(documents).words()) == "one"
    assert {path.name for path in kept.iterdir() if not path.name.endswith(".lock")} == {
        "files.json", "train-00000.jsonl"
    }  # fmt: skip
    assert words(corpus) == ["one", "two", "three"]
    for path in (served / "data").iterdir():
        path.unlink()
    assert words(HubCorpus(NAME)) == ["one", "two", "three"]
    assert HubCorpus(NAME).fingerprint("train") == before
    assert calls == [(None, None)]
    with pytest.raises(MissingDataError, match=r"No dataset owner/news at hand.*hf download owner/news"):
        words(corpus, "test")
    assert not list(kept.glob(".*part"))


def test_of_a_file_that_is_fetched_by_half_nothing_is_kept(hub, tmp_path, monkeypatch):
    def half(source, target):
        target.write(source.read(3))
        raise OSError("connection reset")

    monkeypatch.setattr("shutil.copyfileobj", half)
    with pytest.raises(MissingDataError, match="connection reset"):
        words(HubCorpus(NAME))
    kept = {path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()}
    assert not [name for name in kept if "jsonl" in name and not name.endswith(".lock")]


def test_revisions_and_configurations_are_kept_apart(hub):
    _, calls = hub
    corpora = [HubCorpus(NAME), HubCorpus(NAME, "a"), HubCorpus(NAME, "a", revision="refs/convert/parquet")]
    for corpus in corpora:
        assert words(corpus, "test") == ["four"]
    assert calls == [(None, None), ("a", None), ("a", "refs/convert/parquet")]


def test_a_folder_of_the_name_comes_before_the_hub(hub, tmp_path):
    write(tmp_path / "corpora" / NAME, "train.jsonl", "here")
    assert words(HubCorpus(NAME)) == ["here"]
    write(tmp_path / NAME, "train.jsonl", "nearer")
    assert words(HubCorpus(NAME)) == ["nearer"]
    assert hub[1] == []


def test_without_a_network_the_message_is_one_line_with_a_remedy(tmp_path):
    with pytest.raises(MissingDataError) as caught:
        HubCorpus("Salesforce/wikitext", "wikitext-2-v1").fingerprint("train")
    message = str(caught.value)
    assert "\n" not in message
    assert "$DEPGEN_DATA" in message
    assert "hf download Salesforce/wikitext --repo-type dataset" in message
    assert not (tmp_path / "cache" / "hub" / "Salesforce--wikitext" / "wikitext-2-v1@main" / "files.json").exists()


def test_a_network_that_fails_is_tried_once(monkeypatch, tmp_path):
    tries = []

    def fail(api, name, *, revision, timeout):
        tries.append(name)
        raise HTTPError("Name or service not known")

    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", fail)
    with pytest.raises(MissingDataError, match=r"Name or service not known.*hf download"):
        HubCorpus(NAME).fingerprint("train")
    assert tries == [NAME]


def test_configurations_of_a_folder(tmp_path):
    folder = tmp_path / "corpora" / NAME
    write(folder / "a", "train.jsonl", "of a")
    write(folder / "files", "b.jsonl", "of b")
    configs = [{"config_name": "b", "data_files": [{"split": "dev", "path": "files/b.jsonl"}]},
               {"config_name": "c", "data_files": "files/b.jsonl"}]  # fmt: skip
    (folder / "README.md").write_text(f"---\nconfigs: {json.dumps(configs)}\n---\n# News\n")
    assert words(HubCorpus(NAME, "a")) == ["of a"]
    assert words(HubCorpus(NAME, "b"), "valid") == ["of b"]
    for configuration in (None, "d"):
        with pytest.raises(UserError, match=r"'b', 'c'.*Set `configuration`"):
            words(HubCorpus(NAME, configuration))


def test_a_folder_without_files_that_are_read(tmp_path):
    (tmp_path / "corpora" / "empty").mkdir(parents=True)
    with pytest.raises(UserError, match=r"empty: expected parquet, arrow"):
        words(HubCorpus("empty"))


def test_a_folder_that_save_to_disk_did_not_finish(tmp_path):
    folder = tmp_path / "corpora" / "half"
    datasets.Dataset.from_dict({"text": ["a"]}).save_to_disk(str(folder))
    next(folder.glob("*.arrow")).unlink()
    with pytest.raises(UserError, match=r"half can't be read .*Copy the folder"):
        words(HubCorpus("half"))


def test_a_damaged_list_of_files(hub):
    HubCorpus(NAME).fingerprint("train")
    (listing,) = Path("cache/hub").rglob("files.json")
    listing.write_text("{")
    with pytest.raises(UserError, match=r"files\.json.*Delete"):
        HubCorpus(NAME).fingerprint("train")
