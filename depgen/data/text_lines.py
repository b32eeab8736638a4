"""Corpora of tokenised text, a sentence or a paragraph a line: the language-modelling Penn Treebank, news."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from depgen.data.corpus import Split, SplitStatistics
from depgen.data.files import SplitFiles, log_left_out, read_plain_lines
from depgen.data.overlap import Overlap
from depgen.data.tokenization import SentenceSplitter, sentences_of
from depgen.errors import UserError
from depgen.trees.sentence import Document, Sentence
from depgen.trees.text_form import FormName

PublishedLines = Literal["ptb", "emnlp_news"]
PUBLISHED: Mapping[PublishedLines, Mapping[Split, SplitStatistics]] = {
    "ptb": {
        "train": SplitStatistics(documents=42_068, sentences=42_068, tokens=929_589, types=10_000),
        "valid": SplitStatistics(documents=3_370, sentences=3_370, tokens=73_760),
        "test": SplitStatistics(documents=3_761, sentences=3_761, tokens=82_430),
    },
    "emnlp_news": {
        "train": SplitStatistics(documents=268_586, sentences=268_586),
        "valid": SplitStatistics(documents=10_000, sentences=10_000),
        "test": SplitStatistics(documents=10_000, sentences=10_000),
    },
}
_HOW_TO_GET: Mapping[PublishedLines | None, str] = {
    "ptb": "Mikolov's version is simple-examples/data of https://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz.",
    "emnlp_news": "The EMNLP 2017 WMT news lie in the folder data of https://github.com/pclucas14/GansFallingShort.",
    None: "Put one tokenised sentence on each line of a UTF-8 text file, or name your files by train, valid and test.",
}


class TextLines(SplitFiles):
    """A corpus of lines, tokens separated by white space; each line is a document, by default of one sentence.

    Lines without a token are left out and counted.

    Args:
        folder: where the files lie, under `$DEPGEN_DATA` unless absolute.
        train: the training split's file; `.gz` is unpacked.
        valid: the validation split's file.
        test: the test split's file.
        sentence_splitter: how a line becomes sentences: it is one, or, where lines are paragraphs, as
            `depgen.data.tokenization` says.
        lowercase: whether words are lower-cased, as the paper's EMNLP news are.
        name: what results call the corpus; the folder's name if not given.
        published: the published statistics to compare with: those of Mikolov's Penn Treebank or of the EMNLP 2017 news.
        overlap: what becomes of training documents that equal one of validation or test: see `depgen.data.overlap`.
    """

    def __init__(
        self,
        folder: str,
        *,
        train: str = "train.txt",
        valid: str = "valid.txt",
        test: str = "test.txt",
        sentence_splitter: SentenceSplitter = "lines",
        lowercase: bool = False,
        name: str | None = None,
        published: PublishedLines | None = None,
        overlap: Overlap | None = None,
    ) -> None:
        files: dict[Split, str] = {"train": train, "valid": valid, "test": test}
        overlap = overlap or ("keep" if published == "ptb" else None)
        super().__init__(folder, files, lowercase=lowercase, name=name, overlap=overlap)
        self.sentence_splitter = sentence_splitter
        self.published = PUBLISHED[published] if published else {}
        self.form: FormName | None = "ptb" if published == "ptb" else None
        self.how_to_get = _HOW_TO_GET[published]

    def read(self, path: Path, split: Split) -> Iterator[Document]:
        """The lines of a file; identifiers are file and line."""
        kept = blank = 0
        for number, line in read_plain_lines(path):
            if line.strip():
                texts = sentences_of(line, self.sentence_splitter)
                sentences = tuple(Sentence(tuple(text.split())) for text in texts)
                yield Document(sentences, f"{path.name}:{number}")
                kept += 1
            else:
                blank += 1
        if not kept:
            raise UserError(f"{path}: expected a sentence on each line, found only blank lines.")
        log_left_out(blank, "blank lines", corpus=self.name, split=split)

    def options(self) -> dict[str, object]:
        """See `SplitFiles`."""
        more = {} if self.sentence_splitter == "lines" else {"sentence_splitter": self.sentence_splitter}
        return {**super().options(), **more}
