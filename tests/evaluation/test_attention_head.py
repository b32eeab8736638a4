"""The attention head that a masked Transformer parses by, against the figures that every head would get."""

import random
from itertools import product
from pathlib import Path

import pytest
import torch

from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.trained import Trained
from depgen.evaluation.treebank import ParsingOptions, parsing
from depgen.evaluation.unit_scores import sentence_batches
from depgen.models.masked_transformer import MaskedTransformer
from depgen.trees.sentence import Sentence
from tests.evaluation.treebanks import Treebank
from tests.models.encoders import encoder, spread

WORDS = ["ash", "birch", "cedar", "elm", "fir"]
VOCABULARY = Vocabulary.of_words(WORDS, specials=["mask_id"])


def sentences_of(seed):
    draw, made = random.Random(seed), []
    for length in (1, 6, 3, 7, 5, 2, 8):
        heads = [draw.randint(0, word) for word in range(length)]  # on a word before it, and one root first
        made.append(Sentence(tuple(draw.choices(WORDS, k=length)), heads=tuple(heads)))
    return made


def model_of(**options):
    torch.manual_seed(2)
    return spread(MaskedTransformer(encoder(), VOCABULARY.size, **options)).eval()


TREEBANK = Treebank({split: sentences_of(seed) for seed, split in enumerate(("train", "valid", "test"), start=1)})


def row_of(model, **options):
    system = Trained(model, VOCABULARY, Path("run"), Path("best.ckpt"))
    rows = parsing(system, ParsingOptions(TREEBANK, seeds=1, resamples=10, **options)).rows
    return rows.set_index("name").loc["argmax"]


@pytest.mark.parametrize("tokens_per_batch", [8, 8192])
def test_the_chosen_head_has_the_highest_uda_of_argmax_heads(tokens_per_batch):
    batches = sentence_batches(VOCABULARY, sentences_of(1), tokens_per_batch=tokens_per_batch)
    found, figures = model_of().choose_attention_head(batches), {}
    for place in product(range(2), range(2)):
        figures[place] = row_of(model_of(parses_by=place), splits=["train"])["uda"]
    assert len(set(figures.values())) > 1
    assert found == max(figures, key=figures.get)


def test_scores_say_which_head_and_by_what_it_was_chosen():
    model = model_of()
    layer, head = model_of().choose_attention_head(sentence_batches(VOCABULARY, sentences_of(2), tokens_per_batch=99))
    expected = f"layer {layer} head {head}, best UDA on valid (not in the paper)"
    assert row_of(model)["attention_head"] == expected
    assert model.parses_by == (layer, head)
    given = row_of(model_of(parses_by=(1, 1)), splits=["valid"])
    assert given["attention_head"] == "layer 1 head 1, given (not in the paper)"


def test_trees_that_choose_a_head_judge_nothing():
    with pytest.raises(UserError, match=r"chosen on train valid, which can't judge it too: leave that out of splits"):
        row_of(model_of(), splits=["valid", "test"], choose_on=["train", "valid"])
