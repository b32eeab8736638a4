"""Dependency trees that a system has found by itself, against a treebank: the measure `parsing`.

Argmax heads are what Table 4 of Shen et al. (2022) calls so, scored as they are, cycles included. Trees have one root
and maximise the sum of log(p + 1e-9), as in their code, where every word is as good a root as any other; where a
network has learnt roots from trees, the logarithm of the root's probability counts too. A network whose own paper
decodes by another rule has a row for that, the own rule. Floors are reported too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jsonargparse.typing import PositiveInt

from depgen.annotation.controls import LeftChain, RandomTree, RightChain
from depgen.data.corpus import Corpus, Split
from depgen.data.steps import LEAVE_OUT
from depgen.data.vocabulary import is_unknown
from depgen.decoding.heads import DECODINGS
from depgen.errors import UserError
from depgen.evaluation.measure import Measured, warn_below_floors
from depgen.evaluation.parsing import OWN_RULE, network_of, parser_of, predicted_heads
from depgen.evaluation.reading import in_form
from depgen.evaluation.trained import Trained, load_trained
from depgen.evaluation.unit_scores import sentence_batches
from depgen.metrics.attachment import compared_words
from depgen.metrics.significance import bootstrap_means, percentile_interval
from depgen.models.masked_transformer import MaskedTransformer
from depgen.trees.annotator import Annotator
from depgen.trees.sentence import Sentence


@dataclass(frozen=True)
class ParsingOptions:
    """The options of `parsing`.

    Attributes:
        corpus: a treebank. It is brought into the form of the text that the run has learnt from (`form` names another),
            which its name says then; words that the form lacks, such as punctuation, are left out, and what hung on one
            hangs on its nearest ancestor that stays. The step depgen.data.steps.Normalized gives it the words of the
            language-modelling Penn Treebank.
        splits: parts of the treebank, taken together.
        choose_on: parts by which a masked Transformer that was given no attention head to parse by gets one, of
            sentences of any length; of no effect on other systems.
        max_words: leave out longer sentences (WSJ10 is 10).
        others: further runs, which differ in their seed: with them the consensus is measured, whose probabilities of
            heads are the means of all.
        seeds: the random floor is the mean over this number of seeds.
        resamples: of the sentences, for the intervals.
        tokens_per_batch: read at a time, padding included; no figure depends on it, but of StructFormer's with the
            published `calibration: batch`, which couples all that are parsed together.
    """

    corpus: Corpus
    splits: Sequence[Split] = ("test",)
    choose_on: Sequence[Split] = ("valid",)
    max_words: PositiveInt | None = None
    others: Sequence[str] = ()
    seeds: PositiveInt = 5
    resamples: PositiveInt = 2000
    tokens_per_batch: PositiveInt = 8192


def parsing(system: Trained, options: ParsingOptions) -> Measured:
    """Directed and undirected accuracy (DDA and UDA, per cent of all words) of a system's heads, and of floors.

    As the code of Shen et al. (2022) counts: every word does, roots too. UDA is the share of words whose gold pair with
    their head the system has in either direction; two words that head one another are one pair.

    An item is a sentence, by each decoding and floor; its weight are its `words`. Rows have 95 % intervals over
    resampled sentences, and the share of words that the vocabulary lacks (`unknown`, per cent).
    """
    systems = [system, *(load_trained(each, device=str(system.model.device)) for each in options.others)]
    network, corpus = network_of(systems), in_form(options.corpus, system.reading)
    chosen = [choice for each in systems if (choice := _attention_head(each, corpus, options))]
    gold = gold_sentences(corpus, options.splits, max_words=options.max_words)
    drawn = {
        ("floor", name): [annotator.annotate(gold) for annotator in annotators]
        for name, annotators in floors(options.seeds).items()
    }
    own_rule = (OWN_RULE,) if hasattr(network, "own_heads") else ()
    words = [sentence.words for sentence in gold]
    heads = predicted_heads(
        network, system.vocabulary, words, decodings=(*own_rule, *DECODINGS), tokens_per_batch=options.tokens_per_batch
    )
    for decoding, predicted in heads.items():
        drawn["overall", decoding] = [[Sentence(own, tuple(tree)) for own, tree in zip(words, predicted, strict=True)]]
    items, rows = list[pd.DataFrame](), list[dict[str, Any]]()
    for (level, name), trees in drawn.items():
        right = right_words(gold, trees)
        shares = right[["dda", "uda"]].div(right["words"], axis=0).assign(words=right["words"])
        items.append(shares.reset_index().assign(level=level, name=name))
        rows.append({"level": level, "name": name, **_row(right, shares, options.resamples)})
    table = pd.DataFrame(rows)
    warn_below_floors(table, "dda")
    table["unknown"] = 100 * np.mean([is_unknown(system.vocabulary, word) for own in words for word in own])
    table = table.assign(corpus=corpus.name, splits="+".join(options.splits), sentences=len(gold))
    if chosen:
        table["attention_head"] = "; ".join(chosen)
    return Measured(pd.concat(items), table)


def _attention_head(trained: Trained, corpus: Corpus, options: ParsingOptions) -> str | None:
    """How a masked Transformer got the attention head that it parses by; it is chosen where none was given."""
    network = parser_of(trained)
    if not isinstance(network, MaskedTransformer):
        return None
    if network.parses_by is not None:
        return "layer {} head {}, given (not in the paper)".format(*network.parses_by)
    named = " ".join(options.choose_on)
    if set(options.choose_on) & set(options.splits):
        raise UserError(
            f"An attention head is chosen on {named}, which can't judge it too: leave that out of splits, or name "
            "other parts by choose_on."
        )
    sentences = gold_sentences(corpus, options.choose_on)
    batches = sentence_batches(trained.vocabulary, sentences, tokens_per_batch=options.tokens_per_batch)
    layer, head = network.choose_attention_head(batches)
    return f"layer {layer} head {head}, best UDA on {named} (not in the paper)"


def gold_sentences(
    corpus: Corpus, splits: Sequence[Split], *, max_words: int | None = None, relations: bool = False
) -> list[Sentence]:
    """A treebank's sentences that have words, without those of more than `max_words`."""
    wanted = "a head and a relation" if relations else "a head"
    kept, lacking = list[Sentence](), list[str]()
    for split in splits:
        for document in corpus.documents(split):
            for number, sentence in enumerate(document.sentences, start=1):
                if not sentence.words or (max_words is not None and len(sentence) > max_words):
                    continue
                named = sentence.relations is not None and set(sentence.relations) != {"_"}
                if sentence.heads is None or min(sentence.heads) < 0 or (relations and not named):
                    lacking.append(f"{document.identifier}, sentence {number}")
                kept.append(sentence)
    if lacking:
        remedy = "Name a treebank: depgen.data.formats reads CoNLL-U and .dp files"
        raise UserError(
            f"{corpus.name}, {lacking[0]}: expected {wanted} for every word. {len(lacking)} of {len(kept)} sentences "
            f"lack one. {LEAVE_OUT if len(lacking) < len(kept) else remedy}."
        )
    if not kept:
        limit = "" if max_words is None else f" of at most {max_words} words"
        raise UserError(f"{corpus.name}: expected sentences{limit} in {' '.join(splits) or 'its splits'}, found none.")
    return kept


def floors(seeds: int) -> dict[str, list[Annotator]]:
    """What knows nothing of the words: each hangs on the next, each on the previous one, random trees of some seeds."""
    return {
        "next word": [RightChain()],
        "previous word": [LeftChain()],
        "random tree": [RandomTree(seed) for seed in range(seeds)],
    }


def right_words(gold: Sequence[Sentence], drawn: Sequence[Sequence[Sentence]]) -> pd.DataFrame:
    """The `words` of each sentence, and 100 for each that is right by `dda` and `uda`; means over what is drawn."""
    compared = [compared_words(gold, each).groupby("sentence")[["uas", "uda"]].sum() for each in drawn]
    right = sum(compared[1:], compared[0]) / len(compared)
    return right.rename(columns={"uas": "dda"}).assign(words=[len(sentence) for sentence in gold])


def _row(right: pd.DataFrame, shares: pd.DataFrame, resamples: int) -> dict[str, Any]:
    """Per cent of all words, with the ends of their intervals; from the sums and the shares of sentences."""
    weights = right[["words", "words"]].to_numpy(np.float64)
    resampled = bootstrap_means(shares[["dda", "uda"]].to_numpy(), weights, resamples=resamples)
    row: dict[str, Any] = {"words": int(right["words"].sum())}
    for kind, means in zip(("dda", "uda"), resampled.T, strict=True):
        low, high = percentile_interval(means)
        row |= {kind: right[kind].sum() / row["words"], f"{kind}_low": low, f"{kind}_high": high}
    return row
