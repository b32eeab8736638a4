"""A toy treebank and parsers trained on it in seconds."""

import json
import random
import shutil

import pytest

from depgen.annotation.spacy import SpacyTraining
from depgen.annotation.supar import BiaffineSizes, SuparTraining
from depgen.annotation.training import train_parser
from depgen.data.corpora import ConlluTreebank
from depgen.trees.conllu import write_conllu
from depgen.trees.sentence import Document, Sentence

ANIMALS = ("cat", "dog", "bird", "horse")
SPLITS = (("train", 40), ("valid", 10), ("test", 10))


def toy_sentences(number, seed):
    """Declaratives with one object, an adjective or a possessor; words tell the tree."""
    generator = random.Random(seed)
    sentences = []
    for _ in range(number):
        subject, thing = generator.choice(ANIMALS), generator.choice(ANIMALS)
        verb = generator.choice(("sees", "likes", "hears"))
        if generator.random() < 0.5:
            words = ("The", subject, verb, "a", "small", thing, ".")
            heads = (2, 3, 0, 6, 6, 3, 3)
            relations = ("det", "nsubj", "root", "det", "amod", "obj", "punct")
            tags = ("DT", "NN", "VBZ", "DT", "JJ", "NN", ".")
        else:
            words = ("Ada", verb, "her", thing, ".")
            heads = (2, 0, 4, 2, 2)
            relations = ("nsubj", "root", "nmod:poss", "obj", "punct")
            tags = ("NNP", "VBZ", "PRP$", "NN", ".")
        sentences.append(Sentence(words, heads, relations, tags))
    return sentences


def tiny_spacy(**options):
    return SpacyTraining(**{
        "steps": 60, "words_per_batch": 60, "first_words_per_batch": 60, "warmup": 5, "evaluate_every": 20,
        "learning_rate": 5e-3, "width": 32, "depth": 1, "min_action_freq": 1, "dropout": 0.0, **options,
    })  # fmt: skip


def tiny_supar(**options):
    sizes = BiaffineSizes(
        word_embedding=20, character_embedding=10, character_hidden=10, character_output=10, lstm_hidden=24,
        lstm_layers=1, arc_mlp=24, relation_mlp=16, dropout=0.0,
    )  # fmt: skip
    return SuparTraining(**{
        "steps": 40, "words_per_batch": 80, "evaluate_every": 20, "learning_rate": 1e-2, "min_frequency": 1,
        "sizes": sizes, "accelerator": "cpu", **options,
    })  # fmt: skip


def write_treebank(folder, changed=lambda sentence: sentence, format=None, name="Toy"):
    """A treebank on disk: 40 sentences to train on, 10 for each of the others."""
    for seed, (part, number) in enumerate(SPLITS):
        documents = [Document((changed(s),), f"{part}-{i}") for i, s in enumerate(toy_sentences(number, seed))]
        write_conllu(documents, folder / f"{part}.conllu")
    options = {} if format is None else {"format": format}
    return ConlluTreebank(str(folder), **options, **{part: f"{part}.conllu" for part, _ in SPLITS}, name=name)


@pytest.fixture(scope="session")
def toy_treebank(tmp_path_factory):
    return write_treebank(tmp_path_factory.mktemp("treebank"))


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """A cache, in which `toy_parsers` lie."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def own_cache(cache, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(cache))
    return cache


@pytest.fixture(scope="session")
def toy_parsers(cache, toy_treebank, made_once):
    """A spaCy and a SuPar parser of the toy treebank in the cache, `toy` and `toy_supar`: the reports of training."""

    def make(folder):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DEPGEN_CACHE", str(folder))
            parsers = {"toy": tiny_spacy(), "toy_supar": tiny_supar()}
            reports = {name: train_parser(toy_treebank, name, parser) for name, parser in parsers.items()}
        (folder / "reports.json").write_text(json.dumps(reports))

    made = made_once("toy_parsers", make)
    shutil.copytree(made, cache, dirs_exist_ok=True)
    return json.loads((made / "reports.json").read_text())
