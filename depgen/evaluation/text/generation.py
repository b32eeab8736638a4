"""`depgen generate`: texts from a trained system, with options that every system has and those of the run's system."""

import json as json_format
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from depgen.errors import UserError
from depgen.evaluation.system import load
from depgen.evaluation.text.generated_text import GeneratedTexts
from depgen.evaluation.text_documents import PROMPT, Text, numbered_texts, read_documents
from depgen.evaluation.trained import system_class
from depgen.language_models.document import DocumentLanguageModel
from depgen.language_models.left_to_right import GraphNetwork
from depgen.locations import check_output, write_atomically
from depgen.models.itexp import ExpansionOptions
from depgen.trees.text_form import FormName

log = logging.getLogger(__name__)


def generate(
    *,
    run: str | None = None,
    prompts: Path | None = None,
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
        number: texts a prompt (`-n`).
        max_new_tokens: where a text, or a sentence of a document, is cut.
        batch_size: texts written at once; changes nothing but speed.
        seed: of the sampling.
        output: a file for the texts, one a line, or for the new sentences of documents as above; without it they are
            printed. A name that ends in `.conllu` makes it a treebank: prompts and texts with trees, or graphs in DEPS.
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
    conllu = output is not None and output.suffix == ".conllu"
    if output is not None:
        check_output(output)
        _check_ending(output, json=json)
    if conllu and json:
        raise UserError(f"--output {output} is CoNLL-U: leave out --json, or take another ending.")
    system = load(run, device=device, form=form)
    log.info("Writing with %s", system.checkpoint)
    trees = system.model.generation_options is ExpansionOptions
    if conllu and not (isinstance(system.model, GraphNetwork) or trees):
        raise UserError(
            f"--output {output}: CoNLL-U holds texts with graphs or trees, and {type(system.model).__name__} builds "
            "none: take another ending, or a run of GiLT or ITEXP."
        )
    documents = isinstance(system.model, DocumentLanguageModel)
    read: Callable[[Path], Sequence[Text]] = read_documents if documents else read_prompts
    texts = system.generate(
        None if prompts is None else read(prompts), number=number, max_new_tokens=max_new_tokens,
        batch_size=batch_size, seed=seed, progress=sys.stderr.isatty(), **options,
    )  # fmt: skip
    rows = json_lines(texts) if json else _lines(texts)
    content = texts.to_conllu() if conllu else "".join(f"{row}\n" for row in rows)
    if output is None:
        return content
    write_atomically(output, content)
    empty = sum(not each.words for each in texts.texts) if conllu else 0
    left_out = f"; {empty} without a word left out" if empty else ""
    log.info("%d texts written to %s%s", len(texts) - empty if conllu else content.count("\n"), output, left_out)
    return None


def options_of_run(run: str | None) -> tuple[str, type] | None:
    """The name of a run's system and the dataclass of its options of generation; None where it has none.

    Raises:
        UserError: no such run.
    """
    system = system_class(run)
    return None if system is None or system.generation_options is None else (system.__name__, system.generation_options)


def json_lines(texts: GeneratedTexts) -> list[str]:
    """A line a text; prompts and texts of documents are lists of sentences."""
    rows = []
    for each, row in zip(texts, texts.rows(), strict=True):
        sentences = {} if each.sentences is None else {"prompt": each.prompt_sentences, "text": each.sentences}
        rows.append(json_format.dumps({**row, **sentences}, ensure_ascii=False))
    return rows


def _check_ending(output: Path, *, json: bool) -> None:
    """Raises UserError if other verbs would read a file of texts as something else, by the ending of its name."""
    ending = output.suffix.lower()
    if json and ending in (".txt", ".csv", ".tsv", ".sdp"):
        raise UserError(f"--output {output} is to hold JSON lines: expected an ending such as .jsonl, found {ending}.")
    if not json and ending in (".json", ".jsonl", ".csv", ".tsv", ".sdp"):
        raise UserError(
            f"--output {output} is to hold a text a line: expected an ending such as .txt, found {ending}. JSON lines "
            "are written with --json."
        )


def _lines(texts: GeneratedTexts) -> list[str]:
    """A line a text; of documents a line a sentence that has words, with a blank line between documents."""
    documents = [each.sentences for each in texts if each.sentences is not None]
    if not documents:
        return [each.text for each in texts]
    if wordless := sum(not any(document) for document in documents):
        log.warning(
            "%d of %d documents have not a word and are no lines, so that the lines after them are not where "
            "their prompts do: --json has a line for every one.",
            wordless, len(documents),
        )  # fmt: skip
    return "\n\n".join("\n".join(filter(None, document)) for document in documents).split("\n")


def read_prompts(path: Path) -> list[str]:
    """The prompts of a file; see `depgen.evaluation.text_documents.numbered_texts`.

    Raises:
        UserError: the file is missing, empty, not UTF-8, or has an empty prompt.
    """
    lines = []
    for number, line in numbered_texts(path, PROMPT):
        if not line.strip():
            raise UserError(
                f"{path}:{number}: expected a prompt, found an empty one. Leave --prompts out to begin from nothing."
            )
        lines.append(line)
    return lines
