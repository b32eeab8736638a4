"""Texts that GiLT generates with their graphs: JSON lines, CoNLL-U, and where they are cut."""

import json

import pytest

import depgen
from depgen.cli import main
from depgen.errors import UserError
from depgen.evaluation.text.generated_text import GeneratedText
from depgen.evaluation.text.generation import generate
from depgen.trees.conllu import read_conllu
from tests.evaluation.test_system import MODELS, system_of


@pytest.mark.slow
def test_edges_number_the_words_of_prompt_and_text(graph_runs):
    for name in ("gilt", "pieces"):
        system = depgen.load(name, device="cpu")
        for each in system.generate(["the queen", ""], number=2, max_new_tokens=5, seed=3):
            text = f"{each.prompt} {each.text}"
            assert "".join(each.words).replace("_", "") == "".join(text.split()).replace("_", "")
            assert all(max(head, dependent) <= len(each.words) for head, dependent, _ in each.structure)
    assert set(system.generate([""], max_new_tokens=2).rows()[0]) >= {"words", "structure"}


@pytest.mark.slow
def test_texts_with_graphs_are_a_treebank(graph_runs, tmp_path, capsys):
    common = ["generate", "--run", "gilt", "--number", "3", "--max_new_tokens", "5", "--seed", "4", "--device", "cpu"]
    assert main([*common, "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert main([*common, "--output", str(tmp_path / "written.conllu")]) == 0
    sentences = [
        sentence
        for document in read_conllu(tmp_path / "written.conllu", by_document=False, graphs=True)
        for sentence in document.sentences
    ]
    rows = [row for row in rows if row["words"]]
    assert [list(sentence.words) for sentence in sentences] == [row["words"] for row in rows]
    assert [[list(edge) for edge in sentence.edges or ()] for sentence in sentences] == [
        row["structure"] for row in rows
    ]
    assert any(sentence.edges for sentence in sentences)


def test_the_message_about_cut_texts_counts_tokens(graph_runs, caplog):
    system = depgen.load("gilt", device="cpu")
    texts = system.generate(number=4, max_new_tokens=3, seed=1)
    assert max(len(each.words) for each in texts) == 3
    cut = sum(len(each.words) == 3 for each in texts)
    assert f"{cut} of 4 texts were cut at 3 new tokens" in caplog.text
    caplog.clear()
    texts = system.generate(number=2, max_new_tokens=2, beam_size=2)
    assert max(len(each.words) for each in texts) == 2
    assert "cut at 2 new tokens" in caplog.text


def test_a_treebank_is_no_json(graph_runs, tmp_path, capsys):
    assert main(["generate", "--run", "gilt", "--output", str(tmp_path / "a.conllu"), "--json"]) == 2
    assert "leave out --json" in capsys.readouterr().err


def test_texts_without_graphs_are_no_conllu(tmp_path, monkeypatch, capsys):
    system = system_of(MODELS["causal"])
    monkeypatch.setattr("depgen.evaluation.text.generation.load", lambda *_, **__: system)
    with pytest.raises(UserError, match=r"a\.conllu: .*CausalLM"):
        generate(output=tmp_path / "a.conllu")
    with pytest.raises(UserError, match="CoNLL-U"):
        GeneratedText("", "a", 1, 0.0).to_conllu("1")
    assert GeneratedText("", "", 1, 0.0, (), ()).to_conllu("1") == ""
