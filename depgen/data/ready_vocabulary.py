"""A vocabulary that another run has built, for a run that must not build its own."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from depgen.data.saved_vocabulary import load_vocabulary
from depgen.data.vocabulary import Vocabulary
from depgen.trees.sentence import Document


class ReadyVocabulary:
    """Takes a vocabulary that was saved before, whatever the documents are.

    Args:
        folder: where it lies, such as `RUN/vocabulary`.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder).expanduser()

    def build(self, documents: Iterable[Document]) -> Vocabulary:
        """The saved one."""
        return load_vocabulary(self.folder)

    def fingerprint(self) -> str:
        """A digest of its files.

        Raises:
            UserError: there is none.
        """
        load_vocabulary(self.folder)
        files = b"".join(path.read_bytes() for path in sorted(self.folder.iterdir()) if path.suffix == ".json")
        return f"ready {hashlib.sha256(files).hexdigest()}"
