"""Sentences with trees, and what writes them level by level."""

import math
from functools import partial

import numpy as np
import torch
from hypothesis import strategies as st

from depgen.backbones.transformer import Transformer
from depgen.data.batch import ItemBatch, TokenItem
from depgen.data.levels import ExpansionVocabulary, LevelItem, with_placeholders
from depgen.data.vocabulary import Vocabulary, encode
from depgen.models.itexp import ITEXP, collate_levels
from depgen.trees.sentence import Document, Sentence
from tests import oracles_of_itexp as oracle
from tests.trees.trees import projective_heads

RELATIONS = ["nsubj", "obj", "amod", "det"]
LIKES = Sentence(tuple(oracle.LIKES["words"]), tuple(oracle.LIKES["heads"]), tuple(oracle.LIKES["relations"]))


@st.composite
def trees(draw, max_size=9):
    """A sentence with a projective tree with one root."""
    heads = draw(projective_heads(max_size=max_size))
    words = [draw(st.sampled_from("abcdefg")) for _ in heads]
    relations = ["root" if head == 0 else draw(st.sampled_from(RELATIONS)) for head in heads]
    return Sentence(tuple(words), tuple(heads), tuple(relations))


def built(sentences, **options):
    """The vocabulary of sentences."""
    return ExpansionVocabulary(**options).build([Document(tuple(sentences), "")])


def item_of(number, sentence, vocabulary, level=None, weight=1.0):
    """A sentence of words as an item."""
    ids = encode(vocabulary, sentence.words).ids
    heads, relations = np.array(sentence.heads), np.array(sentence.relations, dtype=object)
    return LevelItem(TokenItem(number, ids, heads, relations=relations), level, weight)


def written_levels(sentence, scheme="left-right"):
    """The levels of the binarised tree, by the slow version."""
    return oracle.levels(sentence.words, oracle.binarised(sentence.heads, scheme), sentence.relations)


def expansion_of(pattern):
    """A pattern as a row of the table."""
    return [*pattern[0], "HEAD", *pattern[1]]


NETWORK = partial(
    Transformer, layers=2, width=8, attention_heads=2, feedforward=8, causal=False, tied=False, output_bias=True
)
ROWS = [["<pad>"], ["<unk>"], ["HEAD"], ["left", "HEAD"], ["HEAD", "right"], ["left", "HEAD", "right"]]
BINARY = with_placeholders(
    Vocabulary.of_words("abcdefgh"),
    ["ROOT", "left", "right"],
    {"expansions": ROWS, "binarization": ["left-right"]},
)
"""Of binary trees: eight words and three placeholders."""


def small(vocabulary=BINARY, **options):
    """A system in double precision and evaluation mode, with weights so large that each part shows."""
    tables = {name: len(vocabulary.tables[name]) for name in ("expansions", "placeholders")}
    model = ITEXP(NETWORK, vocabulary.size, **{**tables, "max_length": 40, **options})
    model.configure_model()
    model.double()
    torch.manual_seed(14)  # whose texts are of many kinds
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    with torch.no_grad():
        model.expansion_embedding.weight[0] = 0
    return model.eval()


SIDES = ["left", "right"]
FULL = with_placeholders(
    Vocabulary.of_words("abcdefgh"),
    ["ROOT", *SIDES],
    {
        "expansions": [
            ["<pad>"], ["<unk>"],
            *([*left, "HEAD", *right] for left in ([], ["left"], ["right"]) for right in ([], ["left"], ["right"])),
        ],
        "binarization": ["left-right"],
    },
)  # fmt: skip
"""All expansions of two relations."""
TREES = [[0], [2, 0], [0, 1], [2, 0, 2], [0, 1, 2], [2, 3, 0], [3, 1, 0], [0, 1, 1], [3, 3, 0], [0, 3, 1], [2, 4, 2, 0]]


def sentence_of(heads, words="abcd"):
    """A sentence of FULL whose relations are the sides of the heads."""
    relations = ["root" if not head else "left" if word < head else "right" for word, head in enumerate(heads, 1)]
    ids = np.array([FULL.pieces(word)[0] for word in words[: len(heads)]])
    return TokenItem(0, ids, np.array(heads), relations=np.array(relations, dtype=object))


def batch_of_trees(*trees, vocabulary=FULL, level=None):
    """Sentences with these trees at all their levels, or at one."""
    return collate_levels(ItemBatch([LevelItem(sentence_of(heads), level) for heads in trees], 1, vocabulary))


def logarithm(share):
    return math.log(share) if share else -math.inf


def network_scores(model, vocabulary):
    """The scores of one level by a single row without padding, as the slow version wants them."""
    numbers = {each: k for k, each in enumerate(vocabulary.types)}
    rows = [tuple(row) for row in vocabulary.tables["expansions"]]
    named = {row: k for k, row in enumerate(rows)}
    kept = [k for k, name in enumerate(vocabulary.types) if name[0] != "[" and name != "<eos>"]

    def states(inputs, heads, patterns):
        ids = torch.tensor([[numbers[each] for each in inputs]])
        chosen = [0 if each is None else named[(*each[0], "HEAD", *each[1])] for each in patterns]  # 0: padding
        found = model.encode(
            ids, torch.tensor([heads]), torch.ones_like(ids, dtype=torch.bool), lambda _: torch.tensor([chosen])
        )
        return [each[0] for each in found]

    def patterns_of(inputs, heads):
        _, scores = states(inputs, heads, [None] * len(inputs))
        shares = [oracle.softmax(row[1:].tolist()) for row in scores]
        return [
            {(row[: row.index("HEAD")], row[row.index("HEAD") + 1 :]): logarithm(p)
             for row, p in zip(rows[1:], each, strict=True) if "HEAD" in row}
            for each in shares
        ]  # fmt: skip

    def words_of(inputs, heads, patterns):
        hidden, _ = states(inputs, heads, patterns)
        logits = hidden @ model.backbone.output_weight.T + model.backbone.output_bias
        shares = [oracle.softmax(row[kept].tolist()) for row in logits]
        return [{vocabulary.types[k]: logarithm(p) for k, p in zip(kept, each, strict=True)} for each in shares]

    return patterns_of, words_of
