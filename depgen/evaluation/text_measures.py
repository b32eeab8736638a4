"""Measures of texts: their overlap with references, their diversity, and what models say of them.

`depgen evaluate text`, Python and the tables compute them from one frame, a row a text. Scores are times 100 but for
perplexities and LM scores. Intervals are bootstrap percentile intervals of the mean of item scores; for Self-BLEU they
resample texts while the texts that each was compared with stay. sacreBLEU and Distinct-n have no item score and get
none. LM score, reverse LM score and oracle perplexity want an oracle (`text_oracle.py`).

Deviations:
    D1. An empty text scores zero and is counted (`empty="zero"`); the DMLM authors' code drops it together with its
        reference (`empty="drop"`: left out of every measure, counted and logged, NaN among the item scores). Either
        way it has no perplexity and is left out of that mean.
    D2. Texts are given to pretrained models as they are, with spaces between tokens, as the DMLM authors did. Models
        that have learnt from raw text find them odd; `detokenize` gives them raw text, and the settings say so.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from depgen.data.tokenization import detokenize, rejoined
from depgen.errors import UserError, checked_seed
from depgen.evaluation.measure import Measured
from depgen.evaluation.text_documents import PROMPT, TEXT, read_file_texts
from depgen.evaluation.text_judges import NotComputedError, TextScore, bertscore, lm_perplexity, mean_score
from depgen.evaluation.text_oracle import description_of, find_oracle, lm_score, reverse_lm_score, text_losses
from depgen.evaluation.trained import checked_device
from depgen.evaluation.union import union_score
from depgen.metrics.bleu import ReferencePool, bleu, corpus_bleu, corpus_self_bleu, distinct, self_bleu
from depgen.metrics.significance import bootstrap_interval

DEFAULTS = {
    **dict.fromkeys(("bleu1", "bleu2"), "by sentence, smoothing method 1 of Chen & Cherry (2014)"),
    **dict.fromkeys(
        ("distinct2", "distinct3"), "n-grams over the border of two texts count, as in the DMLM paper's code"
    ),
    **dict.fromkeys(("selfbleu2", "selfbleu3"), "against all other texts, without smoothing"),
}
"""What a figure of a file depends on where its settings say nothing else."""
OFF = "switched off: no model was named"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How texts are measured; options of `depgen evaluate text`, and of tables for `depgen reproduce`.

    Attributes:
        empty: what an empty line is worth: `zero`, or `drop` to leave it out with its reference.
        bertscore_model: folder or hub name of an encoder, or null for no BERTScore.
        bertscore_layer: layer of that encoder; by default the BERTScore authors' choice.
        bertscore_baseline: a file of the bert-score package, by which scores are rescaled.
        perplexity_model: folder or hub name of a causal language model, or null for no LM perplexity.
        union: a run of UNION, such as union_rocstories; by default no UNION.
        oracle: for LM score and oracle perplexity: an experiment that `depgen fit` has trained, such as
            experiments/oracle_news.yaml, or any run folder.
        reverse: train the oracle's network on the texts too, for the reverse LM score.
        detokenize: give pretrained models raw text (`did n't go .` becomes `didn't go.`) in place of tokens.
        within_texts: count only n-grams inside a text in Distinct, as Li et al. (2016) do; by default those over the
            border of two texts too, as the DMLM paper's code.
        download: fetch models that are not on this machine from the hub.
        device: where models run, such as `cpu` or `cuda:0`; by default a GPU where there is one.
        resamples: of the bootstrap.
        seed: of the bootstrap.
    """

    empty: Literal["zero", "drop"] = "zero"
    bertscore_model: str | None = "roberta-large"
    bertscore_layer: int | None = None
    bertscore_baseline: Path | None = None
    perplexity_model: str | None = "gpt2"
    union: str | None = None
    oracle: str | None = None
    reverse: bool = False
    detokenize: bool = False
    within_texts: bool = False
    download: bool = False
    device: str | None = None
    resamples: int = 2000
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class TextFiles(TextOptions):
    """The options of `text`, beside those of the single measures.

    Attributes:
        texts: files of one text a line, UTF-8, tokens separated by spaces; or of JSON lines (`.jsonl`, as `depgen
            generate --json` writes) or tables (`.csv`, `.tsv`), in which texts are called `text` or `sentence`.
        references: as many references as each file has texts, in a file of the same kinds.
        prompts: what each text continues, for UNION, in a file of the same kinds, where they may be called `prompt`;
            without them texts count as whole stories.
    """

    texts: Sequence[Path]
    references: Path | None = None
    prompts: Path | None = None


def text(options: TextFiles) -> Measured:
    """BLEU, sacreBLEU, Distinct, Self-BLEU, BERTScore, perplexities and others of files of texts.

    Rows and items are those of `measure_texts`, file by file; `level` and `file` name it.
    """
    if options.reverse and options.oracle is None:
        raise UserError("--reverse trains an oracle's network on the texts: name it by --oracle.")
    checked_seed(options.seed)
    items, rows = list[pd.DataFrame](), list[pd.DataFrame]()
    for file in options.texts:
        texts = pd.DataFrame({"text": read_file_texts(file)})
        for column, other, names in (("reference", options.references, TEXT), ("prompt", options.prompts, PROMPT)):
            if other is not None:
                texts[column] = _beside(file, len(texts), other, column, names)
        measured = measure_texts(texts, options)
        measured.items.insert(0, "file", file.name)
        measured.rows.insert(0, "level", file.name)
        items.append(measured.items.drop(columns=texts.columns.drop("text")))
        rows.append(measured.rows)
    all_rows = pd.concat(rows, ignore_index=True)
    plain = all_rows["settings"].isna() & all_rows["value"].notna()
    all_rows.loc[plain, "settings"] = all_rows["name"][plain].map(DEFAULTS)
    return Measured(pd.concat(items, ignore_index=True), all_rows)


def _beside(file: Path, number: int, other: Path, what: str, names: Sequence[str]) -> list[str]:
    """The lines of another file that belong to a file's texts."""
    lines = read_file_texts(other, names)
    if len(lines) != number:
        raise UserError(
            f"Expected one {what} a text, but {file} has {number} texts and {other} has {len(lines)}. "
            "Text n of one belongs to text n of the other; an empty text keeps its empty line."
        )
    return lines


def measure_texts(texts: pd.DataFrame, options: TextOptions, measures: Collection[str] | None = None) -> Measured:
    """Every measure that can be computed on texts, and the reason for every other.

    An item is a text, with a column a measure (NaN where it has no score); below the texts stand the real test
    sentences that reverse LM scores are of. A row is a measure: its `value`, a 95 % bootstrap interval (`low`, `high`)
    where single texts have a score, how many texts are `left_out`, the share of the texts' words that are `unknown` to
    the oracle, and the `settings` that the value depends on, or why it is `not_computed`.

    Args:
        texts: `text`, tokens separated by whitespace; `reference` for measures of overlap; `prompt`, what each text
            continues, for UNION: without it texts are whole stories.
        options: models, policies, seeds.
        measures: compute these alone.
    """
    checked_device(options.device)
    texts = texts.filter(["prompt", "text", "reference"])
    has_words = texts["text"].str.strip() != ""
    empty = int((~has_words).sum())
    if empty == len(texts):
        raise UserError(f"There is no text to evaluate: {len(texts)} items, all of them empty.")
    if empty:
        logger.warning("%d of %d texts are empty; each %s.", empty, len(texts), _EMPTY[options.empty])
    measured = texts[has_words] if options.empty == "drop" else texts
    if options.oracle is not None:
        losses = text_losses(list(measured["text"]), find_oracle(options.oracle), device=options.device)
        measured = measured.join(losses.set_index(measured.index))
    items, rows = texts.copy(), list[dict[str, Any]]()
    for name, measure in TEXT_MEASURES.items():
        if measures is not None and name not in measures:
            continue
        row = {
            "name": name, "value": np.nan, "low": np.nan, "high": np.nan, "texts": len(texts), "empty": empty,
            "left_out": 0, "unknown": np.nan, "settings": None, "not_computed": None,
        }  # fmt: skip
        rows.append(row)
        try:
            score = measure(measured, options)
            if isnan(score.value):
                raise NotComputedError("it is defined for none of the texts")
        except NotComputedError as reason:
            row["not_computed"] = str(reason)
            continue
        row.update(value=score.value, settings=score.settings)
        if name in ("oracle_perplexity", "lm"):
            row["unknown"] = measured["unknown"].sum() / max(measured["words"].sum(), 1)
        if score.items is None:
            continue
        if name == "rlm":
            column = pd.Series(score.items)
            items = pd.concat([items, column.rename(name).to_frame()], ignore_index=True)
        else:
            items[name] = column = pd.Series(score.items, measured.index).reindex(texts.index)
        interval = bootstrap_interval(column.to_numpy(), resamples=options.resamples, seed=options.seed)
        row.update(low=interval.low, high=interval.high, left_out=int(column.isna().sum()))
    return Measured(items, pd.DataFrame(rows))


_EMPTY = {
    "zero": "scores zero and has no perplexity",
    "drop": "is left out of every measure, together with its reference",
}


def _union(texts: pd.DataFrame, options: TextOptions) -> TextScore:
    if options.union is None:
        raise NotComputedError("no scorer was named")
    prompts = list(texts["prompt"]) if "prompt" in texts else None
    return union_score(list(texts["text"]), prompts, scorer=options.union, device=checked_device(options.device))


def _bleu(texts: pd.DataFrame, _: TextOptions, *, order: int) -> TextScore:
    return mean_score(bleu(list(texts["text"]), _references(texts), [order])[order])


def _sacrebleu(texts: pd.DataFrame, _: TextOptions) -> TextScore:
    references = _references(texts)
    try:
        return TextScore(*corpus_bleu(list(texts["text"]), references))
    except UserError as missing:
        raise NotComputedError(str(missing)) from missing


def _distinct(texts: pd.DataFrame, options: TextOptions, *, order: int) -> TextScore:
    share = distinct(list(texts["text"]), order, within_items=options.within_texts)
    if isnan(share):
        raise NotComputedError(f"the texts hold no {order}-gram")
    return TextScore(share, "n-grams inside texts only" if options.within_texts else None)


def _self_bleu(texts: pd.DataFrame, _: TextOptions, *, order: int) -> TextScore:
    if len(texts) < 2:
        raise NotComputedError("a text is compared with others, and there is only one")
    return mean_score(self_bleu(list(texts["text"]), [order])[order])


def _bertscore(texts: pd.DataFrame, options: TextOptions) -> TextScore:
    references = _references(texts)
    if options.bertscore_model is None:
        raise NotComputedError(OFF)
    score = bertscore(
        _for_pretrained(texts["text"], options), _for_pretrained(references, options), model=options.bertscore_model,
        layer=options.bertscore_layer, baseline=options.bertscore_baseline, device=checked_device(options.device),
        download=options.download,
    )  # fmt: skip
    return _described(score, options)


def _lm_perplexity(texts: pd.DataFrame, options: TextOptions) -> TextScore:
    if options.perplexity_model is None:
        raise NotComputedError(OFF)
    read, model = _for_pretrained(texts["text"], options), options.perplexity_model
    return _described(
        lm_perplexity(read, model=model, device=checked_device(options.device), download=options.download), options
    )


def _oracle_perplexity(texts: pd.DataFrame, options: TextOptions) -> TextScore:
    settings = f"{_oracle(options)}, in GPT-2's place, <eos> counted, mean of text perplexities"
    return mean_score(np.exp(texts["nll"] / texts["tokens"]).to_numpy(), settings)


def _lm(texts: pd.DataFrame, options: TextOptions) -> TextScore:
    return lm_score(_oracle(options), texts)


def _reverse_lm(texts: pd.DataFrame, options: TextOptions) -> TextScore:
    _oracle(options)
    if not options.reverse:
        raise NotComputedError("off by default: it trains a network on the texts")
    assert options.oracle is not None
    return reverse_lm_score(list(texts["text"]), find_oracle(options.oracle))


TEXT_MEASURES: dict[str, Callable[[pd.DataFrame, TextOptions], TextScore]] = {
    "union": _union,
    "bleu1": partial(_bleu, order=1),
    "bleu2": partial(_bleu, order=2),
    "sacrebleu": _sacrebleu,
    "distinct2": partial(_distinct, order=2),
    "distinct3": partial(_distinct, order=3),
    "selfbleu2": partial(_self_bleu, order=2),
    "selfbleu3": partial(_self_bleu, order=3),
    "bertscore": _bertscore,
    "lm_perplexity": _lm_perplexity,
    "oracle_perplexity": _oracle_perplexity,
    "lm": _lm,
    "rlm": _reverse_lm,
}
"""The measures in the order of the rows; each raises `NotComputedError` where it has no figure."""


def _references(texts: pd.DataFrame) -> list[str]:
    if "reference" not in texts:
        raise NotComputedError("no references were given")
    return list(texts["reference"])


def _oracle(options: TextOptions) -> str:
    """What settings call the oracle."""
    if options.oracle is None:
        raise NotComputedError("no oracle was named")
    return description_of(find_oracle(options.oracle))


def _for_pretrained(texts: Sequence[str], options: TextOptions) -> list[str]:
    return [detokenize(text) if options.detokenize else text for text in texts]


def _described(score: TextScore, options: TextOptions) -> TextScore:
    if not options.detokenize:
        return score
    return TextScore(score.value, f"{score.settings}, texts detokenised", score.items)


# -- samples of texts -------------------------------------------------------------------------------------------------


def sample_scores(texts: Sequence[str], pools: Mapping[str, ReferencePool], *, per_sample: int) -> pd.DataFrame:
    """BLEU-5 against each pool of references, by its name, and `self_bleu`, Self-BLEU-5; a row a sample.

    Quality and diversity as Caccia et al. (2020) and Casas et al. (2020), appendix B, measure them. Samples are
    consecutive Moses-tokenised texts; a rest that fills no sample is left out.
    """
    if len(texts) < per_sample:
        raise UserError(f"Samples of {per_sample} texts: expected at least as many texts, found {len(texts)}.")
    samples = [texts[start : start + per_sample] for start in range(0, len(texts) - per_sample + 1, per_sample)]
    return pd.DataFrame(
        [
            {name: pool.bleu(sample) for name, pool in pools.items()} | {"self_bleu": corpus_self_bleu(sample)}
            for sample in samples
        ]
    )


def moses_texts(texts: Iterable[str]) -> list[str]:
    """Texts as the Moses tokeniser cuts them, without escapes, tokens separated by blanks."""
    try:
        from sacremoses import MosesTokenizer
    except ImportError as error:
        raise UserError("sacremoses is not installed: pip install 'depgen[text-metrics]'") from error
    tokenizer = MosesTokenizer("en")
    return [" ".join(tokenizer.tokenize(raw_text(text), escape=False)) for text in texts]


def raw_text(text: str) -> str:
    """A text as people write it, which pretrained models read."""
    return detokenize(rejoined(text))
