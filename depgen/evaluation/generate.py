"""`depgen generate`: texts from a trained system, with options that every system has and those of the run's system."""

import logging
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from depgen.errors import UserError
from depgen.evaluation.generation import json_lines, written_structure
from depgen.evaluation.system import load
from depgen.evaluation.text_documents import PROMPT, read_documents, read_file_texts
from depgen.language_models.document import DocumentLanguageModel
from depgen.locations import check_output, write_atomically
from depgen.trees.conllu import format_conllu
from depgen.trees.text_form import FormName

log = logging.getLogger(__name__)


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
    log.info("Writing with %s", system.checkpoint)
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
    log.info("%d of %d texts written to %s", len(parts), len(texts), output)
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
