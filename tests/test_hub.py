"""Where pretrained models are sought, without a network."""

import pytest

from depgen.hub import model_folder


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A working folder, a folder of models and a hub cache, all empty."""
    for name in ("here", "models", "cache"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("DEPGEN_MODELS", str(tmp_path / "models"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path


def cache(places, name, *files):
    folder = places / "cache" / f"models--{name.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("a" * 40)
    snapshot = folder / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    for file in files:
        (snapshot / file).write_text("{}")
    return snapshot


def test_a_folder_comes_before_that_of_models_and_this_before_the_hub_cache(places):
    assert model_folder("gpt2") is None
    cached = cache(places, "gpt2", "config.json")
    assert model_folder("gpt2") == cached
    (places / "models" / "gpt2").mkdir()
    assert model_folder("gpt2") == places / "models" / "gpt2"
    (places / "here" / "gpt2").mkdir()
    assert model_folder("gpt2").resolve() == places / "here" / "gpt2"


def test_a_cached_model_without_its_configuration_is_none(places):
    cache(places, "owner/model", "tokenizer.json")
    assert model_folder("owner/model") is None


def test_paths_are_not_sought_in_the_hub_cache(places, monkeypatch):
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *a, **k: pytest.fail("the cache was asked"))
    for name in ("./gpt2", "/nowhere/gpt2", "~/nowhere", "a/b/c"):
        assert model_folder(name) is None
