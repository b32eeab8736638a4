"""Texts of systems: in the order of the prompts, whatever the batch, with their structures; `depgen generate`."""

import json
import shutil

import numpy as np
import pytest
from nltk import Tree

import depgen
from depgen.cli import main
from depgen.data.vocabulary import SubwordPieces
from depgen.decoding.generation import Generated
from depgen.errors import UserError
from depgen.evaluation import verbs as verb
from depgen.evaluation.generation import json_lines, text_seed
from depgen.evaluation.verbs import generate
from depgen.models.tg import TransformerGrammar
from depgen.trees.conllu import read_conllu
from tests.evaluation.test_parsing import TG
from tests.evaluation.test_parsing import system_of as labelled_system_of
from tests.evaluation.test_system import MODELS, system_of
from tests.fixtures.make import trained
from tests.vocabularies import documents_of

# -- in Python --------------------------------------------------------------------------------------------------------

TEXTS = ["the cat", "", "dogs ran\na", "the xylophone"]
OPTIONS = {"number": 2, "top_p": 0.9, "max_new_tokens": 6, "seed": 3}
KINDS = ["causal", "mixture", "documents"]


@pytest.fixture(scope="module")
def systems():
    return {name: system_of(MODELS[name]) for name in KINDS}


def assert_same(texts, others):
    """Log-probabilities are rounded by the batch."""
    assert texts.drop(columns="log_prob").equals(others.drop(columns="log_prob"))
    np.testing.assert_allclose(texts["log_prob"], others["log_prob"], rtol=1e-5)


@pytest.mark.parametrize("name", KINDS)
def test_texts_are_in_the_order_of_the_prompts_and_do_not_depend_on_the_batch(systems, name):
    system = systems[name]
    texts = system.generate(TEXTS, **OPTIONS)
    assert texts["prompt"].tolist() == [prompt for prompt in TEXTS for _ in range(2)]
    assert texts["seed"].tolist() == [text_seed(3, prompt, copy) for prompt in range(4) for copy in range(2)]
    assert_same(texts, system.generate(TEXTS, batch_size=1, **OPTIONS))
    assert_same(texts[:2], system.generate(TEXTS[:1], **OPTIONS))
    assert not texts["text"].equals(system.generate(TEXTS, **{**OPTIONS, "seed": 4})["text"])
    assert list(system.generate([])) == list(texts)
    assert system.generate(seed=3, max_new_tokens=6)["prompt"].tolist() == [""]


@pytest.mark.parametrize("name", KINDS)
def test_a_generated_text_scores_what_it_was_generated_with(systems, name):
    """Of texts that were cut, so that they have no end; the prompt's last sentence and the text are one line."""
    system, compared = systems[name], 0
    texts = system.generate(["the cat", "", "dogs ran"], number=9, top_p=0.7, max_new_tokens=3, seed=1)
    for row in texts.itertuples():
        new = row.text.split()
        if len(new) == 3 and "<" not in row.text:
            whole = {"texts": row.text, "given": row.prompt}
            if name != "documents":
                whole = {"texts": f"{row.prompt} {row.text}", "reads": "document"}
            words = system.score(**whole)
            own = words[~words["is_end"]][-3:]
            assert own["word"].tolist() == new
            assert row.log_prob == pytest.approx(own["log_prob"].sum(), abs=1e-5)
            compared += 1
    assert compared


def test_systems_of_documents_generate_sentences(systems):
    texts = systems["documents"].generate(TEXTS, sentences=3, **OPTIONS)
    sentences = texts["text"].str.split("\n")
    assert set(sentences.map(len)) == {3}
    assert systems["documents"].generate(TEXTS, **OPTIONS)["text"].tolist() == [each[0] for each in sentences]
    rows = [json.loads(line) for line in json_lines(texts, documents=True)]
    assert [row["prompt"] for row in rows[4:6]] == [["dogs ran", "a"]] * 2
    assert [row["text"] for row in rows] == sentences.tolist()


# -- structures -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_edges_number_the_words_of_prompt_and_text(graph_runs):
    for name in ("gilt", "pieces"):
        system = depgen.load(name, device="cpu")
        for row in system.generate(["the queen", ""], number=2, max_new_tokens=5, seed=3).itertuples():
            words, edges = row.sentence.words, row.sentence.edges
            assert "".join(words).replace("_", "") == "".join(f"{row.prompt} {row.text}".split()).replace("_", "")
            assert all(max(head, dependent) <= len(words) for head, dependent, _ in edges)
            assert edges == row.structure


@pytest.mark.slow
def test_texts_with_graphs_are_a_treebank(graph_runs, tmp_path, capsys):
    common = ["generate", "--run", "gilt", "--number", "3", "--max_new_tokens", "5", "--seed", "4", "--device", "cpu"]
    assert main([*common, "--json"]) == 0
    rows = [row for line in capsys.readouterr().out.splitlines() if (row := json.loads(line))["words"]]
    assert main([*common, "--output", str(tmp_path / "written.conllu")]) == 0
    documents = read_conllu(tmp_path / "written.conllu", by_document=False, graphs=True)
    sentences = [sentence for document in documents for sentence in document.sentences]
    assert [list(sentence.words) for sentence in sentences] == [row["words"] for row in rows]
    edges = [[list(edge) for edge in sentence.edges or ()] for sentence in sentences]
    assert edges == [row["structure"] for row in rows]
    assert any(edges)


def test_texts_without_graphs_are_no_conllu(systems, tmp_path, monkeypatch):
    monkeypatch.setattr(verb, "load", lambda *_, **__: systems["causal"])
    with pytest.raises(UserError, match=r"a\.conllu: .*CausalLM"):
        generate(output=tmp_path / "a.conllu")


def test_brackets_are_over_the_words_of_prompt_and_text(monkeypatch):
    system = labelled_system_of(TG)
    for row in map(json.loads, json_lines(system.generate(["the cat", ""], number=3, max_new_tokens=6))):
        tree, words = Tree.fromstring(row["brackets"]), f"{row['prompt']} {row['text']}".split()
        assert tree.leaves() == words
        spans = [each for each in row["structure"] if each[0] < each[1]]
        assert [(each.label(), each.leaves()) for each in tree.subtrees()] == [
            (label, words[start:end]) for start, end, label in spans
        ]
    pieces = SubwordPieces(size=258).build(documents_of("a"))
    monkeypatch.setitem(system.__dict__, "vocabulary", pieces.with_tables({"labels": ["TOP", "NP", "VP"]}))
    begun, own = ([piece for word in words for piece in pieces.pieces(word)] for words in (["cat"], ["sat", "on"]))
    cat, sat, end = len(begun), len(begun) + len(pieces.pieces("sat")), len(begun) + len(own)
    spans = ((0, end, "TOP"), (0, cat, "NP"), (1, cat, "NP"), (cat, end, "VP"), (cat, sat, "TOP"), (end, end, "NP"))
    monkeypatch.setattr(TransformerGrammar, "generate", lambda *_, **__: [Generated(own, spans, 0.0)])
    (line,) = json_lines(system.generate(["cat"], max_new_tokens=2))
    assert json.loads(line)["brackets"] == "(TOP (NP cat) (VP (TOP sat) on))"


# -- the verb ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A tiny DM-Transformer."""
    return trained(tmp_path_factory.mktemp("generation"), "dmlm")["dmlm"]


PROMPTS = ["the queen near", "our boys", "she", "they"]


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("".join(f"{prompt}\n" for prompt in PROMPTS))
    return path


def test_the_command_prints_what_the_library_gives(run, prompts, tmp_path):
    options, output = {"number": 2, "top_p": 0.9, "seed": 3, "max_new_tokens": 20}, tmp_path / "texts.jsonl"
    named = {"run": str(run), "prompts": prompts, "device": "cpu", **options}
    texts = depgen.load(run, device="cpu").generate(PROMPTS, **options)
    assert generate(**named) == "".join(f"{text}\n" for text in texts["text"])
    assert len(set(texts["text"])) > 4
    lines = generate(**named, json=True)
    assert [json.loads(line) for line in lines.splitlines()] == texts.to_dict("records")
    assert generate(**named, output=output) is None
    assert output.read_text() == lines
    table = tmp_path / "prompts.csv"
    table.write_text("".join(f"{line}\n" for line in ["item,prompt", *(f'1,"{prompt}"' for prompt in PROMPTS)]))
    assert generate(**{**named, "prompts": table}, json=True) == lines
    one = [text for text, prompt in zip(texts["text"], texts["prompt"], strict=True) if prompt == PROMPTS[0]]
    assert generate(**{**named, "prompts": None}, prompt=PROMPTS[0]) == "".join(f"{text}\n" for text in one)


@pytest.mark.slow
def test_prompts_are_brought_into_the_form_that_the_run_has_learnt_from(run, prompts, tmp_path):
    options = {"run": str(run), "number": 2, "max_new_tokens": 20, "device": "cpu", "form": "lower"}
    shouted = tmp_path / "shouted.txt"
    shouted.write_text(prompts.read_text().replace("our boys", "Our BOYS"))
    lower = generate(prompts=prompts, **options)
    assert generate(prompts=shouted, **options) == lower
    assert generate(prompts=shouted, **{**options, "form": "as_is"}) != lower, "capitals are unknown words"


def test_a_run_folder_works_where_corpus_and_parser_are_not(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "empty"))
    moved = shutil.copytree(run, tmp_path / "moved")
    assert main(["generate", "--run", str(moved), "--number", "3", "--top_p", "0.5", "--max_new_tokens", "4"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


# -- options of the run at hand ---------------------------------------------------------------------------------------
