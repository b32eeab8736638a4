"""A system whose scores a reader can add up, and suites as JSON."""

import json
from pathlib import Path

import numpy as np

from depgen.data.vocabulary import Vocabulary
from depgen.evaluation.reading import Reading
from depgen.evaluation.system import System
from depgen.language_models.base import LanguageModel


class Unigrams(LanguageModel):
    """Gives each token a fixed log-probability, whatever is before it.

    Attributes:
        noise: what is added for each place in a batch, as the rounding of a network changes with it.
    """

    noise = 0.0

    def __init__(self, log_probs, end):
        super().__init__()
        self.log_probs, self.end = log_probs, end

    def sentence_log_probs(self, documents, *, vocabulary, structure=None):
        """Those of the tokens, and of the end where there is one."""
        end = [] if self.end is None else [self.end]
        return [
            [np.array([self.log_probs[token] for token in ids] + end) + place * self.noise for ids in document]
            for place, document in enumerate(documents)
        ]


def unigrams(nats, *, unknown=-9.0, end=-0.5, likelihood="exact", form="as_is"):
    """A system that gives words these log-probabilities; all other words are `<unk>`."""
    vocabulary = Vocabulary.of_words(list(nats))
    scores = {vocabulary.unk: unknown} | {vocabulary.pieces(word)[0]: value for word, value in nats.items()}
    model = Unigrams(scores, end).eval()
    model.likelihood = likelihood
    return System(model, vocabulary, Path("toy"), Path("toy.ckpt"), Reading(form))


def suite_of(*items, formulas=("(1;%a%) < (1;%b%)",), metric="sum", name="toy"):
    """A suite; an item is from the name of a condition to its regions, numbered from 1."""
    return {
        "meta": {"name": name, "metric": metric},
        "predictions": [{"type": "formula", "formula": formula} for formula in formulas],
        "items": [
            {
                "item_number": number,
                "conditions": [
                    {
                        "condition_name": condition,
                        "regions": [
                            {"region_number": place, "content": content} for place, content in enumerate(regions, 1)
                        ],
                    }
                    for condition, regions in item.items()
                ],
            }
            for number, item in enumerate(items, 1)
        ],
    }


def write_suite(path, content):
    """The path of a suite's JSON file."""
    path.write_text(json.dumps(content), encoding="utf-8")
    return path
