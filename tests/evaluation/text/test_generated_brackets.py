"""Texts that TG generates with their trees, over words and over pieces of words."""

import json
from functools import partial

import pytest
import yaml
from nltk import Tree

from depgen.cli import main
from depgen.data.vocabulary import SubwordPieces
from depgen.decoding.generation import Generated
from depgen.models.tg import TransformerGrammar
from tests.evaluation.trees.test_bracketed_text import system_of
from tests.fixtures.kinds import EXPERIMENTS
from tests.vocabularies import documents_of


def leaves_and_spans(line):
    """The words of a line, and start, end and label of each constituent from the outside to the inside."""
    tree = Tree.fromstring(line)
    for place, leaf in enumerate(tree.treepositions("leaves")):
        tree[leaf] = (place, tree[leaf])
    spans = [[each.leaves()[0][0], each.leaves()[-1][0] + 1, each.label()] for each in tree.subtrees()]
    return [word for _, word in tree.leaves()], spans


@pytest.mark.slow
def test_generate_and_parse_write_labelled_brackets(tmp_path, monkeypatch, capsys):
    for root in ("CACHE", "RUNS"):
        monkeypatch.setenv(f"DEPGEN_{root}", str(tmp_path / root))
    (tmp_path / "tg.yaml").write_text(yaml.safe_dump(EXPERIMENTS["tg"]))
    assert main(["fit", "--config", str(tmp_path / "tg.yaml"), "--name", "tg"]) == 0
    capsys.readouterr()
    assert main(["generate", "--run", "tg", "--number", "6", "--max_new_tokens", "6", "--device", "cpu", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 6
    for row in rows:
        words, spans = leaves_and_spans(row["brackets"])
        assert words == row["text"].split()
        assert spans == [each for each in row["structure"] if each[0] < each[1]]
    (tmp_path / "texts.txt").write_text("".join(f"{row['text']}\n" for row in rows))
    capsys.readouterr()
    assert main(["parse", "--run", "tg", "--input", str(tmp_path / "texts.txt"), "--format", "brackets"]) == 0
    for row, line in zip(rows, capsys.readouterr().out.splitlines(), strict=True):
        words, spans = leaves_and_spans(line)
        assert words == row["text"].split()
        assert spans[0][:2] == [0, len(words)]


def test_brackets_of_pieces_are_over_words(monkeypatch):
    system = system_of(partial(TransformerGrammar, labels=3))
    pieces = SubwordPieces(size=258).build(documents_of("a"))
    monkeypatch.setitem(system.__dict__, "vocabulary", pieces.with_tables({"labels": ["TOP", "NP", "VP"]}))
    begun, own = ([piece for word in words for piece in pieces.pieces(word)] for words in (["cat"], ["sat", "on"]))
    cat, sat, end = len(begun), len(begun) + len(pieces.pieces("sat")), len(begun) + len(own)
    spans = ((0, end, "TOP"), (0, cat, "NP"), (1, cat, "NP"), (cat, end, "VP"), (cat, sat, "TOP"), (end, end, "NP"))
    monkeypatch.setattr(system.model, "generate", lambda *_, **__: [Generated(own, spans, 0.0)])
    (text,) = system.generate(["cat"], max_new_tokens=2)
    assert text.brackets == "(TOP (NP cat) (VP (TOP sat) on))"
    assert system.generate(["cat"]).rows()[0]["brackets"] == text.brackets
