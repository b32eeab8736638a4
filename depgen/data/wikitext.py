"""WikiText (Merity et al., 2017): encyclopedia articles in tokenised paragraphs, a paragraph a line."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from depgen.data.corpus import Split, SplitStatistics
from depgen.data.files import content_fingerprint, log_left_out, lowercased
from depgen.data.tokenization import SentenceSplitter, sentences_of
from depgen.errors import UserError
from depgen.locations import find_file
from depgen.trees.lines import read_lines
from depgen.trees.sentence import Document, Sentence

_HEADING = re.compile(r" ((?:= )+)([^=\s](?:.*[^=\s])?) \1")
"""` = Title = ` of an article, ` = = Heading = = ` of its sections; a heading has a blank line before and after."""


class WikiText:
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
    """

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
    ) -> None:
        self.folder, self.name = folder, name
        self.files: Mapping[Split, str] = {"train": train, "valid": valid, "test": test}
        self.sentence_splitter, self.headings, self.lowercase = sentence_splitter, headings, lowercase
        sizes: dict[Split, int] = {"train": 600, "valid": 60, "test": 60}
        official = folder == "wikitext2"
        self.published = {split: SplitStatistics(documents=size) for split, size in sizes.items() if official}

    def documents(self, split: Split) -> Iterator[Document]:
        """The articles of a split; identifiers are their titles and lines.

        Raises:
            UserError: the file begins with no title.
        """
        path, empty = self._path(split), 0
        for title, number, lines in self._articles(path):
            texts = [text for line in lines for text in sentences_of(line, self.sentence_splitter)]
            sentences = [Sentence(tuple(text.split())) for text in texts]
            if not sentences:
                empty += 1
                continue
            if self.headings:
                sentences.insert(0, Sentence(tuple(title.split())))
            document = Document(tuple(sentences), f"{title} ({path.name}:{number})")
            yield lowercased(document) if self.lowercase else document
        log_left_out(empty, "articles of nothing but headings", corpus=self.name, split=split)

    def fingerprint(self, split: Split) -> str:
        """A digest of the split's file and of the reading options."""
        options = {name: getattr(self, name) for name in ("sentence_splitter", "headings", "lowercase")}
        return content_fingerprint([self._path(split)], reader="WikiText", **options)

    def _articles(self, path: Path) -> Iterator[tuple[str, int, Sequence[str]]]:
        """Title, its line and the paragraphs of each article; headings are paragraphs where they are asked for."""
        title, first, paragraphs = "", 0, list[str]()
        for number, line, heading in _with_headings(path):
            if heading is not None and heading[0] == 1:
                if title:
                    yield title, first, paragraphs
                title, first, paragraphs = heading[1], number, []
            elif heading is not None:
                paragraphs += [heading[1]] if self.headings else []
            elif line.strip():
                if not title:
                    raise UserError(f"{path}:{number}: expected an article's title such as ` = Title = `, found text.")
                paragraphs.append(line)
        if title:
            yield title, first, paragraphs

    def _path(self, split: Split) -> Path:
        how_to_get = "WikiText-2 is wikitext-2-v1.zip of Merity et al. (2017): wiki.{train,valid,test}.tokens."
        return find_file(Path(self.folder) / self.files[split], how_to_get=how_to_get)


def _with_headings(path: Path) -> Iterator[tuple[int, str, tuple[int, str] | None]]:
    """Number and text of each line, and where it is a heading its level, 1 for a title, and words."""
    before, lines = "", read_lines(path)
    number, line = next(lines)
    for next_number, after in chain(lines, [(0, "")]):
        match = _HEADING.fullmatch(f" {line.strip()} ") if not before.strip() and not after.strip() else None
        yield number, line, (len(match[1]) // 2, match[2]) if match else None
        before, number, line = line, next_number, after
