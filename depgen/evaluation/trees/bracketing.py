"""Constituents that a language model has found by itself: its distances as trees, and their F1 against a treebank.

Htut, Cho & Bowman (2018) and Dyer et al. (2019) say what such numbers depend on: the floors are reported too, and one
of those is random distances cut by the very rule that the model's are cut by, which leans to the right.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch.nn.utils.rnn import pad_sequence

from depgen.backbones.backbone import DistanceNetwork
from depgen.data.vocabulary import Vocabulary, encode, is_unknown
from depgen.errors import UserError
from depgen.evaluation.trained import load_trained
from depgen.locations import find_data, matching
from depgen.metrics.labelled import labelled_scores
from depgen.nn.lengths import mask_of
from depgen.trees.constituency import (
    CURRENCY_TAGS,
    TRACE_TAGS,
    UNNAMED,
    Bracketing,
    UnlabelledF1,
    bracketing,
    bracketing_of_distances,
    left_branching,
    random_bracketing,
    read_bracketed,
    right_branching,
    unlabelled_f1,
    without_tags,
)
from depgen.trees.punctuation import PUNCTUATION_TAGS
from depgen.trees.sentence import Constituent, Sentence
from depgen.trees.text_form import NUMBER, normalize_word

Distances = Float[np.ndarray, "layers words"]


@runtime_checkable
class Bracketer(Protocol):
    """A system that brackets sentences itself."""

    def bracketings(
        self,
        sentences: Sequence[Sequence[int]],
        *,
        vocabulary: Vocabulary,
        word_starts: Sequence[Bool[np.ndarray, " _"]],
        beam_size: int | None = None,
    ) -> list[list[Constituent]]:
        """The constituents of each sentence's tree, over its tokens; their labels are "" where the system has none.

        Args:
            sentences: token ids, without beginning and end.
            vocabulary: that the system was trained with.
            word_starts: whether each token is the first of a word.
            beam_size: the most trees of a sentence that are compared, where a beam is; None: as the system was made.
        """
        ...


def bracketing_f1(
    *,
    run: str | None = None,
    treebank: str = "wsj_sample/constituency",
    files: str = "*.mrg",
    layer: int | None = None,
    max_words: int | None = None,
    lone_word: bool = True,
    currency: bool = True,
    seeds: int = 5,
    batch_size: int = 64,
    beam_size: int | None = None,
    device: str | None = None,
    json: bool = False,
) -> str:
    """Unlabelled F1 (per cent) of a run's bracketings against a treebank's, and of floors; tab-separated.

    Of a run that labels constituents, as TG does, precision, recall and F1 (per cent) of labelled constituents precede.
    All count but those with the label `TOP`, also the whole sentence and single words, as in the program EVALB. Unlike
    there, equal constituents over the same words count once, and `ADVP` is not `PRT`.

    Sentences are read as the language-modelling Penn Treebank writes them: no traces, no punctuation, lower case, `N`
    for numbers; what the run's vocabulary lacks is unknown. A word of several pieces has the distance of its first.

    Args:
        run: a run folder (its best checkpoint) or a checkpoint file; by default the newest run.
        treebank: folder of bracketed trees, under `$DEPGEN_DATA` unless absolute.
        files: pattern of its files.
        layer: the only layer to be scored, 0 being the lowest; by default all.
        max_words: leave out longer sentences, without punctuation (WSJ10 is 10).
        lone_word: cut x into ((x_<i) (x_i (x_>i))), as published; false: into ((x_<i) (x_>=i)).
        currency: keep `$` and `#`, as the language-modelling Penn Treebank does; the authors of PRPN leave them out.
        seeds: random floors are means over this number of seeds.
        batch_size: sentences read at once.
        beam_size: the most trees of a sentence that Pushdown or TG compares; by default as it was trained.
        device: cpu, cuda, …; by default a GPU where there is one.
        json: print JSON.

    Raises:
        UserError: no such run, layer or treebank, or a run that has no bracketings.
    """
    trained = load_trained(run, device=device)
    model, network = trained.model, getattr(trained.model, "backbone", None)
    if not isinstance(network, DistanceNetwork) and not isinstance(model, Bracketer):
        raise UserError(
            f"{trained.checkpoint} holds a network that finds no constituents: take ON-LSTM, PRPN, Pushdown or TG."
        )
    trees = treebank_sentences(treebank, files, max_words=max_words, currency=currency)
    words = [[normalize_word(word, (word.lower(), NUMBER)) for word in tree.words] for tree in trees]
    labelled: dict[str, float] = {}
    if isinstance(network, DistanceNetwork):
        distances = word_distances(network, trained.vocabulary, words, batch_size=batch_size)
        found = _by_layer(distances, layer, lone_word)
    else:
        assert isinstance(model, Bracketer)
        own = word_constituents(model, trained.vocabulary, words, batch_size=batch_size, beam_size=beam_size)
        found, labelled = {"trees": [[bracketing(each) for each in own]]}, _labelled(trees, own)
    gold, lengths = [bracketing(tree.spans or ()) for tree in trees], [len(tree.words) for tree in trees]
    rows = {
        name: [unlabelled_f1(gold, each, lengths) for each in drawn]
        for name, drawn in {**found, **floors(lengths, seeds=seeds, lone_word=lone_word)}.items()
    }
    unknown = np.mean([is_unknown(trained.vocabulary, word) for each in words for word in each])
    facts = {"run": str(trained.run), "treebank": treebank, "sentences": len(trees), "unknown_share": float(unknown)}
    facts |= labelled
    return _as_json(facts, rows) if json else _as_table(facts, rows)


def _by_layer(distances: Sequence[np.ndarray], layer: int | None, lone_word: bool) -> dict[str, list[list[Bracketing]]]:
    count = distances[0].shape[0]
    if layer is not None and not 0 <= layer < count:
        raise UserError(f"There is no layer {layer}: the network has distances in {count}, from 0 on.")
    layers = range(count) if layer is None else [layer]
    return {
        f"layer {k}": [[bracketing_of_distances(each[k], lone_word=lone_word) for each in distances]] for k in layers
    }


def treebank_sentences(
    folder: str | Path, files: str, *, max_words: int | None = None, currency: bool = True
) -> list[Sentence]:
    """The trees of a folder's files without traces and punctuation, those of no words left out.

    Raises:
        UserError: there are none.
    """
    place = find_data(folder, how_to_get="The sample of the Wall Street Journal is NLTK's: nltk.download('treebank').")
    paths = matching(place, files)
    if not paths:
        raise UserError(f"{place}: expected files {files} of bracketed trees, found none.")
    left_out = TRACE_TAGS | PUNCTUATION_TAGS | (frozenset() if currency else CURRENCY_TAGS)
    trees = [without_tags(tree, left_out) for path in paths for tree in read_bracketed(path)]
    kept = [tree for tree in trees if tree.words and (max_words is None or len(tree.words) <= max_words)]
    if not kept:
        raise UserError(f"{place}: expected a sentence of at most {max_words} words, found none.")
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


def word_constituents(
    system: Bracketer,
    vocabulary: Vocabulary,
    sentences: Sequence[Sequence[str]],
    *,
    batch_size: int,
    beam_size: int | None = None,
) -> list[list[Constituent]]:
    """The constituents of each sentence's tree over words; see `constituents_over_words`."""
    found: list[list[Constituent]] = []
    for start in range(0, len(sentences), batch_size):
        encoded = [encode(vocabulary, words) for words in sentences[start : start + batch_size]]
        pieces = [np.asarray(each.word_of_piece) for each in encoded]
        trees = system.bracketings(
            [each.ids.tolist() for each in encoded], vocabulary=vocabulary, beam_size=beam_size,
            word_starts=[np.diff(each, prepend=-1) > 0 for each in pieces],
        )  # fmt: skip
        found += [constituents_over_words(of_tokens, words) for of_tokens, words in zip(trees, pieces, strict=True)]
    return found


def constituents_over_words(
    constituents: Sequence[Constituent], word_of_piece: Int[np.ndarray, " pieces"]
) -> list[Constituent]:
    """Constituents over tokens as those over words; without those that cut a word, and single words without a label.

    >>> constituents_over_words([(0, 3, "S"), (0, 2, "NP"), (1, 3, "X")], np.array([0, 0, 1]))
    [(0, 2, 'S'), (0, 1, 'NP')]
    """
    word = np.append(word_of_piece, word_of_piece[-1:] + 1)
    first = {int(place) for place in np.flatnonzero(np.diff(word, prepend=-1))}
    moved = ((int(word[start]), int(word[end]), label) for start, end, label in constituents if {start, end} <= first)
    return [(start, end, label) for start, end, label in moved if end - start > (0 if label else 1)]


def _labelled(trees: Sequence[Sentence], found: Sequence[Sequence[Constituent]]) -> dict[str, float]:
    """Labelled precision, recall and F1 (per cent), if a found constituent has a label other than `TOP`."""
    if not any(label not in ("", UNNAMED) for each in found for *_, label in each):
        return {}
    gold, own = (
        [[part for part in each if part[2] != UNNAMED] for each in side]
        for side in ([tree.spans or () for tree in trees], found)
    )
    scores = labelled_scores(gold, own)
    return {key: scores[key] for key in ("labelled_precision", "labelled_recall", "labelled_f1")}


def floors(lengths: Sequence[int], *, seeds: int, lone_word: bool) -> dict[str, list[list[Bracketing]]]:
    """Bracketings that know nothing of the words; of the random ones, one list a seed."""

    def by_distances(length: int, generator: np.random.Generator) -> Bracketing:
        return bracketing_of_distances(generator.random(length), lone_word=lone_word)

    branching = {"left-branching": left_branching, "right-branching": right_branching}
    random = {"random trees": random_bracketing, "random distances": by_distances}
    return {
        **{name: [[rule(length) for length in lengths]] for name, rule in branching.items()},
        **{name: [_drawn(rule, lengths, seed) for seed in range(seeds)] for name, rule in random.items()},
    }


def _drawn(
    rule: Callable[[int, np.random.Generator], Bracketing], lengths: Sequence[int], seed: int
) -> list[Bracketing]:
    """Each sentence's tree depends on the seed and its place alone."""
    return [rule(length, np.random.default_rng((seed, place))) for place, length in enumerate(lengths)]


def _as_table(facts: Mapping[str, object], rows: Mapping[str, Sequence[UnlabelledF1]]) -> str:
    lines = [
        f"{name}\t{value:.4f}" if isinstance(value, float) else f"{name}\t{value}" for name, value in facts.items()
    ]
    lines.append("bracketing\tF1 by sentence\tdeviation over seeds\tF1 by corpus")
    for name, scores in rows.items():
        values = [100 * score.sentence for score in scores]
        deviation = f"{np.std(values, ddof=1):.2f}" if len(values) > 1 else "-"
        corpus = 100 * float(np.mean([score.corpus for score in scores]))
        lines.append(f"{name}\t{np.mean(values):.2f}\t{deviation}\t{corpus:.2f}")
    return "\n".join(lines)


def _as_json(facts: Mapping[str, object], rows: Mapping[str, Sequence[UnlabelledF1]]) -> str:
    return dumps({**facts, "rows": {name: [asdict(score) for score in scores] for name, scores in rows.items()}})
