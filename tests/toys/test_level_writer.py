"""A system trains on the levels of trees, scores texts with their trees, and writes them from the root down."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml

from depgen.annotation.trivial import GoldTrees
from depgen.cli import main
from depgen.data.batch import ItemBatch, TokenItem
from depgen.data.saved_vocabulary import load_vocabulary
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.loading import load_run
from depgen.training.checkpoints import load_checkpoint
from depgen.trees.sentence import Document, Sentence
from depgen.trees.tree import check_tree
from tests.contract.runs import fit
from tests.contract.systems import SYSTEMS, built
from tests.contract.trees import TREES, levels_of
from tests.toys.experiments import TOYS
from tests.toys.level_writer import Growing, LevelData, LevelOptions, LevelWords, collate_levels, columns_of, expansions

SENTENCE = Sentence(
    ("my", "dog", "also", "likes", "eating", "sausage"),
    (2, 4, 2, 0, 4, 5),
    ("poss", "nsubj", "advmod", "root", "xcomp", "dobj"),
)


class Corpus:
    name, published = "one sentence", {}

    def documents(self, split):
        yield Document((SENTENCE,), "1")

    def fingerprint(self, split):
        return "one sentence"


def test_items_are_a_sentence_at_its_levels(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path))
    data = LevelData(Corpus(), annotator=GoldTrees(), vocabulary=LevelWords())
    vocabulary, items = data.vocabulary, data.items("train")
    assert vocabulary.tables["expansions"] == [
        ["*"], ["*", "dobj"], ["nsubj", "*", "xcomp"], ["poss", "*", "advmod"],
    ]  # fmt: skip
    batch = collate_levels(ItemBatch([items[k] for k in range(3)], 10, vocabulary))
    assert items.lengths.tolist() == batch.lengths.tolist() == [1, 3, 6]
    read = [[vocabulary.types[each] for each in row[:n]] for row, n in zip(batch.inputs, batch.lengths, strict=True)]
    assert read == [
        ["[root]"], ["[nsubj]", "likes", "[xcomp]"], ["[poss]", "dog", "[advmod]", "likes", "eating", "[dobj]"],
    ]  # fmt: skip
    assert [row[:n].tolist() for row, n in zip(batch.heads, batch.lengths, strict=True)] == [
        [0], [2, 0, 2], [2, 4, 2, 0, 4, 5],
    ]  # fmt: skip
    assert vocabulary.decode(batch.targets[1][batch.is_open[1]].tolist()) == "dog eating"
    assert [row[here].tolist() for row, here in zip(batch.expansions, batch.is_open, strict=True)] == [
        [2], [3, 1], [0, 0, 0],
    ]  # fmt: skip
    without = Vocabulary.of_words([], specials=["[nsubj]", "[root]"], tables={"expansions": [["*"]]})
    with pytest.raises(UserError, match=r"item 1: the vocabulary has no expansion 'nsubj \*'"):
        columns_of(
            TokenItem(0, np.array([1, 1]), np.array([2, 0]), None, np.array(["nsubj", "root"])), 1, {("*",): 0}, without
        )


def test_a_sentence_grows_into_the_levels_that_it_is_trained_on():
    vocabulary = LevelWords().build([Document((SENTENCE,), "")])
    placeholders = {name[1:-1]: each for name, each in vocabulary.special_ids.items() if name[0] == "["}
    ids = [vocabulary.pieces(word)[0] for word in SENTENCE.words]
    item = TokenItem(0, np.array(ids), np.array(SENTENCE.heads), relations=np.array(SENTENCE.relations))
    rows = list(expansions(SENTENCE.heads, SENTENCE.relations))
    known, text = {row: number for number, row in enumerate(rows)}, Growing(torch.Generator(), [placeholders["root"]])
    for level in (1, 2, 3):
        inputs, words, heads, chosen, opened = columns_of(item, level, known, vocabulary)
        assert (text.ids, text.heads, text.is_open) == (inputs.tolist(), heads.tolist(), opened.tolist())
        here = opened.astype(bool)
        text.expand(words[here].tolist(), [rows[each] for each in chosen[here]], placeholders)
    assert (text.ids, tuple(text.heads), tuple(text.relations)) == (ids, SENTENCE.heads, SENTENCE.relations)
    assert not any(text.is_open)


@torch.no_grad()
def test_states_read_the_heads_of_all_words_and_the_expansion_of_their_own_placeholder():
    model = built(SYSTEMS["toy of levels"])
    batch = collate_levels(ItemBatch([levels_of(0, [5, 6, 7, 8])[-1]], 1, TREES))

    def states(batch):
        return model.read(batch.inputs, batch.heads, batch.is_word, batch.is_open, lambda _: batch.expansions)[0]

    before, first, is_open = states(batch), torch.tensor([[1, 0, 0, 0]]), batch.is_open[0]
    moved = (states(replace(batch, expansions=batch.expansions + 1)) != before)[0].any(1)
    assert moved.tolist() == is_open.tolist() == [True, False, False, False]
    assert (states(replace(batch, heads=batch.heads + first)) != before)[0].any(1).all()


def test_texts_keep_to_their_limits_and_hold_no_placeholder():
    model = built(SYSTEMS["toy of levels"])
    wanted = {"vocabulary": TREES, "seeds": range(500), "number": 500}
    for most, levels in ((7, 9), (99, 3)):
        options = LevelOptions(temperature=30.0, levels=levels)
        texts = model.generate([[]], options=options, max_new_tokens=most, **wanted)
        lengths = Counter(len(each.ids) for each in texts)
        assert max(lengths) == min(most, 2**levels - 1), lengths
        assert not {*range(5)} & {token for each in texts for token in each.ids}
        for each in texts:
            check_tree(*each.structure)
    with pytest.raises(UserError, match="leave out prompts"):
        model.generate([[5]], options=options, max_new_tokens=3, **wanted)
    with pytest.raises(UserError, match="levels"):
        LevelOptions(levels=0)


def test_a_run_writes_texts_with_trees_by_the_command_line_as_in_python(tmp_path, monkeypatch, capsys):
    for root in ("cache", "runs"):
        monkeypatch.setenv(f"DEPGEN_{root.upper()}", str(tmp_path / root))
    run = fit(tmp_path, TOYS["toy_of_levels"])
    assert main(["test", "--run", str(run), "--trainer.accelerator", "cpu"]) == 0
    assert "asked for" not in capsys.readouterr().err  # the size of the table is no setting
    settings = [yaml.safe_load((run / "config.yaml").read_text())["model"]["init_args"]]
    settings.append(load_checkpoint(run / "checkpoints" / "best.ckpt")["hyper_parameters"])
    sizes = [None, len(load_vocabulary(run / "vocabulary").tables["expansions"])]
    assert [each["expansions"] for each in settings] == sizes
    named = ["generate", "--run", str(run), "--device", "cpu"]
    assert main([*named, "--json", "--number", "3", "--max_new_tokens", "9", "--levels", "4"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    system = load_run(str(run), device="cpu")
    again = system.generate(number=3, max_new_tokens=9, levels=4)
    assert [(row["text"], row["log_prob"]) for row in rows] == [(each.text, each.log_prob) for each in again]
    for row, each in zip(rows, again, strict=True):
        assert row["structure"] == [list(part) for part in each.structure]
        ids = [system.tokenizer.pieces(word)[0] for word in each.text.split()]
        ((scores,),) = system.model.sentence_log_probs(
            [[ids]], vocabulary=system.tokenizer, structure=[[each.structure]]
        )
        assert scores.sum() == pytest.approx(each.log_prob, abs=1e-4)
    assert main(["generate", "--help", "--run", str(run)]) == 0
    assert "--levels" in capsys.readouterr().out
    for verb in (["score", str(tmp_path / "text.txt")], ["generate", "--prompts", str(tmp_path / "text.txt")]):
        (tmp_path / "text.txt").write_text("a text\n")
        assert main([*verb, "--run", str(run), "--device", "cpu"]) == 2
        assert "LevelWriter" in capsys.readouterr().err
