"""Pushed runs: what is written loads, scores alike and runs no code; the hub is a stand-in."""

import json
import shutil
from typing import ClassVar

import pytest
import torch
import yaml
from safetensors import safe_open

import depgen
from depgen.cli import main
from depgen.errors import UserError
from depgen.evaluation.push import push
from depgen.training.checkpoints import load_checkpoint, write_weights
from depgen.training.runs import WEIGHTS
from tests.evaluation.oracles_of_stories import STORIES, in_process, texts, write_experiment

TEXTS = texts(STORIES, "test")[:5]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """`runs/stories/<time>`: a tested LSTM whose embedding is its output matrix too."""
    folder = tmp_path_factory.mktemp("push")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPGEN_CACHE", str(folder / "cache"))
        patch.setenv("DEPGEN_RUNS", str(folder / "runs"))
        in_process(["fit", "--config", str(write_experiment(folder / "stories.yaml")), "--trainer.max_epochs", "1"], {})
        in_process(["test"], {})
        yield folder


@pytest.fixture(scope="module")
def run(place):
    (found,) = (place / "runs" / "stories").iterdir()
    return found


@pytest.fixture(scope="module")
def pushed(place, run):
    in_process(["push", str(run), "--to", str(place / "out" / "stories")], {})
    return place / "out" / "stories"


def scores(name):
    return depgen.load(name, device="cpu").score(TEXTS)["log_prob"].tolist()


@pytest.mark.slow
def test_the_folder_scores_as_the_run_does_to_the_last_digit(run, pushed, tmp_path, monkeypatch):
    moved = shutil.copytree(pushed, tmp_path / "elsewhere")
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "none"))
    assert scores(moved) == scores(run)
    assert {path.name for path in moved.iterdir()} == {
        "README.md",
        "config.yaml",
        "run.json",
        "vocabulary.json",
        WEIGHTS,
    }


def test_weights_that_share_memory_are_written_once(tmp_path):
    shared, alone = torch.arange(6.0).view(2, 3), torch.arange(6.0).view(2, 3)
    weights = {"embedding": shared, "output": shared, "transposed": shared.T, "alone": alone, "empty": torch.empty(0)}
    write_weights({"state_dict": weights, "phase": 1, "optimizer_states": [1]}, tmp_path / WEIGHTS)
    with safe_open(tmp_path / WEIGHTS, framework="pt") as stored:
        assert set(stored.keys()) == {"embedding", "transposed", "alone", "empty"}
    found = load_checkpoint(tmp_path / WEIGHTS)
    assert found.keys() == {"state_dict", "phase"}
    assert found["state_dict"].keys() == weights.keys()
    assert all(torch.equal(value, weights[name]) for name, value in found["state_dict"].items())


def test_the_card_holds_data_trees_and_measures_and_leaves_the_licence_to_the_user(run, pushed):
    card = (pushed / "README.md").read_text()
    head = yaml.safe_load(card.split("---\n")[1])
    assert head == {"library_name": "depgen", "tags": ["depgen", "dependency-grammar", "CausalLM", "text-generation"]}
    assert "# license: name the licence" in card
    perplexity = json.loads((run / "test.json").read_text())["metrics"]["test/perplexity"]
    assert f"| perplexity | {perplexity:.6g} |" in card
    assert "| Data | generated, 200 training documents |" in card
    assert "| Dependency trees | none |" in card
    assert 'depgen.load("stories")' in card.replace("'", '"')


def test_nothing_of_the_machine_travels(pushed):
    record = json.loads((pushed / "run.json").read_text())
    assert not record.keys() & {"command", "hardware", "written_here"}
    assert record["data"]["train_documents"] == 200


class Hub:
    """In place of the hub's API: keeps what it is given."""

    calls: ClassVar[list] = []

    def __init__(self, *, token):
        assert token is True, "one must be there"

    def create_repo(self, repo, *, private, exist_ok):
        self.calls.append((repo, private, exist_ok))
        return f"https://hub.example/{repo}"

    def upload_folder(self, *, repo_id, folder_path, commit_message):
        if repo_id == "me/refused":
            raise OSError("403 Forbidden")
        self.calls.append((repo_id, sorted(path.name for path in folder_path.iterdir())))


@pytest.mark.slow
def test_the_folder_is_uploaded_where_a_repository_and_a_token_are(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    monkeypatch.setattr(Hub, "calls", [])
    command = ["push", str(run), "--repo", "me/stories", "--private", "--to"]
    assert main([*command, str(tmp_path / "a")]) == 0
    assert "uploaded\thttps://hub.example/me/stories" in capsys.readouterr().out
    files = ["README.md", "config.yaml", WEIGHTS, "run.json", "vocabulary.json"]
    assert Hub.calls == [("me/stories", True, True), ("me/stories", sorted(files))]
    assert "depgen.load('me/stories')" in (tmp_path / "a" / "README.md").read_text()
    with pytest.raises(UserError, match=r"is written, but not uploaded to me/refused: 403 Forbidden"):
        push(str(run), to=tmp_path / "b", repo="me/refused")
    push(str(run), to=tmp_path / "c")
    assert len(Hub.calls) == 3, "nothing is uploaded unless a repository is named"


def test_damaged_and_foreign_weights_and_full_folders_are_refused(run, pushed, tmp_path):
    from safetensors.torch import save_file

    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with pytest.raises(UserError, match="holds something already"):
        push(str(run), to=tmp_path / "full")
    copy = shutil.copytree(pushed, tmp_path / "copy")
    (copy / WEIGHTS).write_bytes((pushed / WEIGHTS).read_bytes()[:-100])
    with pytest.raises(UserError, match=r"model\.safetensors are cut short or damaged .*copy the folder again"):
        depgen.load(copy, device="cpu")
    save_file({"a": torch.zeros(2)}, copy / WEIGHTS)
    with pytest.raises(UserError, match=r"that `depgen push` has written, found those of another kind"):
        depgen.load(copy, device="cpu")


@pytest.mark.slow
def test_a_push_that_fails_leaves_nothing_and_no_link_is_followed(place, run, tmp_path, monkeypatch, capsys):
    linked = shutil.copytree(run, tmp_path / "linked")
    (linked / "config.yaml").rename(tmp_path / "secret.yaml")
    (linked / "config.yaml").symlink_to(tmp_path / "secret.yaml")
    assert main(["push", str(linked), "--to", str(tmp_path / "out")]) == 2
    assert "config.yaml is a link" in capsys.readouterr().err
    monkeypatch.setattr("depgen.evaluation.push.model_card", lambda *args, **kwargs: 1 / 0)  # late
    with pytest.raises(ZeroDivisionError):
        push(str(run), to=tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"linked", "secret.yaml"}


@pytest.mark.slow
def test_other_verbs_read_the_folder(run, pushed, capsys):
    assert main(["test", "--run", str(pushed)]) == 0, capsys.readouterr().err
    said = dict(line.split("\t") for line in capsys.readouterr().out.splitlines() if "\t" in line)
    expected = json.loads((run / "test.json").read_text())["metrics"]["test/perplexity"]
    assert float(said["test/perplexity"]) == pytest.approx(expected, rel=1e-5)
    assert main(["generate", "--run", str(pushed), "--number", "1", "--max_new_tokens", "3"]) == 0
    assert main(["push", str(pushed), "--to", str(pushed.parent / "again")]) == 0
    assert scores(pushed.parent / "again") == scores(run)


def test_a_run_is_found_in_the_hub_cache(pushed, run, tmp_path, monkeypatch):
    cached = tmp_path / "hub" / "models--me--stories"
    shutil.copytree(pushed, cached / "snapshots" / "abc")
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("abc")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    assert scores("me/stories") == scores(run)


def test_classes_from_elsewhere_are_not_imported(pushed, tmp_path):
    copy = shutil.copytree(pushed, tmp_path / "copy")
    content = (copy / WEIGHTS).read_bytes()
    (copy / WEIGHTS).write_bytes(content.replace(b"torch.optim.Adam", b"subprocess.Popen"))
    with pytest.raises(UserError, match=r"(?s)found subprocess\.Popen.*--modules"):
        depgen.load(copy, device="cpu")
