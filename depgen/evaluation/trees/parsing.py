"""Dependency trees that a system has found by itself: its heads of any sentences, and their accuracy on a treebank.

Argmax heads are what Table 4 of Shen et al. (2022) calls so, scored as they are, cycles included. Trees have one root
and maximise the sum of log(p + 1e-9), as in their code, where every word is as good a root as any other; where a
network has learnt roots from trees, the logarithm of the root's probability counts too. A network whose own paper
decodes by another rule has a row for that, the own rule. Floors are reported too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from json import dumps
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from depgen.annotation.controls import LeftChain, RandomTree, RightChain
from depgen.data.corpus import Corpus, Split
from depgen.data.steps import LEAVE_OUT
from depgen.data.vocabulary import Vocabulary, is_unknown
from depgen.decoding.heads import DECODINGS, Decoding, decoded_heads
from depgen.errors import UserError
from depgen.evaluation.reading import in_form
from depgen.evaluation.sentence_batches import sentence_batches
from depgen.evaluation.trained import Trained, load_trained, named_runs
from depgen.evaluation.trees.head_networks import Consensus, network_of, parser_of, validation_losses
from depgen.language_models.masked import HeadNetwork
from depgen.metrics.induction import InductionCounts, induction_counts
from depgen.metrics.significance import Interval, bootstrap_means, percentile_interval
from depgen.models.masked_transformer import MaskedTransformer
from depgen.trees.annotator import Annotator
from depgen.trees.sentence import Sentence
from depgen.trees.text_form import FormName

T = TypeVar("T")
Heads = list[list[int]]


@dataclass(frozen=True)
class Accuracy:
    """Directed and undirected dependency accuracy (`depgen.metrics.induction`), per cent, over all words."""

    dda: Interval
    uda: Interval


@dataclass(frozen=True)
class ParsingScores:
    """A parser's accuracy on sentences with trees, and that of floors.

    Attributes:
        sentences: how many.
        words: in them.
        unknown_words: share of these that the vocabulary lacks.
        rows: accuracies by the name of a decoding or a floor, with bootstrap 95 % intervals over sentences.
        counts: what is right in each sentence; of random floors, one a seed.
    """

    sentences: int
    words: int
    unknown_words: float
    rows: Mapping[str, Accuracy]
    counts: Mapping[str, Sequence[InductionCounts]]


def parsing_scores(
    *,
    corpus: Corpus,
    run: Sequence[str] | str | None = None,
    splits: Sequence[Split] = ("test",),
    choose_on: Sequence[Split] = ("valid",),
    max_words: int | None = None,
    form: FormName | None = None,
    seeds: int = 5,
    resamples: int = 2000,
    tokens_per_batch: int = 8192,
    device: str | None = None,
    json: bool = False,
) -> str:
    """Directed and undirected accuracy (per cent) of a run's heads, with 95 % intervals, and floors; tab-separated.

    Of several runs, that of their consensus, whose probabilities of heads are the means of theirs; then that of each
    run and of the mean run. Their validation losses, and which is lowest, are in the order of the runs.

    Args:
        corpus: a treebank; its name says where it was brought into another form. The step
            depgen.data.steps.Normalized gives it the words of the language-modelling Penn Treebank.
        run: a run folder (its best checkpoint) or a checkpoint file, or several; by default the newest run.
        splits: parts of the treebank, taken together.
        choose_on: parts by which a masked Transformer that was given no attention head to parse by gets one, of
            sentences of any length; of no effect on other systems.
        max_words: leave out longer sentences (WSJ10 is 10).
        form: what the treebank is brought into: by default the form of the text that the run has learnt from, in which
            a treebank that has it already stays as it is; `bare`, `ptb`, `stories`, `lower`, or `as_is` for none
            (`depgen.trees.text_form`). Words that the form lacks, such as punctuation, are left out, and what hung on
            one hangs on its nearest ancestor that stays.
        seeds: the random floor is the mean over this number of seeds.
        resamples: of the sentences, for the intervals.
        tokens_per_batch: parsed at a time, padding included; no figure depends on it, but of StructFormer's with the
            published `calibration: batch`, which couples all that are parsed together.
        device: cpu, cuda, …; by default a GPU where there is one.
        json: print JSON.

    Raises:
        UserError: no such run, one that does not parse, runs that differ in more than their seed, a treebank without
            trees or sentences, or one that would be judged by the trees that an attention head is chosen by.
    """
    systems = [load_trained(each, device=device, form=form) for each in named_runs(run)]
    network, vocabulary = network_of(systems), systems[0].vocabulary
    corpus = in_form(corpus, systems[0].reading)
    chosen = [
        parses_by(each, corpus, choose_on=choose_on, splits=splits, tokens_per_batch=tokens_per_batch)
        for each in systems
    ]
    sentences = sentences_with_trees(corpus, splits, max_words=max_words)
    scores = score_parser(
        network, vocabulary, sentences, seeds=seeds, resamples=resamples, tokens_per_batch=tokens_per_batch
    )
    facts = {
        "run": _one_or_all([str(each.run) for each in systems]),
        "checkpoint": _one_or_all([each.checkpoint.name for each in systems]),
        **(validation_losses(systems) if len(systems) > 1 else {}),
        "corpus": corpus.name,
        "splits": " ".join(splits),
        **{name: _one_or_all([each[name] for each in chosen]) for name in chosen[0]},
        "sentences": scores.sentences,
        "words": scores.words,
        "unknown_share": scores.unknown_words,
    }
    return _as_json(facts, scores) if json else _as_table(facts, scores)


def parses_by(
    trained: Trained,
    corpus: Corpus,
    *,
    choose_on: Sequence[Split],
    splits: Sequence[Split],
    tokens_per_batch: int = 8192,
) -> dict[str, str]:
    """What is to be said of the attention head that a run parses by, which is chosen where none was given.

    Raises:
        UserError: the run does not parse, or would be judged by the trees that its head is chosen by.
    """
    network = parser_of(trained)
    if not isinstance(network, MaskedTransformer):
        return {}
    if network.parses_by is not None:
        return {"attention_head": "layer {} head {}, given (not in the paper)".format(*network.parses_by)}
    if set(choose_on) & set(splits):
        raise UserError(
            f"An attention head is chosen on {' '.join(choose_on)}, which can't judge it too: leave that out of "
            "splits, or name other parts by choose_on."
        )
    sentences = sentences_with_trees(corpus, choose_on)
    found = network.choose_attention_head(
        sentence_batches(trained.vocabulary, sentences, tokens_per_batch=tokens_per_batch)
    )
    return {"attention_head": "layer {} head {}, best UDA on {} (not in the paper)".format(*found, " ".join(choose_on))}


def sentences_with_trees(corpus: Corpus, splits: Sequence[Split], *, max_words: int | None = None) -> list[Sentence]:
    """A treebank's sentences that have words, without those of more than `max_words`.

    Raises:
        UserError: there are none, or one has no tree.
    """
    kept, lacking, first = [], 0, ""
    for document in chain.from_iterable(map(corpus.documents, splits)):
        for number, sentence in enumerate(document.sentences, start=1):
            if not sentence.words or (max_words is not None and len(sentence) > max_words):
                continue
            if sentence.heads is None or min(sentence.heads) < 0:
                found = "none" if sentence.heads is None else "words without one"
                first = (
                    first or f"{document.identifier}, sentence {number}: expected a head for every word, found {found}"
                )
                lacking += 1
            kept.append(sentence)
    if lacking:
        remedy = (
            LEAVE_OUT if lacking < len(kept) else "Name a treebank: depgen.data.formats reads CoNLL-U and .dp files"
        )
        raise UserError(f"{corpus.name}, {first}. {lacking} of {len(kept)} sentences lack a tree. {remedy}.")
    if not kept:
        limit = "" if max_words is None else f" of at most {max_words} words"
        raise UserError(f"{corpus.name}: expected sentences{limit} in {' '.join(splits) or 'its splits'}, found none.")
    return kept


def score_parser(
    network: HeadNetwork,
    vocabulary: Vocabulary,
    sentences: Sequence[Sentence],
    *,
    seeds: int = 5,
    resamples: int = 2000,
    tokens_per_batch: int = 8192,
) -> ParsingScores:
    """A network's accuracy on sentences with trees, by each decoding, and of floors; see `parsing_scores`.

    Of a consensus, that of each member and their mean too.
    """
    gold = _heads_of(sentences)
    found = _counts(network, vocabulary, sentences, tokens_per_batch)
    counts = {name: [each] for name, each in found.items()}
    for name, annotators in floors(seeds).items():
        drawn = (_heads_of(annotator.annotate(sentences)) for annotator in annotators)
        counts[name] = [induction_counts(heads, gold) for heads in drawn]
    if isinstance(network, Consensus):
        runs = [_counts(each, vocabulary, sentences, tokens_per_batch) for each in network.networks]
        for name in runs[0]:
            counts |= {f"{name}, run {number}": [each[name]] for number, each in enumerate(runs, start=1)}
            counts[f"{name}, mean run"] = [each[name] for each in runs]
    words = chain.from_iterable(sentence.words for sentence in sentences)
    unknown = [is_unknown(vocabulary, word) for word in words]
    return ParsingScores(
        sentences=len(sentences),
        words=len(unknown),
        unknown_words=float(np.mean(unknown)),
        rows=accuracies(counts, resamples=resamples),
        counts=counts,
    )


def floors(seeds: int) -> dict[str, list[Annotator]]:
    """What knows nothing of the words: each hangs on the next, each on the previous one, random trees of some seeds."""
    return {
        "next word": [RightChain()],
        "previous word": [LeftChain()],
        "random tree": [RandomTree(seed) for seed in range(seeds)],
    }


def accuracies(counts: Mapping[str, Sequence[InductionCounts]], *, resamples: int = 2000) -> dict[str, Accuracy]:
    """Each row's accuracy, the mean over what there is of it, with a percentile interval over the same resamples."""
    kinds = ("directed", "undirected")
    rows = [(name, kind) for name, several in counts.items() if several for kind in kinds]
    right = np.stack([np.mean([getattr(each, kind) for each in counts[name]], 0) for name, kind in rows], 1)
    words = next(iter(counts.values()))[0].words[:, None].repeat(len(rows), 1).astype(np.float64)
    means = 100 * bootstrap_means(right / words, words, resamples=resamples)
    values = 100 * right.sum(0) / words.sum(0)
    found = {
        row: Interval(float(value), *percentile_interval(resampled))
        for row, value, resampled in zip(rows, values, means.T, strict=True)
    }
    return {name: Accuracy(*(found[name, kind] for kind in kinds)) for name, _ in rows}


def predicted_heads(
    network: HeadNetwork,
    vocabulary: Vocabulary,
    sentences: Sequence[Sequence[str]],
    *,
    decoding: Decoding,
    as_trees: bool = False,
    tokens_per_batch: int = 8192,
    batch_size: int | None = None,
) -> Heads:
    """A network's heads of each sentence's words: 1-based, 0 = root.

    Args:
        network: in evaluation mode.
        vocabulary: what it was trained with.
        sentences: words in the form of the text that it has learnt from.
        decoding: `tree`, the best tree with a single root, non-projective ones among them; `argmax`, each word's best
            head by itself, which is no tree and has no root in sentences of more than one word, unless the network has
            been taught roots.
        as_trees: change the fewest heads that make each sentence a tree with a single root, of no effect on `tree`.
        tokens_per_batch: padding included; the heads do not depend on it, unless the network itself couples
            what is in a batch (StructFormer with `calibration: batch`).
        batch_size: the most sentences in a batch; None: any number.
    """
    return _answers(
        network,
        network.head_probabilities,
        lambda probabilities, lengths: _cut(
            decoded_heads(probabilities, lengths, decoding, as_trees=as_trees), lengths
        ),
        vocabulary,
        [Sentence(tuple(words)) for words in sentences],
        tokens_per_batch,
        batch_size,
    )


def likely_heads(
    network: HeadNetwork,
    vocabulary: Vocabulary,
    sentences: Sequence[Sequence[str]],
    *,
    least: float,
    tokens_per_batch: int = 8192,
    batch_size: int | None = None,
) -> list[list[tuple[int, int]]]:
    """The pairs of a head and another word, 1-based, whose probability is at least `least`; see `predicted_heads`."""

    def likely(probabilities: np.ndarray, lengths: np.ndarray) -> Iterator[list[tuple[int, int]]]:
        for own, length in zip(probabilities, lengths.tolist(), strict=True):
            dependents, heads = np.nonzero((own[:length, :length] >= least) & ~np.eye(length, dtype=bool))
            yield list(zip((heads + 1).tolist(), (dependents + 1).tolist(), strict=True))

    read = [Sentence(tuple(words)) for words in sentences]
    return _answers(network, network.head_probabilities, likely, vocabulary, read, tokens_per_batch, batch_size)


def _counts(
    network: HeadNetwork, vocabulary: Vocabulary, sentences: Sequence[Sentence], tokens_per_batch: int
) -> dict[str, InductionCounts]:
    """What is right in each sentence, by the name of a decoding."""

    def by_decoding(probabilities: np.ndarray, lengths: np.ndarray) -> Iterator[tuple[list[int], ...]]:
        heads = (_cut(decoded_heads(probabilities, lengths, decoding), lengths) for decoding in DECODINGS)
        return zip(*heads, strict=True)

    gold = _heads_of(sentences)
    decoded = _answers(network, network.head_probabilities, by_decoding, vocabulary, sentences, tokens_per_batch)
    found: dict[str, Sequence[list[int]]] = dict(zip(DECODINGS, zip(*decoded, strict=True), strict=True))
    if hasattr(network, "own_heads"):  # by the rule of the network's own paper
        found["own rule"] = _answers(network, network.own_heads, _cut, vocabulary, sentences, tokens_per_batch)
    return {name: induction_counts(heads, gold) for name, heads in found.items()}


def _cut(heads: Int[np.ndarray, "batch length"], lengths: Int[np.ndarray, " batch"]) -> Heads:
    """The heads of each sentence without padding."""
    return [own[:length].tolist() for own, length in zip(heads, lengths.tolist(), strict=True)]


def _answers(
    network: HeadNetwork,
    ask: Callable[[Tensor, Tensor], Tensor],
    decode: Callable[[np.ndarray, np.ndarray], Iterable[T]],
    vocabulary: Vocabulary,
    sentences: Sequence[Sentence],
    tokens_per_batch: int,
    batch_size: int | None = None,
) -> list[T]:
    """What `decode` makes, sentence by sentence, of what the network says of a batch, and of the batch's lengths."""
    assert isinstance(network, torch.nn.Module)
    assert not network.training
    device = next(network.parameters()).device
    found: list[Any] = [[] for _ in sentences]
    batches = sentence_batches(vocabulary, sentences, tokens_per_batch=tokens_per_batch, batch_size=batch_size)
    for batch in batches:
        with torch.inference_mode(), torch.autocast(device.type, enabled=False):
            said = ask(batch.tokens.to(device), batch.lengths.to(device)).cpu().numpy()
        for row, own in zip(batch.items.tolist(), decode(said, batch.lengths.numpy()), strict=True):
            found[row] = own
    return found


def _heads_of(sentences: Sequence[Sentence]) -> list[Sequence[int]]:
    heads = [sentence.heads for sentence in sentences]
    assert None not in heads
    return heads  # type: ignore[return-value]


def _one_or_all(values: list[str]) -> str | list[str]:
    """The value of a single run, or those of several."""
    return values[0] if len(values) == 1 else values


def _as_table(facts: Mapping[str, object], scores: ParsingScores) -> str:
    lines = ["\t".join((name, *_cells(value))) for name, value in facts.items()]
    lines.append("heads\tDDA\tlow\thigh\tUDA\tlow\thigh")
    for name, row in scores.rows.items():
        figures = (f"{figure:.2f}" for each in (row.dda, row.uda) for figure in (each.value, each.low, each.high))
        lines.append("\t".join((name, *figures)))
    return "\n".join(lines)


def _cells(value: object) -> list[str]:
    several = value if isinstance(value, list) else [value]
    return [f"{each:.4f}" if isinstance(each, float) else str(each) for each in several]


def _as_json(facts: Mapping[str, object], scores: ParsingScores) -> str:
    return dumps({**facts, "rows": {name: asdict(row) for name, row in scores.rows.items()}})
