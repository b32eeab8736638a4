"""`depgen score`: how likely a system finds a text: each word, sentence and document, and all of it."""

import logging
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from depgen.data.tokenization import Tokens
from depgen.errors import UserError
from depgen.evaluation.frames import By, Reads, Trees, Unit, check_table_output, written
from depgen.evaluation.scores import PERPLEXITY, score_table, score_words, sums, with_perplexities
from depgen.evaluation.system import System, load
from depgen.evaluation.text_documents import documents_of, read_documents
from depgen.language_models.base import Masking
from depgen.trees.conllu import TagColumn
from depgen.trees.text_files import FileFormat
from depgen.trees.text_form import FormName

logger = logging.getLogger(__name__)


def score(
    file: Path | None = None,
    *,
    text: str | None = None,
    run: str | None = None,
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
    bow_correction: bool = False,
    begin: str | None = None,
    stride: int | None = None,
    masking: Masking | None = None,
    frequency: str | None = None,
    first_word_space: bool | None = None,
    trees: Trees | None = None,
    number_of_trees: int | None = None,
    parser: str | None = None,
    seed: int | None = None,
) -> Iterator[str] | None:
    """Log-probability and surprisal of a text's words, sentences or documents under a trained system.

    A word of several pieces has the sum over these, and so has a last word of a run that reads these twice
    (`duplicate_final_word`). The end that a system predicts has its own row, `<eos>`: after each sentence, or
    after a document that is read as one sequence; systems that fill in hidden words know none. Words that the run does
    not read, such as punctuation, have no score. Perplexities are per word and per token, each
    `<eos>` counted as one; unknown words are scored as `<unk>`, and counted.

    Args:
        file: text, one sentence a line and blank lines between documents; a run that has learnt from single sentences
            of raw text cuts each line into sentences; CoNLL-U or SDP; JSON lines with `sentences` or `text`; or a table
            (`.csv`, `.tsv`) with a column `sentence` or `text`, a document a row. Other fields or columns, such as item
            and condition, become columns.
            `.gz` is unpacked.
        text: the text itself in place of a file.
        run: what `depgen.load` takes: a run folder (its best checkpoint), an experiment (its newest run), a checkpoint
            file, or the folder or hub name of a pretrained causal language model; by default the newest run.
        by: one row for each `word`; `own_word`, the text between two blanks, such as `don't`; `sentence`; or
            `document`; or one row for `all`. By default a `word`, with `trees` a `sentence`.
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
        tokens: (text, JSON and tables) words are separated by white space, or by rules for English; by default as in
            the run's corpus.
        tags: (CoNLL-U) the column of tags, by default xpos, which tell punctuation from words; without tags, forms do.
        tokens_per_batch: tokens that are scored at once, padding included; by default as many as are fast on the
            device. A longer sentence or document is scored alone. No score depends on it.
        device: cpu, cuda, …; by default a GPU where there is one.
        beam_size: (systems whose scores are bounds, such as GiLT) structures of a text that are summed over; by default
            as in the run. A larger beam takes longer and usually gives a tighter bound; in a beam search it need not.
        next_words: (left-to-right systems without a structure, rows of words) add the entropy of the distribution that
            each word's first token was predicted from, the rank of that token in it (1: the likeliest), and whether
            all tokens of the word were the likeliest.
        bow_correction: (left-to-right systems without a structure) give each word the blank after it, and not the one
            before it, which tokenizers like GPT-2's put into a word's first token (Pimentel & Meister 2024; Oh &
            Schuler 2024). The end of a text ends a word too. Nothing changes in vocabularies of words.
        begin: (pretrained models) the token that begins a text, or `none`: the first word then has no score. By default
            the one that the tokenizer puts there, or else its `bos_token` or its `eos_token`.
        stride: (pretrained models) tokens by which a window slides over a text that is longer than the context, so that
            each token is scored once. By default half of the context. A larger one is faster and gives less context.
        masking: (pretrained masked models) what is hidden when a token is predicted: by default it alone,
            `original`; or also the later tokens of its word, `within_word_l2r` (Kauf & Ivanova 2023).
        frequency: (rows of words) a run, an experiment or its YAML file. A column says how often each word is in its
            training text, as that text spells it; of an own word that is cut, how often its rarest part is.
        first_word_space: whether the first word of a text is encoded with a space before it, by tokenizers like
            GPT-2's. By default runs have the space, as in their training; pretrained models have none, as in
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
    of_trees: dict[str, Any] = {"number_of_trees": number_of_trees, "parser": parser, "seed": seed}
    of_trees = {name: value for name, value in of_trees.items() if value is not None}
    if of_trees and trees != "sampled":
        raise UserError(f"{', '.join(of_trees)}: expected with sampled trees: add trees, or leave it out.")
    system = load(run, device=device, form=form, first_word_space=first_word_space)
    if text is not None:
        if file is not None or input_format is not None or tags is not None:
            raise UserError("file, input_format, tags: expected none of them beside text: leave out one or the other.")
        documents = documents_of(text, system.reading, tokens)
    elif file is None:
        raise UserError("Expected a file, or a text by --text, found neither.")
    else:
        documents = read_documents(
            file, reading=system.reading, input_format=input_format, tokens=tokens, tags=tags, trees=trees == "gold",
            with_blanks=by == "own_word",
        )  # fmt: skip
    options: dict[str, Any] = {"tokens_per_batch": tokens_per_batch, "progress": sys.stderr.isatty()}
    if trees is not None:
        others: list[Any] = [reads, beam_size, next_words, bow_correction, begin, stride, masking, frequency]
        if any(others):
            raise UserError(
                "reads, beam_size, next_words, bow_correction, begin, stride, masking, frequency: expected without "
                "trees, found one of them: leave it out."
            )
        table = system.score_over_trees(documents, trees=trees, by=by or "sentence", unit=unit, **options, **of_trees)
        return written([table], output=output, json=json)
    words = score_words(
        system, documents, reads=reads, beam_size=beam_size, next_words=next_words, bow_correction=bow_correction,
        begin=begin, stride=stride, masking=masking, frequency=frequency, **options,
    )  # fmt: skip
    _report(sums(words), words.attrs["beam_size"], system, unit, as_documents=system.reads_documents(reads))
    return written([score_table(words, documents, by=by or "word", unit=unit)], output=output, json=json)


def _report(totals: pd.DataFrame, beam: int | None, system: System, unit: Unit, *, as_documents: bool) -> None:
    """Say in the log what was scored, and the perplexity of all.

    Raises:
        UserError: the system reads no word.
    """
    likelihood = system.model.likelihood
    (total,) = with_perplexities(totals, likelihood).to_dict("records")
    form, name = system.reading.known_form, PERPLEXITY[likelihood]
    if not total["tokens"]:
        raise UserError(
            f"Expected words that the system reads, found none in the form `{form}`: name another by --form."
        )
    logger.info(
        "%d words%s, %.1f %% of them <unk>, %d tokens%s: %s log-likelihood%s %.2f %s; %s per word %.2f, per token "
        "%.2f, per known word %.2f. Read %s by %s.",
        total["words"], f" ({total['unread']} more have no score; form `{form}`)" if total["unread"] else "",
        100 * total["unknown"] / max(1, total["words"]), total["tokens"], " with <eos>" if total["ends"] else "",
        likelihood, "" if beam is None else f" (beam {beam})",
        total["log_prob"] / (math.log(2) if unit == "bits" else 1), unit, name.replace("_", "-"), total[name],
        total[f"token_{name}"], total[f"known_word_{name}"],
        "document by document" if as_documents else "sentence by sentence", system.checkpoint,
    )  # fmt: skip
