"""Vocabularies that were saved: in a run folder or in a checkpoint, by this version or an earlier one."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from depgen.data.vocabulary import TOKENIZER_FILE, VOCABULARY_FILE, Vocabulary
from depgen.errors import UserError
from depgen.locations import lines_sha256, text_of_file
from depgen.training.checkpoints import load_checkpoint
from depgen.training.runs import check_vocabulary


def load_vocabulary(folder: Path) -> Vocabulary:
    """The vocabulary saved in a folder.

    Raises:
        UserError: there is none, it is damaged, or it is a run's and not the one of its training.
    """
    check_vocabulary(folder)
    path = folder / VOCABULARY_FILE
    if not path.is_file():
        raise UserError(f"No vocabulary at {path}. A run folder carries its own; name one that `depgen fit` made.")
    return vocabulary_of_files(lambda name: text_of_file(folder / name), folder)


def vocabulary_of_files(text_of: Callable[[str], str], where: Path | str) -> Vocabulary:
    """The vocabulary whose `files` these are; those of earlier versions are read too.

    Args:
        text_of: from a file's name to its text.
        where: what the files lie in, for messages.

    Raises:
        UserError: a file is missing or damaged, or the vocabulary is of an unknown kind.
    """
    path, text = f"{where}/{VOCABULARY_FILE}", text_of(VOCABULARY_FILE)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: expected JSON, found: {error}. Copy the file again.") from error
    try:
        return _of_content(content, text_of)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _of_content(content: object, text_of: Callable[[str], str]) -> Vocabulary:
    match content:
        case {"specials": {"eos": str(), **_others} as specials, "tables": dict(tables), "sha256": str(digest)} if all(
            isinstance(each, str) for each in specials.values()
        ):
            tokenizer = text_of(TOKENIZER_FILE)
            if lines_sha256([tokenizer]) != digest:
                raise UserError(
                    f"expected the {TOKENIZER_FILE} that was saved with it (SHA-256 {digest[:12]}), found another "
                    f"({lines_sha256([tokenizer])[:12]}). Copy both files again."
                )
            return Vocabulary(tokenizer, specials=specials, tables=tables)
        case {"kind": "word", "words": list(words), **others} if all(isinstance(word, str) for word in words):
            flags = {"mask_id": "masks", "start": "starts"}
            return Vocabulary.of_words(words, specials=[name for name, flag in flags.items() if others.get(flag)])
        case {"kind": "subword", "eos_token": str(eos), "unk_token": str() | None as unk}:
            return Vocabulary(text_of(TOKENIZER_FILE), specials={"eos": eos} | ({} if unk is None else {"unk": unk}))
        case _:
            raise UserError(f"expected a vocabulary, or words and their kind, found {str(content)[:80]}.")


def checked_vocabulary_size(size: int, checkpoint: Path | None) -> int:
    """The number of token types, once it is certain that the system of a checkpoint has an embedding for as many.

    Systems whose hyper-parameters do not say the number are not checked, nor is it without a checkpoint.

    Raises:
        UserError: the system was trained with another number.
    """
    settings = {} if checkpoint is None else load_checkpoint(checkpoint, mmap=True).get("hyper_parameters") or {}
    expected = settings.get("vocabulary_size", size)
    if size != expected:
        raise UserError(
            f"{checkpoint}: expected the vocabulary that it was trained with, of {expected} token types, found one of "
            f"{size}. Copy the run's own vocabulary folder again."
        )
    return size


def vocabulary_of_checkpoint(content: Mapping[str, Any]) -> Vocabulary | None:
    """The vocabulary that a checkpoint holds; None for checkpoints without one.

    Args:
        content: of the checkpoint, in which a data module keeps its state under its class name.
    """
    for name, state in content.items():
        files = state.get("vocabulary") if isinstance(state, Mapping) else None
        if isinstance(files, Mapping) and VOCABULARY_FILE in files:
            return vocabulary_of_files(lambda file, files=files: files.get(file, ""), f"checkpoint, {name}")  # type: ignore[misc]
    return None
