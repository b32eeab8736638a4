"""Constituents that a language model has found by itself, and the measure `bracketing`: their F1 against a treebank.

Htut, Cho & Bowman (2018) and Dyer et al. (2019) say what such numbers depend on: the floors are reported too, and one
of those is random distances cut by the very rule that the model's are cut by, which leans to the right.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch.nn.utils.rnn import pad_sequence

from depgen.backbones.backbone import DistanceNetwork
from depgen.data.vocabulary import Vocabulary, encode, is_unknown
from depgen.errors import UserError, check_at_least
from depgen.evaluation.measure import Measured, warn_below_floors
from depgen.evaluation.parsing import Bracketer, SystemParser, structure_found_by
from depgen.evaluation.reading import Reading
from depgen.evaluation.trained import Trained
from depgen.locations import find_data, matching
from depgen.metrics.attachment import compared_edges, edge_scores
from depgen.nn.lengths import mask_of
from depgen.trees.constituency import (
    TRACE_TAGS,
    UNNAMED,
    Bracketing,
    bracketing_of_distances,
    left_branching,
    random_bracketing,
    read_bracketed,
    right_branching,
    unlabelled_spans,
    without_tags,
)
from depgen.trees.constituency import bracketing as spans_of
from depgen.trees.punctuation import PUNCTUATION_TAGS
from depgen.trees.sentence import Constituent, Sentence
from depgen.trees.text_form import NUMBER, normalize_word

Distances = Float[np.ndarray, "layers words"]


@dataclass(frozen=True)
class BracketingOptions:
    """The options of `bracketing`.

    Attributes:
        treebank: folder of bracketed trees, under `$DEPGEN_DATA` unless absolute.
        files: pattern of its files.
        max_words: leave out longer sentences, without punctuation (WSJ10 is 10).
        seeds: random floors are means over this number of seeds.
        batch_size: sentences read at once.
        beam_size: the most trees of a sentence that Pushdown or TG compares; by default as it was trained.
    """

    treebank: str = "wsj_sample/constituency"
    files: str = "*.mrg"
    max_words: int | None = None
    seeds: int = 5
    batch_size: int = 64
    beam_size: int | None = None

    def __post_init__(self) -> None:
        counts = {"seeds": self.seeds, "batch_size": self.batch_size}
        check_at_least(1, max_words=self.max_words, beam_size=self.beam_size, **counts)


def bracketing(system: Trained, options: BracketingOptions = BracketingOptions()) -> Measured:
    """Unlabelled F1 (per cent) of a system's bracketings against a treebank's, and of floors.

    Neither the span of the whole sentence nor single words count, as in the code of PRPN and ON-LSTM. An item is a
    sentence, by each layer and floor. A row has the mean over sentences (`f1`), over all spans together (`corpus_f1`),
    and, where there are several seeds, the deviation of the first over these.

    Of a system that labels constituents, as TG does, precision, recall and F1 (per cent) of labelled constituents
    follow. All of these count but those with the label `TOP`, also the whole sentence and single words, as in the
    program EVALB. Unlike there, equal constituents over the same words count once, and `ADVP` is not `PRT`.

    Sentences are read as the language-modelling Penn Treebank writes them: no traces, no punctuation, lower case, `N`
    for numbers; what the vocabulary lacks is `unknown` (per cent of the words). A word of several pieces has the
    distance of its first.
    """
    network = getattr(system.model, "backbone", None)
    trees = treebank_sentences(options)
    gold, lengths = [spans_of(tree.spans or ()) for tree in trees], [len(tree.words) for tree in trees]
    words = [[normalize_word(word, (word.lower(), NUMBER)) for word in tree.words] for tree in trees]
    labelled: dict[str, float] = {}
    if isinstance(network, DistanceNetwork):
        distances = word_distances(network, system.vocabulary, words, batch_size=options.batch_size)
        own = {
            f"layer {k}": [[bracketing_of_distances(each[k]) for each in distances]] for k in range(len(distances[0]))
        }
    elif isinstance(system.model, Bracketer) and structure_found_by(system) == "constituency":
        parser = SystemParser(
            [replace(system, reading=Reading("as_is"))], beam_size=options.beam_size, batch_size=options.batch_size
        )
        found = [sentence.spans or () for sentence in parser.annotate([Sentence(tuple(each)) for each in words])]
        own, labelled = {"trees": [list(map(spans_of, found))]}, _labelled(trees, found)
    else:
        raise UserError(
            f"{system.checkpoint} holds a network that finds no constituents: take ON-LSTM, PRPN, Pushdown or TG."
        )
    rows, items = list[dict[str, Any]](), list[pd.DataFrame]()
    for level, drawn_by_name in (
        ("floor", floors(lengths, options.seeds)),
        ("overall", own),
    ):
        for name, drawn in drawn_by_name.items():
            counts = np.stack([unlabelled_spans(gold, each, lengths) for each in drawn], dtype=np.float64)
            shared, both = counts[..., 0], counts[..., 1]
            f1 = 100 * np.divide(shared, both, out=np.ones_like(both), where=both > 0)
            items.append(pd.DataFrame({"level": level, "name": name, "words": lengths, "f1": f1.mean(0)}))
            rows.append({"level": level, "name": name, "f1": f1.mean()})
            rows[-1]["deviation"] = f1.mean(1).std(ddof=1) if len(drawn) > 1 else np.nan
            rows[-1]["corpus_f1"] = (100 * shared.sum(1) / both.sum(1)).mean()
    rows[-1] |= labelled
    warn_below_floors(pd.DataFrame(rows), "f1")
    unknown = 100 * np.mean([is_unknown(system.vocabulary, word) for each in words for word in each])
    return Measured(
        pd.concat(items).rename_axis("sentence").reset_index(),
        pd.DataFrame(rows).assign(unknown=unknown, treebank=options.treebank, sentences=len(trees)),
    )


def treebank_sentences(options: BracketingOptions) -> list[Sentence]:
    """The trees of a folder's files without traces and punctuation, those of no words left out.

    `$` and `#` stay, as in the language-modelling Penn Treebank; the authors of PRPN leave them out.
    """
    place = find_data(
        options.treebank, how_to_get="The sample of the Wall Street Journal is NLTK's: nltk.download('treebank')."
    )
    left_out = TRACE_TAGS | PUNCTUATION_TAGS
    trees = [without_tags(tree, left_out) for path in matching(place, options.files) for tree in read_bracketed(path)]
    most = options.max_words or np.inf
    if not (kept := [tree for tree in trees if 0 < len(tree.words) <= most]):
        raise UserError(f"{place}, {options.files}: expected bracketed trees of at most {most} words, found none.")
    return kept


def word_distances(
    network: DistanceNetwork, vocabulary: Vocabulary, sentences: Sequence[Sequence[str]], *, batch_size: int
) -> list[Distances]:
    """The distance before each word of each sentence, read from `<eos>` on; a word has that of its first piece."""
    assert isinstance(network, torch.nn.Module)
    device = next(network.parameters()).device
    found: list[Distances] = []
    for start in range(0, len(sentences), batch_size):
        encoded = [encode(vocabulary, words) for words in sentences[start : start + batch_size]]
        read = [torch.tensor([vocabulary.eos, *each.ids.tolist()]) for each in encoded]
        tokens = pad_sequence(read, batch_first=True, padding_value=vocabulary.eos)
        padding = ~mask_of(torch.tensor(list(map(len, read))), tokens.size(1))
        distances = network.syntactic_distances(tokens.to(device), padding=padding.to(device)).cpu().double().numpy()
        for row, each in enumerate(encoded):
            first_pieces = np.unique(each.word_of_piece, return_index=True)[1]
            found.append(distances[:, row, 1 + first_pieces])
    return found


def _labelled(trees: Sequence[Sentence], found: Sequence[Sequence[Constituent]]) -> dict[str, float]:
    """Labelled precision, recall and F1 (per cent), if a found constituent has a label other than `TOP`."""
    gold, own = (
        [[part for part in each if part[2] != UNNAMED] for each in side]
        for side in ([tree.spans or () for tree in trees], found)
    )
    if not any(label for each in own for *_, label in each):
        return {}
    scores = edge_scores(compared_edges(gold, own))
    return {key: scores[key] for key in ("labelled_precision", "labelled_recall", "labelled_f1")}


def floors(lengths: Sequence[int], seeds: int) -> dict[str, list[list[Bracketing]]]:
    """Bracketings that know nothing of the words; of the random ones, one list a seed."""

    def drawn(rule: Callable[[int, np.random.Generator], Bracketing]) -> list[list[Bracketing]]:
        """Each sentence's tree depends on the seed and its place alone."""
        return [
            [rule(length, np.random.default_rng((seed, place))) for place, length in enumerate(lengths)]
            for seed in range(seeds)
        ]

    def by_distances(length: int, generator: np.random.Generator) -> Bracketing:
        return bracketing_of_distances(generator.random(length))

    return {
        "left-branching": [list(map(left_branching, lengths))],
        "right-branching": [list(map(right_branching, lengths))],
        "random trees": drawn(random_bracketing),
        "random distances": drawn(by_distances),
    }
