"""`depgen score`: how likely a system finds a text: each word, sentence and document, and all of it.

What a system gives a word is one of three kinds, which every row names: `exact` log-probabilities by the chain rule;
`pseudo`-log-likelihoods, for which each word is hidden in turn and predicted from all others of its sentence; or
`bound`. Their perplexities have names of their own, since they do not compare.
"""

import json as json_format
import logging
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from depgen.errors import UserError
from depgen.evaluation.reading import reading_of_run
from depgen.evaluation.scored_text import PERPLEXITY, ScoredDocument, Scorer, Totals
from depgen.evaluation.text_documents import InputFormat, Tokens, read_documents
from depgen.evaluation.trained import Trained, load_trained
from depgen.language_models.base import Likelihood
from depgen.locations import check_output, write_atomically
from depgen.trees.conllu import TagColumn
from depgen.trees.text_form import FormName

logger = logging.getLogger(__name__)

Reads = Literal["sentence", "document"]
By = Literal["word", "sentence", "document", "all"]
Unit = Literal["nats", "bits"]
_Row = dict[str, Any]


def score(
    file: Path,
    *,
    run: str | None = None,
    by: By = "word",
    reads: Reads | None = None,
    unit: Unit = "nats",
    json: bool = False,
    output: Path | None = None,
    form: FormName | None = None,
    input_format: InputFormat | None = None,
    tokens: Tokens = "whitespace",
    tags: TagColumn = "xpos",
    tokens_per_batch: int = 8192,
    device: str | None = None,
) -> str | None:
    """Log-probability and surprisal of a text's words, sentences or documents under a trained system.

    A word of several pieces has the sum over these, and so has a last word of a run that reads these twice
    (`duplicate_final_word`). The end that a system predicts is a row of its own, `<eos>`: behind each sentence, or
    behind a document that is read as one sequence; systems that fill in hidden words know none. Words that the run does
    not read, such as punctuation, have no score. Perplexities are per word and per token, each
    `<eos>` counted as one; unknown words are scored as `<unk>`, and counted.

    Args:
        file: text, one sentence a line and blank lines between documents; CoNLL-U; or JSON lines with `sentences` or
            `text`; `.gz` is unpacked.
        run: a run folder (its best checkpoint), a checkpoint file or an experiment; by default the newest run.
        by: a row a `word`, `sentence` or `document`, or one for `all`.
        reads: what is read at once: by default a `document` by systems that know of its sentences, else a `sentence`,
            by itself. Others read a `document`, if asked, as one sequence of words. A document is cut into segments
            where the run's test is (`eval_sentences_per_segment`).
        unit: of log-probabilities and surprisals: nats or bits.
        json: JSON lines instead of tab-separated columns.
        output: a file for the rows; without it they are printed.
        form: what words are brought into before they are read: by default the form of the run's corpus, and `as_is`
            where that does not say; `lower` for lower case, `stories` for that of ROCStories, `bare` for words alone,
            `ptb` for the form of the language-modelling Penn Treebank. Text that is in the form already stays as it is.
        input_format: by default `conllu` or `jsonl` for names that end so, `text` for all others.
        tokens: (text and JSON) words are separated by white space, or by rules for English.
        tags: (CoNLL-U) the column of tags, which tell punctuation from words; without tags, forms do.
        tokens_per_batch: read at a time, all that is read as one counted as long as the longest of a batch; what is
            longer by itself is a batch of its own. No score depends on it.
        device: cpu, cuda, …; by default a GPU where there is one.

    Raises:
        UserError: no such file or run, a file without sentences, a system that scores no texts, a text that is longer
            than it can read.
    """
    if output is not None:
        check_output(output)
    documents = read_documents(file, input_format=input_format, tokens=tokens, tags=tags)
    trained = load_trained(run, device=device)
    scorer = Scorer(
        trained,
        reading_of_run(trained.run, form),
        as_one=_reads_documents(trained, reads),
        tokens_per_batch=tokens_per_batch,
        progress=sys.stderr.isatty(),
    )
    scored = scorer.score(documents)
    likelihood = trained.model.likelihood
    rows = _rows(scored, by, likelihood, scale=math.log(2) if unit == "bits" else 1.0)
    content = _as_json(rows, unit) if json else _as_columns(rows)
    _report(scored, scorer, likelihood, unit)
    if output is None:
        return content
    write_atomically(output, content)
    return None


def _reads_documents(trained: Trained, reads: Reads | None) -> bool:
    """Whether documents are read as one.

    Raises:
        UserError: this is asked of a system that never does.
    """
    if reads == "document" and trained.model.likelihood == "pseudo":
        raise UserError(
            f"{type(trained.model).__name__} predicts each word from the others of its sentence, and reads no document "
            "as one: leave out --reads document."
        )
    return trained.model.reads_sentences if reads is None else reads == "document"


# -- rows ----------------------------------------------------------------------------------------------------------


def _rows(documents: Sequence[ScoredDocument], by: By, likelihood: Likelihood, *, scale: float) -> list[_Row]:
    if by == "word":
        return list(_word_rows(documents, likelihood, scale))
    if by == "all":
        everything = Totals.of(word for document in documents for word in document.words)
        counts = {"documents": len(documents), "sentences": sum(len(each.sentences) for each in documents)}
        return [counts | _sums(everything, likelihood, scale)]
    rows: list[_Row] = []
    for number, document in enumerate(documents, start=1):
        if by == "document":
            place = {"document": number, "identifier": document.identifier, "sentences": len(document.sentences)}
            rows.append(place | _sums(Totals.of(document.words), likelihood, scale))
            continue
        for index, sentence in enumerate(document.sentences):
            place = {"document": number, "sentence": index + 1, "place": document.places[index]}
            text = " ".join(word.word for word in sentence if not word.is_end)
            rows.append(place | _sums(Totals.of(sentence), likelihood, scale) | {"text": text})
    return rows


def _word_rows(documents: Sequence[ScoredDocument], likelihood: Likelihood, scale: float) -> Iterator[_Row]:
    for document_number, document in enumerate(documents, start=1):
        for sentence_number, sentence in enumerate(document.sentences, start=1):
            for position, word in enumerate(sentence, start=1):
                yield {
                    "document": document_number,
                    "sentence": sentence_number,
                    "position": position,
                    "word": word.word,
                    "tokens": word.tokens,
                    "unknown": word.unknown,
                    **_scores(word.log_prob / scale if word.tokens else None),
                    "likelihood": likelihood,
                }


def _sums(totals: Totals, likelihood: Likelihood, scale: float) -> _Row:
    return {
        "words": totals.words,
        "tokens": totals.tokens,
        "unknown": totals.unknown,
        **_scores(totals.log_prob / scale if totals.tokens else None),
        **totals.perplexities(likelihood),
        "likelihood": likelihood,
    }


def _scores(log_prob: float | None) -> _Row:
    return {"log_prob": log_prob, "surprisal": None if log_prob is None else -log_prob}


def _as_columns(rows: Sequence[_Row]) -> str:
    lines = ["\t".join(rows[0]), *("\t".join(map(_cell, row.values())) for row in rows)]
    return "".join(f"{line}\n" for line in lines)


def _cell(value: str | int | float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    return f"{value + 0.0:.6f}" if isinstance(value, float) else " ".join(str(value).split())


def _as_json(rows: Sequence[_Row], unit: Unit) -> str:
    """A line a row; JSON has no word for an infinite perplexity, which becomes null."""
    finite = ({name: None if value == math.inf else value for name, value in row.items()} for row in rows)
    return "".join(f"{json_format.dumps({**row, 'unit': unit}, ensure_ascii=False)}\n" for row in finite)


def _report(documents: Sequence[ScoredDocument], scorer: Scorer, likelihood: Likelihood, unit: Unit) -> None:
    """The totals in the log."""
    totals = Totals.of(word for document in documents for word in document.words)
    words, by_token, known = totals.perplexities(likelihood).values()
    unread = f" ({totals.unread} more are not read in the form `{scorer.reading.form}`)" if totals.unread else ""
    logger.info(
        "%d words%s, %.1f %% of them <unk>, %d tokens%s: %s log-likelihood %.2f %s; %s per word %s, per token "
        "%s, per known word %s. Read %s by %s.",
        totals.words, unread, 100 * totals.unknown / max(1, totals.words), totals.tokens,
        "" if likelihood == "pseudo" else " with <eos>", likelihood,
        totals.log_prob / (math.log(2) if unit == "bits" else 1.0), unit, PERPLEXITY[likelihood].replace("_", "-"),
        *("-" if each is None else f"{each:.2f}" for each in (words, by_token, known)),
        "document by document" if scorer.as_one else "sentence by sentence", scorer.trained.checkpoint,
    )  # fmt: skip
