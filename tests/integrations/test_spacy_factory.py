"""The spaCy component: found by name, with the heads and relations of `System.parse`."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import spacy

import depgen
import depgen.integrations.spacy_factory
from tests.fixtures.kinds import named
from tests.invented_data import write_corpora
from tests.invented_models import write_udgn_run

TEXT = "the mother baked a pie .  she was happy ."


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parser")
    write_corpora(folder / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPGEN_DATA", str(folder / "data"))
        corpus = named("data.generated.GeneratedLanguage", train=8, valid=2, test=2, sentences=[5, 5])
        return write_udgn_run(folder / "runs", corpus=corpus)


def pipeline(run, *before):
    nlp = spacy.blank("en")
    for name in before:
        nlp.add_pipe(name)
    nlp.add_pipe("depgen_parser", config={"run": str(run), "device": "cpu", "form": "as_is"})
    return nlp


@pytest.mark.slow
def test_heads_and_relations_are_those_of_the_system(run):
    doc = pipeline(run, "sentencizer")(TEXT)
    lines = "\n".join(" ".join(token.text for token in sent if not token.is_space) for sent in doc.sents)
    expected = depgen.load(run, device="cpu", form="as_is").parse(lines).sentences
    assert len(expected) == len(list(doc.sents)) == 2
    for span, sentence in zip(doc.sents, expected, strict=True):
        words = [token for token in span if not token.is_space]
        place = {token.i: number for number, token in enumerate(words, start=1)}
        assert [0 if token.head.i == token.i else place[token.head.i] for token in words] == [*sentence.heads]
        relations = ["root" if token.head.i == token.i else token.dep_ for token in words]
        assert relations == [*sentence.relations]
        assert span.root.dep_ == "ROOT"
    assert any(token.is_space for token in doc)


def test_documents_come_back_in_order_and_whole_without_a_sentencizer(run):
    nlp = pipeline(run)
    texts = [TEXT, "", " \n ", "she was happy"]
    docs = list(nlp.pipe(texts, batch_size=2))
    assert [doc.text for doc in docs] == texts
    assert [len(list(docs[place].sents)) for place in (0, 1, 3)] == [1, 0, 1]


@pytest.mark.slow
def test_spacy_finds_the_component_by_itself(tmp_path):
    declared = tomllib.loads(Path("pyproject.toml").read_text())["project"]["entry-points"]["spacy_factories"]
    installed = tmp_path / "invented-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: invented\nVersion: 1.0\n")
    lines = "".join(f"{name} = {where}\n" for name, where in declared.items())
    (installed / "entry_points.txt").write_text(f"[spacy_factories]\n{lines}")
    found = "spacy.blank('en').has_factory('depgen_parser'), 'lightning' in sys.modules"
    script = f"import sys, spacy\nprint({found})"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), str(tmp_path)])}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "True False"
