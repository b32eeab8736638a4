"""`depgen parse`: raw text or other files in, CoNLL-U, SDP or brackets with the structures of a run or parser out."""

import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from depgen.annotation.annotator import parser_named
from depgen.data.table import attached_marks
from depgen.data.tokenization import Tokens
from depgen.errors import UserError
from depgen.evaluation.parsing import Format, check_format, parse_documents, structure_found_by
from depgen.evaluation.reading import Reading
from depgen.evaluation.system import load
from depgen.evaluation.text_documents import document_of, read_documents
from depgen.evaluation.trained import named_runs
from depgen.locations import check_output, write_atomically
from depgen.trees.annotator import Structure
from depgen.trees.conllu import TagColumn, read_blocks
from depgen.trees.text_files import FileFormat, format_of, read_lines
from depgen.trees.text_form import FormName

logger = logging.getLogger(__name__)


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
    systems = [] if parser is not None else [load(each, device=device, form=form) for each in named_runs(run)]
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
