"""F1 of a network's bracketings and what `depgen predict` writes, with networks whose distances are known."""

from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from depgen.backbones.on_lstm import ONLSTM
from depgen.backbones.transformer import Transformer
from depgen.cli import main
from depgen.data.generated import GeneratedLanguage
from depgen.data.vocabulary import SubwordPieces, Vocabulary
from depgen.errors import UserError
from depgen.evaluation.bracketing import (
    BracketingOptions,
    bracketing,
    floors,
    treebank_sentences,
    word_distances,
)
from depgen.evaluation.parsing import constituents_over_words
from depgen.evaluation.trained import Trained
from depgen.models.causal_lm import CausalLM
from depgen.trees.constituency import bracketing_of_distances
from tests.fixtures.kinds import named
from tests.vocabularies import documents_of

TREES = """
( (S (NP (DT The) (NN cat)) (, ,) (VP (VBD saw) (NP (CD 12) (NNS dogs))) (. .)) )
( (S (NP (PRP She)) (VP (VBD paid) (NP ($ $) (CD 3) (-NONE- *U*))) (. .)) )
( (X (. !)) )
( (S (NP (DT the) (JJ old) (NN dog)) (VP (VBD slept)) (. .)) )
"""
KNOWN = Vocabulary.of_words(["the", "cat", "saw", "N", "dogs", "she", "paid", "$", "old", "slept"])


class ByWord(torch.nn.Module):
    """Two layers of distances that are functions of the token: its id, and the negative of it."""

    def __init__(self):
        super().__init__()
        self.one = torch.nn.Parameter(torch.ones(()))

    def syntactic_distances(self, tokens, *, padding=None):
        assert padding is not None
        assert (tokens[padding] == 0).all()
        assert (tokens[:, 0] == 0).all()
        return torch.stack((tokens, -tokens)).float() * self.one.detach()


@pytest.fixture
def treebank(tmp_path):
    (tmp_path / "wsj_0001.mrg").write_text(TREES)
    return str(tmp_path)


@pytest.fixture
def trained(tmp_path):
    model = CausalLM(lambda size: Transformer(size, layers=1, width=8, attention_heads=1, feedforward=8), KNOWN.size)
    return Trained(model.eval(), KNOWN, tmp_path, tmp_path / "best.ckpt")


def rows_of(system, treebank, **options):
    return bracketing(system, BracketingOptions(treebank, **options)).rows.set_index("name")


def test_spans_of_pieces_are_those_of_words():
    assert constituents_over_words([(0, 3, "NP"), (1, 3, "NP"), (0, 2, "NP")], np.array([0, 0, 1])) == [
        (0, 2, "NP"), (0, 1, "NP"),
    ]  # fmt: skip
    assert constituents_over_words([(0, 1, ""), (0, 3, ""), (2, 3, "")], np.array([0, 1, 2])) == [(0, 3, "")]


def test_a_systems_own_trees_are_scored(treebank, trained, monkeypatch):
    def bracketings(sentences, *, vocabulary, word_starts, beam_size):
        return [[(start, len(ids), label) for start in range(len(ids) - 1)] for ids in sentences]

    monkeypatch.setattr(trained.model, "bracketings", bracketings)
    monkeypatch.setattr(trained.model, "tree_regularization", "some")
    label = ""
    rows = rows_of(trained, treebank, seeds=1)
    assert rows.loc["trees", "f1"] == rows.loc["right-branching", "f1"]
    assert "layer 0" not in rows.index
    assert "labelled_f1" not in rows
    label = "VP"
    labelled = rows_of(trained, treebank, seeds=1)
    assert labelled[rows.columns].equals(rows)
    # gold: S NP VP NP of 5 words, S NP VP NP and S NP VP of 4; found: 4, 3 and 3, and right are VP 2-5 and VP 1-4
    for key, value in (("precision", 2 / 10), ("recall", 2 / 11), ("f1", 4 / 21)):
        assert labelled.loc["trees", f"labelled_{key}"] == pytest.approx(100 * value)
    label = "TOP"
    assert "labelled_f1" not in rows_of(trained, treebank, seeds=1)


def test_sentences_are_written_as_the_models_text_is(treebank):
    first, second, third = treebank_sentences(BracketingOptions(treebank))
    assert first.words == ("The", "cat", "saw", "12", "dogs")
    assert first.spans == ((0, 5, "S"), (0, 2, "NP"), (2, 5, "VP"), (3, 5, "NP"))
    assert second.words == ("She", "paid", "$", "3")
    assert len(third.words) == 4
    assert [len(tree.words) for tree in treebank_sentences(BracketingOptions(treebank, max_words=4))] == [4, 4]
    with pytest.raises(UserError, match=r"\*\.txt: expected bracketed trees"):
        treebank_sentences(BracketingOptions(treebank, "*.txt"))
    with pytest.raises(UserError, match="at most 1 words"):
        treebank_sentences(BracketingOptions(treebank, max_words=1))


def test_scores_are_those_of_the_distances(treebank, trained):
    trained.model.backbone = ByWord()
    found = bracketing(trained, BracketingOptions(treebank, seeds=2, batch_size=2))
    rows = found.rows.set_index("name")
    # ids: the 2 cat 3 saw 4 N 5 dogs 6 | she 7 paid 8 $ 9 N 5 | the 2 old 10 dog <unk> 1 slept 11
    # layer 0: ((((the cat) saw) N) dogs) 1 of 3 + 3; (((she paid) ($ N))) inner {02, 24} of gold {14, 24} 1 of 2 + 2;
    #          cut at slept, then at old: ((the (old <unk>)) slept) inner {03, 13} of gold {03} 1 of 1 + 2
    by_sentence = [100 * 2 / 6, 100 * 2 / 4, 100 * 2 / 3]
    items = found.items[found.items["name"] == "layer 0"]
    assert (items["sentence"].tolist(), items["words"].tolist()) == ([0, 1, 2], [5, 4, 4])
    assert items["f1"].tolist() == pytest.approx(by_sentence)
    assert rows.loc["layer 0", "f1"] == pytest.approx(np.mean(by_sentence))
    assert rows.loc["layer 0", "corpus_f1"] == pytest.approx(100 * 6 / 13)
    # layer 1: right-branching, inner {15, 25, 35}; ((she (paid $)) N); ((the old) (<unk> slept))
    assert rows.loc["layer 1", "f1"] == pytest.approx(100 * (4 / 6 + 0 + 0) / 3)
    assert rows.loc["right-branching", "f1"] == pytest.approx(100 * (4 / 6 + 1 + 0) / 3)
    assert rows.loc["left-branching", "f1"] == pytest.approx(100 * (2 / 6 + 0 + 2 / 3) / 3)
    assert found.rows["unknown"].tolist() == pytest.approx([100 / 13] * 6)
    random = [rows_of(trained, treebank, seeds=1).loc["random trees", "f1"], rows.loc["random trees", "f1"]]
    assert rows.loc["random trees", "deviation"] == pytest.approx(abs(random[0] - random[1]) * np.sqrt(2))


def test_what_can_not_be_scored_is_refused(treebank, trained):
    with pytest.raises(UserError, match="CausalLM, which does not parse"):
        rows_of(trained, treebank)
    with pytest.raises(UserError, match=r"No corpus at .*nltk"):
        rows_of(trained, "nowhere")


def test_distances_do_not_depend_on_the_batch():
    torch.manual_seed(0)
    network = ONLSTM(KNOWN.size, layers=2, embedding_size=4, hidden_size=6, chunk_size=2).eval()
    sentences = [["the", "cat"], ["she", "paid", "$", "N", "zebras"], ["slept"]]
    together = word_distances(network, KNOWN, sentences, batch_size=3)
    alone = word_distances(network, KNOWN, sentences, batch_size=1)
    for one, other, words in zip(together, alone, sentences, strict=True):
        assert one.shape == (2, len(words))
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_word_of_several_pieces_has_the_distance_of_its_first():

    pieces = SubwordPieces(size=258).build(documents_of("a"))
    first = [pieces.pieces(word)[0] for word in ("cat", "sat")]
    found = word_distances(ByWord(), pieces, [["cat", "sat"]], batch_size=1)
    assert len(pieces.pieces("cat")) > 1
    assert found[0][0].tolist() == first


def test_floors_repeat_and_cut_by_the_same_rule():
    first, second = (floors([5, 2, 9], 2) for _ in range(2))
    assert first == second
    assert first["random distances"][0] != first["random distances"][1]
    values = np.random.default_rng((1, 2)).random(9)
    assert first["random distances"][1][2] == bracketing_of_distances(values)
    assert all(len(tree) == 8 for trees in first.values() for tree in (each[2] for each in trees))


# -- predict ------------------------------------------------------------------------------------------------------


CORPUS = named("data.generated.GeneratedLanguage", train=12, valid=4, test=5, sentences=[5, 5])


def experiment(data, backbone):
    options = {"corpus": CORPUS, **({"columns": 2} if data.endswith("StreamData") else {})}
    return {
        "trainer": {"max_epochs": 1, "accelerator": "cpu", "enable_progress_bar": False},
        "model": named("models.causal_lm.CausalLM", backbone=backbone),
        "data": {"class_path": data, "init_args": options},
    }


PRPN = named("backbones.prpn.PRPN", embedding_size=8, hidden_size=8, slots=3, lookback=2)


@pytest.fixture
def place(tmp_path, monkeypatch):
    for name in ("CACHE", "RUNS"):
        monkeypatch.setenv(f"DEPGEN_{name}", str(tmp_path / name.lower()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("data", ["depgen.data.text.TextData", "depgen.data.stream.StreamData"])
def test_predict_writes_one_bracketing_a_text(place, data, capsys, treebank):
    Path("prpn.yaml").write_text(yaml.safe_dump(experiment(data, PRPN)))
    assert main(["fit", "--config", "prpn.yaml"]) == 0, capsys.readouterr().err
    assert main(["predict"]) == 0, capsys.readouterr().err
    (run,) = (place / "runs" / "prpn").iterdir()
    assert f"bracketings\t{run / 'bracketings'}" in capsys.readouterr().out
    lines = (run / "bracketings" / "layer-0.txt").read_text().splitlines()
    corpus = GeneratedLanguage(**CORPUS["init_args"])
    texts = [[word for each in document.sentences for word in each.words] for document in corpus.documents("test")]
    for line, words in zip(lines, texts, strict=True):
        assert len(line.replace("(", "").replace(")", "").split()) == len(words) == line.count("(") + 1
    assert main(["evaluate", "bracketing", "--treebank", treebank, "--seeds", "1"]) == 0, capsys.readouterr().err
    assert "\noverall\tlayer 0\t" in capsys.readouterr().out
