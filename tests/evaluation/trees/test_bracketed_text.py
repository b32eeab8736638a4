"""Brackets that Pushdown and TG find in texts: over the words of the text, by the verb, and what is refused."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from nltk import Tree

from depgen.backbones.transformer import Transformer
from depgen.cli import main
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.reading import Reading
from depgen.evaluation.system import System
from depgen.evaluation.text_documents import document_of
from depgen.evaluation.trees import parse
from depgen.evaluation.trees.bracketed_text import bracketed_lines
from depgen.models.causal_lm import CausalLM
from depgen.models.pushdown import Pushdown
from depgen.models.tg import TransformerGrammar
from depgen.trees.constituency import format_bracketing
from depgen.trees.tree_strings import symbols_of

WORDS = ("the", "cat", "sat", "ran", "fast")
TEXT = "The cat , ran ran fast .\n... !\nthe"
BACKBONE = partial(Transformer, layers=2, width=8, attention_heads=2, feedforward=8, dropout=0.0, positions="relative")


def system_of(kind, form="bare"):
    torch.manual_seed(5)
    vocabulary = Vocabulary.of_words(WORDS, tables={"labels": ["TOP", "S", "NP"]})
    model = kind(BACKBONE, vocabulary.size).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return System(model, vocabulary, Path("run"), Path("run/best.ckpt"), Reading(form))


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A text, and Pushdown as whatever run is named."""
    monkeypatch.setattr(parse, "load", lambda run, **_: system_of(Pushdown))
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def test_words_that_are_not_read_keep_their_place_and_begin_and_end_no_span():
    system = system_of(Pushdown)
    ids = [system.vocabulary.pieces(word)[0] for word in ("the", "cat", "ran", "ran", "fast")]
    (spans,) = system.model.bracketings([ids], vocabulary=system.vocabulary, word_starts=[np.ones(5, bool)])
    places, ends = [0, 1, 3, 4, 5], [1, 2, 4, 5, 6]
    wide = {(places[start], ends[end - 1]) for start, end, _ in spans if end - start > 1}
    assert len(wide) == 4, "a binary tree"
    first = format_bracketing(TEXT.splitlines()[0].split(), frozenset(wide))
    assert bracketed_lines(system, document_of(TEXT, name="t")) == [first, "... !", "the"]
    assert bracketed_lines(system, document_of(TEXT, name="t"), tokens_per_batch=1)[0] == first


def test_labels_are_written_as_in_the_penn_treebank(monkeypatch):
    system = system_of(partial(TransformerGrammar, labels=3, beam_size=5))
    text = "( The cat ran ran fast .\n... !\nthe"
    ids = [system.vocabulary.pieces(word)[0] for word in ("the", "cat", "ran", "ran", "fast")]
    (expected,) = system.model.bracketings([ids], vocabulary=system.vocabulary, word_starts=[])
    trees = [Tree.fromstring(line) for line in bracketed_lines(system, document_of(text, name="t"))]
    assert [tree.leaves() for tree in trees] == [["-LRB-", *text.split()[1:7]], ["...", "!"], ["the"]]
    words = trees[0].leaves()
    within = [(expected[0][2], words)] + [(label, words[start + 1 : end + 1]) for start, end, label in expected[1:]]
    assert [(tree.label(), tree.leaves()) for tree in trees[0].subtrees()] == within
    wide, lone = [(0, 5, 1), (0, 2, 2), (2, 5, 0), (2, 4, 2), (4, 5, 2)], [(0, 1, 1), (0, 1, 2)]
    best = {5: symbols_of(wide, 5)[:-1], 1: symbols_of(lone, 1)[:-1]}
    monkeypatch.setattr(system.model, "best_structures", lambda sentences, **_: [best[len(each)] for each in sentences])
    assert bracketed_lines(system, document_of(text, name="t")) == [
        "(S -LRB- (NP The cat) (TOP (NP ran ran) (NP fast)) .)",
        "(TOP ... !)",
        "(S (NP the))",
    ]


def test_the_beam_counts(monkeypatch):
    system, sizes = system_of(Pushdown), []
    own = Pushdown.best_structures
    monkeypatch.setattr(Pushdown, "best_structures", lambda *a, **k: sizes.append(k["beam_size"]) or own(*a, **k))
    for beam_size in (None, 2):
        bracketed_lines(system, document_of("the cat", name="t"), beam_size=beam_size)
    assert sizes == [300, 2]


def test_the_verb_writes_a_line_a_sentence(file, tmp_path, capsys):
    expected = bracketed_lines(system_of(Pushdown), document_of(TEXT, name="t"))
    named = ["parse", "--input", str(file), "--format", "brackets", "--beam_size", "300"]
    assert main(named) == 0
    assert capsys.readouterr().out.splitlines() == expected
    assert main([*named, "--output", str(tmp_path / "brackets.txt")]) == 0
    assert (tmp_path / "brackets.txt").read_text().splitlines() == expected


def test_what_gives_no_brackets_or_no_trees_names_the_other_way(file, capsys):
    assert main(["parse", "--input", str(file)]) == 2
    assert "`depgen parse --format brackets`" in capsys.readouterr().err
    with pytest.raises(UserError, match="can't be combined with --format"):
        parse.parse(input=file, parser="ewt", format="brackets")
    with pytest.raises(UserError, match="tree_regularization"):
        bracketed_lines(system_of(CausalLM), document_of("the cat", name="t"))
    masked = system_of(Pushdown)
    masked.__dict__["model"] = torch.nn.Identity()
    with pytest.raises(UserError, match="Identity brackets no sentences"):
        bracketed_lines(masked, document_of("the cat", name="t"))
