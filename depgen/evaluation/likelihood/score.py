"""`depgen score`: how likely a system finds a text: each word, sentence and document, and all of it.

What a system gives a word is one of three kinds, which every row names: `exact` log-probabilities by the chain rule;
`pseudo`-log-likelihoods, for which each word is hidden in turn and predicted from all others of its sentence; or a
lower `bound` of the exact one, a sum over the structures that a beam of `beam_size` holds, or over `trees` of a parser.
Their perplexities have different names, since they do not compare.
"""

import logging
import math
import sys
from pathlib import Path
from typing import Any

from depgen.errors import UserError
from depgen.evaluation.likelihood.bounds import as_words
from depgen.evaluation.likelihood.over_trees import Trees, TreeScores
from depgen.evaluation.likelihood.score_table import By, Unit
from depgen.evaluation.likelihood.scored_text import PERPLEXITY
from depgen.evaluation.likelihood.scores import Scores
from depgen.evaluation.loading import load_system
from depgen.evaluation.system import Reads, System
from depgen.evaluation.tabular import check_table_output, written_table
from depgen.evaluation.text_documents import Tokens, read_documents
from depgen.trees.conllu import TagColumn
from depgen.trees.text_files import FileFormat
from depgen.trees.text_form import FormName

logger = logging.getLogger(__name__)


def score(
    file: Path,
    *,
    run: str | None = None,
    pretrained: str | None = None,
    by: By | None = None,
    reads: Reads | None = None,
    unit: Unit = "nats",
    json: bool = False,
    output: Path | None = None,
    form: FormName | None = None,
    input_format: FileFormat | None = None,
    tokens: Tokens | None = None,
    tags: TagColumn | None = None,
    tokens_per_batch: int | None = None,
    device: str | None = None,
    beam_size: int | None = None,
    next_words: bool = False,
    first_word_space: bool | None = None,
    trees: Trees | None = None,
    number_of_trees: int | None = None,
    parser: str | None = None,
    seed: int | None = None,
) -> str | None:
    """Log-probability and surprisal of a text's words, sentences or documents under a trained system.

    A word of several pieces has the sum over these, and so has a last word of a run that reads these twice
    (`duplicate_final_word`). The end that a system predicts has its own row, `<eos>`: after each sentence, or
    after a document that is read as one sequence; systems that fill in hidden words know none. Words that the run does
    not read, such as punctuation, have no score. Perplexities are per word and per token, each
    `<eos>` counted as one; unknown words are scored as `<unk>`, and counted.

    Args:
        file: text, one sentence a line and blank lines between documents; CoNLL-U or SDP; JSON lines with `sentences`
            or `text`; or a table (`.csv`, `.tsv`) with a column `sentence` or `text`, a document a row. Other fields or
            columns, such as item and condition, become columns. `.gz` is unpacked.
        run: a run folder (its best checkpoint), a checkpoint file or an experiment; by default the newest run.
        pretrained: in place of a run, a causal language model of the transformers library that is scored as it is: a
            folder, one under `$DEPGEN_MODELS`, or a hub name in the local cache. Nothing is fetched.
        by: a row a `word`, `sentence` or `document`, or one for `all`; by default a `word`, with `trees` a `sentence`.
        reads: what is read at once: by default a `document` by systems that know of its sentences, else a `sentence`,
            by itself. Others can read a `document` as one sequence of words. A document is cut into segments
            where the run's test is (`eval_sentences_per_segment`).
        unit: of log-probabilities and surprisals: nats or bits.
        json: JSON lines instead of tab-separated columns.
        output: a file for the rows, with commas if its name ends in `.csv`; without it they are printed.
        form: what words are brought into before they are read: by default the form of the run's corpus, and `as_is`
            where that does not say; `lower` for lower case, `stories` for that of ROCStories, `bare` for words alone,
            `ptb` for the form of the language-modelling Penn Treebank. Text that is in the form already stays as it is.
        input_format: by default what the name ends in, and `text` for other names.
        tokens: (text, JSON and tables) words are separated by white space, the default, or by rules for English.
        tags: (CoNLL-U) the column of tags, by default xpos, which tell punctuation from words; without tags, forms do.
        tokens_per_batch: tokens that are scored at once, padding included; by default as many as are fast on the
            device. A longer sentence or document is scored alone. No score depends on it.
        device: cpu, cuda, …; by default a GPU where there is one.
        beam_size: (systems whose scores are bounds, such as GiLT) structures of a text that are summed over; by default
            as in the run. A larger beam takes longer and usually gives a tighter bound; in a beam search it need not.
        next_words: (left-to-right systems without a structure, rows of words) add the entropy of the distribution that
            each word was predicted from, and its rank in it (1: the likeliest; of several tokens the last place).
        first_word_space: whether the first word of a text is encoded with a space before it, by tokenizers like
            GPT-2's. By default runs have the space, as in their training; `pretrained` models have none, as in
            minicons and in the usual call of their tokenizer. The difference is many nats for that word.
        trees: (systems that score a text with its tree, such as ITEXP) bound the probability of each sentence by trees
            of a parser: `sampled` from its distribution over projective trees and weighed by importance, a lower bound
            in expectation; or by the `gold` tree of a CoNLL-U file, of which it is the joint probability.
        number_of_trees: (with `sampled` trees) of each sentence, by default 100. The bounds by the first 1, 10, 100, …
            have columns too, and the effective sample sizes.
        parser: (with `sampled` trees) a SuPar dependency parser by its name or folder, by default `ewt_supar`.
        seed: (with `sampled` trees) of the samples, by default 0.

    Raises:
        UserError: no such file or run, a file without sentences, a system that scores no texts, a text that is longer
            than it can read, or one of whose words it reads none.
    """
    check_table_output(output, json=json)
    if next_words and by not in (None, "word"):
        raise UserError(f"next_words: expected rows of words, found --by {by}: leave out one of the two.")
    documents = read_documents(file, input_format=input_format, tokens=tokens, tags=tags, trees=trees == "gold")
    of_trees = {"number_of_trees": number_of_trees, "parser": parser, "seed": seed}
    others = {"reads": reads, "next_words": next_words or None, "beam_size": beam_size, "pretrained": pretrained}
    if trees != "sampled" and (misplaced := [name for name, value in of_trees.items() if value is not None]):
        raise UserError(f"{', '.join(misplaced)}: expected with sampled trees: add trees, or leave it out.")
    if trees is not None and (misplaced := [name for name, value in others.items() if value is not None]):
        raise UserError(f"{', '.join(misplaced)}: expected without trees: leave out trees.")
    system = load_system(run, pretrained, device=device, form=form, first_word_space=first_word_space)
    options: dict[str, Any] = {"unit": unit, "tokens_per_batch": tokens_per_batch, "progress": sys.stderr.isatty()}
    table: Scores | TreeScores
    if trees is None:
        table = system.score(
            documents, by=by or "word", reads=reads, next_words=next_words, beam_size=beam_size, **options
        )
        read = table.totals.tokens
    else:
        options |= {name: value for name, value in of_trees.items() if value is not None}
        table = system.score_over_trees(documents, trees=trees, by=by or "sentence", **options)
        read = sum(each.counts.words for each in table.sentences)
    if not read:
        raise UserError(
            f"{file}: expected words that the system reads, found none in the form `{system.reading.form}`: name "
            "another by --form."
        )
    if isinstance(table, Scores):
        _report(table, system, reads)
    else:
        _report_bounds(table, system)
    return written_table(table.rows(), output=output, json=json, as_given=table.fields)


def _report_bounds(scores: TreeScores, system: System) -> None:
    """The totals in the log."""
    totals, sentences = scores.totals, [each for each in scores.sentences if each.bound is not None]
    without = sum(each.counts.log_prob == -math.inf for each in sentences)
    bounds = [each.bound for each in sentences if each.bound is not None]
    impossible, distinct = (sum(getattr(each, name) for each in bounds) for name in ("impossible", "distinct"))
    if without:
        logger.warning(
            "%d of %d sentences have no tree with labels and expansions that the run writes: they are left out of all "
            "sums. More trees may help.",
            without, len(sentences),
        )  # fmt: skip
    word, token = (totals.perplexities("bound")[name] for name in ("perplexity_bound", "token_perplexity_bound"))
    logger.info(
        "%d words, %d of them <unk>, %d tokens: bound log-likelihood by %d %s trees a sentence%s %.2f %s; "
        "perplexity-bound per word %s, per token %s. %d of %d different trees have a label or an expansion that the "
        "run does not write. Read sentence by sentence by %s.",
        totals.words, totals.unknown, totals.tokens, scores.number_of_trees, scores.trees,
        f" of {scores.parser}" if scores.parser else "", totals.log_prob / scores.scale, scores.unit,
        *("-" if each is None else f"{each:.2f}" for each in (word, token)), impossible, distinct,
        system.trained.checkpoint,
    )  # fmt: skip


def _report(scores: Scores, system: System, reads: Reads | None) -> None:
    """The totals in the log."""
    totals, likelihood, unit = scores.totals, scores.likelihood, scores.unit
    words, by_token, known = totals.perplexities(likelihood).values()
    unread = f" ({totals.unread} more are not read in the form `{system.reading.form}`)" if totals.unread else ""
    logger.info(
        "%d words%s, %.1f %% of them <unk>, %d tokens%s: %s log-likelihood%s %.2f %s; %s per word %s, per token "
        "%s, per known word %s. Read %s by %s.",
        totals.words, unread, 100 * totals.unknown / max(1, totals.words), totals.tokens,
        "" if likelihood == "pseudo" else " with <eos>", likelihood,
        as_words(scores.beam_size),
        totals.log_prob / (scores.scale), unit, PERPLEXITY[likelihood].replace("_", "-"),
        *("-" if each is None else f"{each:.2f}" for each in (words, by_token, known)),
        "document by document" if system.reads_documents(reads) else "sentence by sentence", system.trained.checkpoint,
    )  # fmt: skip
