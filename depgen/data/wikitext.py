"""WikiText (Merity et al., 2017): encyclopedia articles in tokenised paragraphs, a paragraph a line."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from depgen.data.corpus import Split, SplitStatistics
from depgen.data.files import SplitFiles, log_left_out
from depgen.data.overlap import Overlap
from depgen.data.tokenization import SentenceSplitter, sentences_of
from depgen.errors import UserError
from depgen.trees.lines import read_lines
from depgen.trees.sentence import Document, Sentence

_HEADING = re.compile(r" ((?:= )+)([^=\s](?:.*[^=\s])?) \1")
"""` = Title = ` of an article, ` = = Heading = = ` of its sections; a heading has a blank line before and after."""


class WikiText(SplitFiles):
    """Articles of WikiText as documents; by default WikiText-2, whose published sizes are in articles and tokens.

    A line such as ` = Points ; A = ` between two others is part of a broken formula and no title. Articles of nothing
    but headings are left out and counted.

    Args:
        folder: where the files lie, under `$DEPGEN_DATA` unless absolute.
        train: the training split's file.
        valid: the validation split's file.
        test: the test split's file.
        sentence_splitter: how a paragraph becomes sentences; see `depgen.data.tokenization`.
        headings: whether an article's title and headings are sentences of it, without their `=`.
        lowercase: whether words are lower-cased.
        name: what results call the corpus.
        overlap: what becomes of training documents that equal one of validation or test: see `depgen.data.overlap`.
    """

    how_to_get = "WikiText-2 is wikitext-2-v1.zip of Merity et al. (2017): wiki.{train,valid,test}.tokens."

    def __init__(
        self,
        folder: str = "wikitext2",
        *,
        train: str = "wiki.train.tokens",
        valid: str = "wiki.valid.tokens",
        test: str = "wiki.test.tokens",
        sentence_splitter: SentenceSplitter = "rules",
        headings: bool = False,
        lowercase: bool = False,
        name: str = "WikiText-2",
        overlap: Overlap | None = None,
    ) -> None:
        files: dict[Split, str] = {"train": train, "valid": valid, "test": test}
        super().__init__(folder, files, lowercase=lowercase, name=name, overlap=overlap)
        self.sentence_splitter, self.headings = sentence_splitter, headings
        sizes: dict[Split, int] = {"train": 600, "valid": 60, "test": 60}
        official = folder == "wikitext2"
        self.published = {split: SplitStatistics(documents=size) for split, size in sizes.items() if official}

    def read(self, path: Path, split: Split) -> Iterator[Document]:
        """The articles of a file; identifiers are their titles and lines.

        Raises:
            UserError: the file begins with no title.
        """
        empty = 0
        lines = articles(read_lines(path), headings=self.headings, where=str(path))
        for title, number, paragraphs in lines:
            texts = [text for line in paragraphs for text in sentences_of(line, self.sentence_splitter)]
            if not texts:
                empty += 1
                continue
            sentences = [Sentence(tuple(text.split())) for text in ([title, *texts] if self.headings else texts)]
            yield Document(tuple(sentences), f"{title} ({path.name}:{number})")
        log_left_out(empty, "articles of nothing but headings", corpus=self.name, split=split)

    def options(self) -> dict[str, object]:
        """See `SplitFiles`."""
        return {**super().options(), "sentence_splitter": self.sentence_splitter, "headings": self.headings}


def articles(
    lines: Iterable[tuple[int, str]], *, headings: bool, where: str
) -> Iterator[tuple[str, int, Sequence[str]]]:
    """The title, the number of its line and the paragraphs of each article.

    Args:
        lines: of WikiText, with their numbers.
        headings: whether the headings of sections are paragraphs, without their `=`.
        where: what messages call the lines: a file.

    Raises:
        UserError: the lines begin with no title.
    """
    title, first, paragraphs = "", 0, list[str]()
    for number, line, heading in _with_headings(iter(lines)):
        if heading is not None and heading[0] == 1:
            if title:
                yield title, first, paragraphs
            title, first, paragraphs = heading[1], number, []
        elif heading is not None:
            paragraphs += [heading[1]] if headings else []
        elif line.strip():
            if not title:
                raise UserError(f"{where}:{number}: expected an article's title such as ` = Title = `, found text.")
            paragraphs.append(line)
    if title:
        yield title, first, paragraphs


def _with_headings(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str, tuple[int, str] | None]]:
    """Number and text of each line, and where it is a heading its level, 1 for a title, and words."""
    before = ""
    number, line = next(lines, (0, ""))
    for next_number, after in chain(lines, [(0, "")]):
        match = _HEADING.fullmatch(f" {line.strip()} ") if not before.strip() and not after.strip() else None
        yield number, line, (len(match[1]) // 2, match[2]) if match else None
        before, number, line = line, next_number, after
