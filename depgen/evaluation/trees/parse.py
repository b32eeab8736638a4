"""`depgen parse`: raw text or other files in, CoNLL-U, SDP or brackets with the structures of a run out."""

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from depgen.annotation.annotator import parser_named
from depgen.decoding.heads import Decoding
from depgen.errors import UserError
from depgen.evaluation.system import load
from depgen.evaluation.text_documents import TextDocument, Tokens, document_of, file_format, read_documents
from depgen.evaluation.trained import named_runs
from depgen.evaluation.trees.bracketed_text import bracketed_lines
from depgen.evaluation.trees.parsed_text import ParsedTexts, parse_documents
from depgen.locations import check_output, write_atomically
from depgen.trees.annotator import structure_of
from depgen.trees.conllu import ConlluBlock, TagColumn, read_blocks
from depgen.trees.sentence import Sentence
from depgen.trees.text_files import FileFormat, read_lines
from depgen.trees.text_form import FormName

logger = logging.getLogger(__name__)


def parse(
    *,
    input: Path,
    run: Sequence[str] | str | None = None,
    parser: str | None = None,
    output: Path | None = None,
    decoding: Decoding = "tree",
    form: FormName | None = None,
    input_format: FileFormat | None = None,
    tokens: Tokens | None = None,
    tags: TagColumn | None = None,
    format: Literal["conllu", "sdp", "brackets"] = "conllu",
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
        input: text, one sentence a line; CoNLL-U with trees or without; SDP, whose identifiers the output keeps; JSON
            lines with `sentences` or `text`; or a table (`.csv`, `.tsv`) with a column `sentence` or `text`. `.gz` is
            unpacked.
        run: a run folder (its best checkpoint), a checkpoint file or an experiment; by default the newest run. Several
            runs that give trees and differ in their seed alone parse by their consensus, the mean of their
            probabilities of heads.
        parser: in place of a run, a parser of `depgen annotate --train` (name or folder), or an installed spaCy
            package.
        output: where the result goes; by default it is printed.
        decoding: (run) `tree`, the best tree with a single root; or `argmax`, each word's likeliest head, where one
            head in each cycle is changed to make a tree. The row `argmax` of `parsing-scores` is of unchanged heads.
        form: (run) what words are brought into before they are read: by default the form of the run's corpus, in which
            text that has it already stays as it is; `bare` for UDGN's own, `ptb` for that of the language-modelling
            Penn Treebank, `lower` for lower case alone, `stories` for that of ROCStories, `as_is` for none.
        input_format: by default what the name ends in, and `text` for other names.
        tokens: (text, JSON and tables) words are separated by white space, the default, or by rules for English; of
            text, MISC then says `SpaceAfter=No`.
        tags: (CoNLL-U) the column of tags, by default xpos, which tell punctuation from words; without tags, forms do.
        format: of the output: CoNLL-U; (graphs) SDP of 2015, in which arcs from the root are tops; or (run of
            Pushdown or TG) brackets around constituents, a line a sentence, those of TG with labels:
            `(S (NP the dog) (VP barks))`.
        beam_size: (run of GiLT or DTG) hypotheses about the graph of a sentence; by default 20. (run of Pushdown or TG)
            those about its brackets; by default as in the run.
        tokens_per_batch: parsed at a time, padding included; no tree depends on it, but of StructFormer's with the
            published `calibration: batch`, which couples all that are parsed together.
        device: cpu, cuda, …; by default a GPU where there is one.
        attention_head: (masked Transformer) `[layer,head]` that it parses by, both 0-based, such as `depgen
            parsing-scores` chooses; by default those that it was trained with, if any.

    Raises:
        UserError: no such file, run, parser, form or attention head, a run that does not parse, several runs that have
            no consensus, CoNLL-U that is none (line named), a parser with a run or with an option that only runs have.
    """
    if output is not None:
        check_output(output)
        if (ending := output.suffix.lower()) in (".conllu", ".sdp") and ending != f".{format}":
            raise UserError(
                f"--output {output} is to hold {format}: expected an ending that says so, found {ending}. Add --format "
                f"{ending[1:]}, or name another file."
            )
    if parser is not None:
        _check_that_no_run_is_named(
            run=run, form=form, device=device, attention_head=attention_head, beam_size=beam_size,
            format="brackets" if format == "brackets" else None,
        )  # fmt: skip
    found = file_format(input, input_format, tokens=tokens, tags=tags)
    blocks = list(read_blocks(input)) if found == "conllu" else []
    if found == "conllu":
        document = _of_blocks(input, blocks, tags or "xpos")
    elif found == "text":
        document = _of_lines(input, tokens or "whitespace")
    else:
        document = _joined(input, read_documents(input, input_format=found, tokens=tokens))
    if parser is not None:
        annotator = parser_named(parser)
        if structure_of(annotator) == "constituency":
            raise UserError(
                f"--parser {parser} gives constituents, which CoNLL-U can't hold: name it as the annotator of an "
                "experiment, or take a parser of trees or graphs."
            )
        parsed, source = parse_documents(annotator, [document]), annotator.scheme
    elif format == "brackets":
        if len(named := named_runs(run)) > 1:
            raise UserError(f"--format brackets: expected one run, found {len(named)}: a consensus is of trees.")
        system = load(named[0], device=device, form=form)
        lines = bracketed_lines(system, document, beam_size=beam_size, tokens_per_batch=tokens_per_batch)
        return _written("".join(f"{line}\n" for line in lines), output, sentences=len(lines))
    else:
        system, *others = (load(each, device=device, form=form) for each in named_runs(run))
        source = ", ".join(str(each.checkpoint) for each in (system, *others))
        parsed = system.parse(
            [document], decoding=decoding, attention_head=attention_head, beam_size=beam_size,
            tokens_per_batch=tokens_per_batch, others=others, progress=sys.stderr.isatty(),
        )  # fmt: skip
    content = parsed.to_sdp() if format == "sdp" else _as_conllu(blocks, parsed)
    _report(parsed, source, read_by_run=parser is None)
    return _written(content, output, sentences=len(parsed.sentences))


def _written(content: str, output: Path | None, *, sentences: int) -> str | None:
    """The content where no file is named; else None, once it is in the file."""
    if output is None:
        return content
    write_atomically(output, content)
    logger.info("%d sentences written to %s", sentences, output)
    return None


def _check_that_no_run_is_named(**options: object) -> None:
    named = [name for name, value in options.items() if value is not None]
    if named:
        raise UserError(
            f"--parser gives the trees by itself, so it can't be combined with --{', --'.join(named)}: leave out "
            "--parser or the other."
        )


def _of_lines(path: Path, tokens: Tokens) -> TextDocument:
    """A file of one sentence a line.

    Raises:
        UserError: the file can't be read, or has only blank lines.
    """
    content = "\n".join(line for _, line in read_lines(path))
    document = document_of(content, name=path.name, tokens=tokens)
    if not document.sentences:
        raise UserError(f"{path}: expected a sentence on each line, found only blank lines.")
    return document


def _of_blocks(path: Path, blocks: Sequence[ConlluBlock], tags: TagColumn) -> TextDocument:
    """The sentences of CoNLL-U, without their trees."""
    sentences = tuple(block.bare_sentence(tags) for block in blocks)
    return TextDocument(path.name, sentences, tuple(f"{path.name}:{block.numbers[0]}" for block in blocks))


def _joined(path: Path, documents: Sequence[TextDocument]) -> TextDocument:
    """The sentences of all documents, numbered within their document where that has several."""
    sentences, places = list[Sentence](), list[str]()
    for document in documents:
        several = len(document.sentences) > 1
        for number, (sentence, place) in enumerate(zip(document.sentences, document.places, strict=True), start=1):
            sentences.append(sentence)
            places.append(f"{place}-{number}" if several else place)
    return TextDocument(path.name, tuple(sentences), tuple(places))


def _as_conllu(blocks: Sequence[ConlluBlock], parsed: ParsedTexts) -> str:
    """The sentences in CoNLL-U: of those that came so, the lines with new trees or with new graphs."""
    if not blocks:
        return parsed.to_conllu()
    texts = []
    for block, found in zip(blocks, parsed.sentences, strict=True):
        edges = found.edges
        texts.append(block.with_tree(found.heads, found.relations) if edges is None else block.with_graph(edges))
    return "".join(f"{text}\n" for text in texts)


def _report(parsed: ParsedTexts, source: str, *, read_by_run: bool) -> None:
    sentences = parsed.sentences
    if not read_by_run:
        logger.info("%d sentences parsed by %s.", len(sentences), source)
        return
    read, unknown = (
        sum(map(sum, marks)) for marks in zip(*((each.read, each.unknown) for each in sentences), strict=True)
    )
    logger.info(
        "%d sentences parsed by %s; %d words read, %.1f %% of them unknown to it.",
        len(sentences), source, read, 100 * unknown / max(1, read),
    )  # fmt: skip
