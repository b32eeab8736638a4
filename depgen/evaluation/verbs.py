"""The verbs `score`, `parse` and `generate`: files in, the same functions as in Python, files out."""

import logging
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from depgen.annotation.annotator import parser_named
from depgen.data.table import attached_marks
from depgen.data.tokenization import Tokens
from depgen.errors import UserError
from depgen.evaluation.generation import json_lines, written_structure
from depgen.evaluation.measure import check_table_output, written
from depgen.evaluation.over_trees import Trees
from depgen.evaluation.parsing import Format, check_format, parse_documents, structure_found_by
from depgen.evaluation.reading import Reading
from depgen.evaluation.scores import PERPLEXITY, By, Unit, score_table, score_words, sums, with_perplexities
from depgen.evaluation.system import System, load
from depgen.evaluation.text_documents import PROMPT, document_of, documents_of, read_documents, read_file_texts
from depgen.evaluation.trained import Reads
from depgen.language_models.base import Masking
from depgen.language_models.document import DocumentLanguageModel
from depgen.locations import check_output, write_atomically
from depgen.trees.annotator import Structure
from depgen.trees.conllu import TagColumn, format_conllu, read_blocks
from depgen.trees.text_files import FileFormat, format_of, read_lines
from depgen.trees.text_form import FormName

logger = logging.getLogger(__name__)

# -- `depgen score` ---------------------------------------------------------------------------------------------------


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


# -- `depgen parse` ---------------------------------------------------------------------------------------------------


def parse(
    *,
    input: Path,
    run: Sequence[str] | None = None,
    parser: str | None = None,
    output: Path | None = None,
    form: FormName | None = None,
    input_format: FileFormat | None = None,
    tokens: Tokens | None = None,
    tags: TagColumn | None = None,
    format: Format | None = None,
    beam_size: int | None = None,
    tokens_per_batch: int = 8192,
    device: str | None = None,
    attention_head: tuple[int, int] | None = None,
) -> str | None:
    """Parse raw text or CoNLL-U with a run of UDGN, GiLT, DTG, Pushdown, TG, another system that parses, or a parser.

    The output has every word: those that a run does not read, such as punctuation, hang on the word before them in a
    tree, and have no arcs in a graph. In CoNLL-U, HEAD and DEPREL become the new tree, DEPS becomes `_` and empty nodes
    are left out; all else is kept. A run gives the relations `root` and `dep`, a trained parser those of its treebank.
    A parser of graphs, such as a run of GiLT or DTG, writes DEPS alone.

    Args:
        input: text, one sentence a line (a run that has learnt from sentences of raw text cuts lines into sentences);
            CoNLL-U with trees or without; SDP, whose identifiers the output keeps; JSON lines with `sentences` or
            `text`; or a table (`.csv`, `.tsv`) with a column `sentence` or `text`. `.gz` is unpacked.
        run: a run folder (its best checkpoint), a checkpoint file or an experiment; by default the newest run. Several
            runs that give trees and differ in their seed alone parse by their consensus, the mean of their
            probabilities of heads.
        parser: in place of a run, a parser of `depgen annotate --train` (name or folder), or an installed spaCy
            package.
        output: where the result goes; by default it is printed.
        form: (run) what words are brought into before they are read: by default the form of the run's corpus, in which
            text that has it already stays as it is; `bare` for UDGN's own, `ptb` for that of the language-modelling
            Penn Treebank, `lower` for lower case alone, `stories` for that of ROCStories, `as_is` for none.
        input_format: by default what the name ends in, and `text` for other names.
        tokens: (text, JSON and tables) words are separated by white space, or by rules for English; by default as in
            the run's corpus; of text, MISC then says `SpaceAfter=No`.
        tags: (CoNLL-U) the column of tags, by default xpos, which tell punctuation from words; without tags, forms do.
        format: of the output: CoNLL-U; (graphs) SDP of 2015, in which arcs from the root are tops; or (run of Pushdown
            or TG) brackets around constituents, a line a sentence, those of TG with labels: `(S (NP the dog) (VP
            barks))`. By default SDP into a file whose name ends in `.sdp`, else brackets or CoNLL-U, whichever holds
            what is found.
        beam_size: (run of GiLT or DTG) hypotheses about the graph of a sentence; by default 20. (run of Pushdown or TG)
            those about its brackets; by default as in the run.
        tokens_per_batch: parsed at a time, padding included; no tree depends on it, but of StructFormer's with the
            published `calibration: batch`, which couples all that are parsed together.
        device: cpu, cuda, …; by default a GPU where there is one.
        attention_head: (masked Transformer) `[layer,head]` that it parses by, both 0-based, such as `depgen
            evaluate parsing` chooses; by default those that it was trained with, if any.
    """
    if output is not None:
        check_output(output)
    kind = input_format or format_of(input)
    if parser is not None:
        options = {
            "run": run, "form": form, "device": device, "attention_head": attention_head, "beam_size": beam_size,
        }  # fmt: skip
        if named := [name for name, value in options.items() if value is not None]:
            raise UserError(f"--parser can't be combined with --{', --'.join(named)}: leave out one or the other.")
    systems = [] if parser is not None else [load(each, device=device, form=form) for each in run or (None,)]
    reading = systems[0].reading if systems else Reading()
    splitter, cut = reading.rules(tokens)
    blocks = list(read_blocks(input)) if kind == "conllu" else []
    if kind == "text":
        lines = "\n".join(line for _, line in read_lines(input))
        documents = [document_of(lines, name=input.name, splitter=splitter, tokens=cut)]
        if not documents[0].sentences:
            raise UserError(f"{input}: expected a sentence on each line, found only blank lines.")
    else:
        documents = read_documents(input, reading=reading, input_format=kind, tokens=tokens, tags=tags)

    if parser is not None:
        words = [word for document in documents for sentence in document.sentences for word in sentence.words]
        if kind == "text" and cut == "whitespace" and (marked := attached_marks(words)):
            logger.warning(
                "%s: %d of %d words end in a punctuation mark, as in raw text: --tokens rules cuts it into words.",
                input, marked, len(words),
            )  # fmt: skip
        annotator = parser_named(parser)
        chosen = _format(format, output, annotator.structure)
        parses = parse_documents(annotator, documents)
        logger.info("%d sentences parsed by %s.", len(parses.sentences), annotator.scheme)
    else:
        system, *others = systems
        chosen = _format(format, output, structure_found_by(system))
        parses = system.parse(
            documents, attention_head=attention_head, beam_size=beam_size, tokens_per_batch=tokens_per_batch,
            others=others, progress=sys.stderr.isatty(),
        )  # fmt: skip
        read, unknown = (sum(map(sum, marks)) for marks in (parses.read, parses.unknown))
        logger.info(
            "%d sentences parsed by %s; %d words read, %.1f %% of them unknown to it.", len(parses.sentences),
            ", ".join(str(each.checkpoint) for each in (system, *others)), read, 100 * unknown / max(1, read),
        )  # fmt: skip
    if blocks and chosen == "conllu":
        changed = (
            block.with_graph(each.edges or ())
            if parses.structure == "graph"
            else block.with_tree(each.heads or (), each.relations or ())
            for block, each in zip(blocks, parses.sentences, strict=True)
        )
        content = "".join(f"{lines}\n" for lines in changed)
    else:
        content = {"conllu": parses.to_conllu, "sdp": parses.to_sdp, "brackets": parses.to_brackets}[chosen]()
    if output is None:
        return content
    write_atomically(output, content)
    logger.info("%d sentences written to %s", len(parses.sentences), output)
    return None


def _format(format: Format | None, output: Path | None, structure: Structure) -> Format:
    """The format of the output."""
    if format is None:
        format = "brackets" if structure == "constituency" else "conllu"
        if output is not None and output.suffix.lower() == ".sdp":
            format = "sdp"
    check_format(format, structure)
    return format


# -- `depgen generate` ------------------------------------------------------------------------------------------------


def generate(
    *,
    run: str | None = None,
    prompts: Path | None = None,
    prompt: str | None = None,
    number: int = 1,
    max_new_tokens: int = 100,
    batch_size: int = 64,
    seed: int = 0,
    output: Path | None = None,
    json: bool = False,
    form: FormName | None = None,
    device: str | None = None,
    **options: Any,  # noqa: ANN401 - of the run's system
) -> str | None:
    """Write texts with a trained system, from prompts or from nothing.

    Text k of prompt i depends on the seed, i and k alone: not on the batch, nor on the other prompts.

    Args:
        run: a run folder (its best checkpoint) or a checkpoint file; by default the newest run.
        prompts: a file of one prompt a line, words separated by spaces; or JSON lines or a table (`.csv`, `.tsv`) with
            a field or column `prompt`, `text` or `sentence`. For systems that read documents sentence by sentence: a
            sentence a line with a blank line between documents, or another file as for `depgen score`. Without it texts
            begin from nothing. ITEXP continues none.
        prompt: one prompt itself in place of a file.
        number: texts a prompt.
        max_new_tokens: where a text, or a sentence of a document, is cut.
        batch_size: texts written at once; changes nothing but speed.
        seed: of the sampling.
        output: a file for the texts, one a line, or for the new sentences of documents as above; without it they are
            printed. A name that ends in `.conllu` makes it a treebank: prompts and texts with trees, or graphs in DEPS;
            one that ends in `.json` or `.jsonl` makes it JSON lines.
        json: JSON lines with prompt, text, seed and log-probability (nats, of the words after the prompt, under the
            system's own distribution; of words and structure together where the system builds one) instead of bare
            texts; of documents, lists of sentences. The seed is the text's own, computed from --seed. A system that
            builds structures adds them, and the words that edges number. TG adds `brackets`, its constituents over
            words: `(S (NP the dog) (VP barks))`. Trees of ITEXP are binarised, unless its vocabulary has
            binarization none; arcs of `--skeletons` are always as given.
        form: what words of prompts are brought into before they are read: by default the form of the run's corpus, as
            in `depgen score`; `as_is` to leave them as they are.
        device: cpu, cuda, …; by default a GPU where there is one.
        options: the system's own; `depgen generate --help --run RUN` lists them.

    Raises:
        UserError: no such run or file, an empty file of prompts, an option that the system lacks, numbers out of range.
    """
    ending = "" if output is None else output.suffix.lower()
    if output is not None:
        check_output(output)
    system = load(run, device=device, form=form)
    logger.info("Writing with %s", system.checkpoint)
    if ending == ".conllu" and written_structure(system) not in ("graph", "tree"):
        raise UserError(
            f"--output {output}: CoNLL-U holds texts with graphs or trees, and {type(system.model).__name__} builds "
            "none: take another ending, or a run of GiLT or ITEXP."
        )
    documents = isinstance(system.model, DocumentLanguageModel)
    begin: Any = prompt
    if prompts is not None:
        if prompt is not None:
            raise UserError("prompt, prompts: expected one of them, found both: leave one out.")
        begin = read_documents(prompts, reading=system.reading) if documents else read_file_texts(prompts, PROMPT)
    texts = system.generate(
        begin, number=number, max_new_tokens=max_new_tokens, batch_size=batch_size, seed=seed,
        progress=sys.stderr.isatty(), **options,
    )  # fmt: skip
    if ending == ".conllu":
        parts = _conllu(texts)
    elif json or ending in (".json", ".jsonl"):
        parts = [f"{line}\n" for line in json_lines(texts, documents=documents)]
    else:
        parts = _sentences(texts) if documents else [f"{text}\n" for text in texts["text"]]
    if output is None:
        return "".join(parts)
    write_atomically(output, "".join(parts))
    logger.info("%d of %d texts written to %s", len(parts), len(texts), output)
    return None


def _conllu(texts: pd.DataFrame) -> list[str]:
    """Prompts and texts that have words, with their trees, or with their graphs in DEPS."""
    return [
        f"# sent_id = text-{number}\n# text = {' '.join(sentence.words)}\n{format_conllu(sentence)}\n"
        for number, sentence in enumerate(texts["sentence"], start=1)
        if sentence.words
    ]


def _sentences(texts: pd.DataFrame) -> list[str]:
    """The sentences of each document that have words, one a line, with a blank line between documents."""
    documents = ["\n".join(filter(None, text.split("\n"))) + "\n" for text in texts["text"]]
    return [f"{document}\n" for document in documents[:-1]] + documents[-1:]
