"""Corpora of the papers and of users' files, by name: a folder, a format, the names of files and steps.

All are `depgen.data.corpus.FileCorpus` with other defaults, and every option of it may be given in their place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from depgen.data.corpus import FileCorpus, Format, SeededSplits, Split, SplitStatistics, Step
from depgen.data.formats import (
    Brackets,
    Conllu,
    DependencyColumns,
    JsonLines,
    Lines,
    Paragraphs,
    Sdp,
    SentenceColumns,
    TaggedWords,
    WikiText,
)
from depgen.data.steps import Lowercase, WithoutHeldOut
from depgen.trees.text_form import FormName

Files = Sequence[str] | str
Published = Mapping[Split, SplitStatistics]

# -- the papers' ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RocStories(FileCorpus):
    """Stories of five sentences (Mostafazadeh et al., 2016), delexicalised and split by Kong et al. (2021)."""

    default_name: ClassVar[str] = "ROCStories"
    default_steps: ClassVar[tuple[Step, ...]] = (Lowercase(but_placeholders=True), WithoutHeldOut())
    published: ClassVar[Published] = {
        "train": SplitStatistics(documents=78_529, sentences=5 * 78_529),
        "valid": SplitStatistics(documents=9_816, sentences=5 * 9_816),
        "test": SplitStatistics(documents=9_816, sentences=5 * 9_816),
    }
    how_to_get: ClassVar[str] = (
        "The stories are given out at https://cs.rochester.edu/nlp/rocstories; {train,valid,test}.csv, in lower case "
        "and with [MALE], [FEMALE] and [NEUTRAL] for names, come with the code of Kong et al. (2021)."
    )
    folder: str = "rocstories"
    format: Format = field(default_factory=SentenceColumns)
    train: Files = "train.csv"
    valid: Files = "valid.csv"
    test: Files = "test.csv"


@dataclass(frozen=True)
class Ptb(FileCorpus):
    """The Penn Treebank of language modelling (Mikolov et al., 2010): a sentence a line, 10,000 types."""

    default_name: ClassVar[str] = "PTB"
    default_form: ClassVar[FormName | None] = "ptb"
    published: ClassVar[Published] = {
        "train": SplitStatistics(documents=42_068, sentences=42_068, tokens=929_589, types=10_000),
        "valid": SplitStatistics(documents=3_370, sentences=3_370, tokens=73_760),
        "test": SplitStatistics(documents=3_761, sentences=3_761, tokens=82_430),
    }
    how_to_get: ClassVar[str] = (
        "It is simple-examples/data of https://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz."
    )
    folder: str = "ptb"
    format: Format = field(default_factory=Lines)
    train: Files = "ptb.train.txt"
    valid: Files = "ptb.valid.txt"
    test: Files = "ptb.test.txt"


@dataclass(frozen=True)
class EmnlpNews(FileCorpus):
    """The EMNLP 2017 WMT news, a sentence a line; in lower case, as in the papers."""

    default_name: ClassVar[str] = "EMNLP 2017 news"
    default_steps: ClassVar[tuple[Step, ...]] = (Lowercase(), WithoutHeldOut())
    published: ClassVar[Published] = {
        "train": SplitStatistics(documents=268_586, sentences=268_586),
        "valid": SplitStatistics(documents=10_000, sentences=10_000),
        "test": SplitStatistics(documents=10_000, sentences=10_000),
    }
    how_to_get: ClassVar[str] = "They lie in the folder data of https://github.com/pclucas14/GansFallingShort."
    folder: str = "emnlp_news"
    format: Format = field(default_factory=Lines)
    train: Files = "train.txt"
    valid: Files = "valid.txt"
    test: Files = "test.txt"


@dataclass(frozen=True)
class Wikinews(FileCorpus):
    """Articles of the English Wikinews, their sentences and tokens cut by rules."""

    default_name: ClassVar[str] = "Wikinews"
    how_to_get: ClassVar[str] = 'Put one JSON object on each line, such as {"id": "1", "text": "…"}.'
    folder: str = "wikinews"
    format: Format = field(default_factory=lambda: JsonLines(tokens="rules"))
    train: Files = "train.jsonl.gz"
    valid: Files = "valid.jsonl.gz"
    test: Files = "test.jsonl.gz"


@dataclass(frozen=True)
class WikiText2(FileCorpus):
    """WikiText-2 (Merity et al., 2017), an article a document; its published sizes are in articles and tokens."""

    default_name: ClassVar[str] = "WikiText-2"
    default_steps: ClassVar[tuple[Step, ...]] = (WithoutHeldOut(),)
    published: ClassVar[Published] = {
        "train": SplitStatistics(documents=600),
        "valid": SplitStatistics(documents=60),
        "test": SplitStatistics(documents=60),
    }
    how_to_get: ClassVar[str] = "It is wikitext-2-v1.zip of Merity et al. (2017): wiki.{train,valid,test}.tokens."
    folder: str = "wikitext2"
    format: Format = field(default_factory=WikiText)
    train: Files = "wiki.train.tokens"
    valid: Files = "wiki.valid.tokens"
    test: Files = "wiki.test.tokens"


@dataclass(frozen=True)
class Brown(FileCorpus):
    """The 500 tagged texts of the Brown corpus; there are no official splits."""

    default_name: ClassVar[str] = "Brown"
    how_to_get: ClassVar[str] = "The Brown corpus is NLTK's: nltk.download('brown')."
    folder: str = "brown"
    format: Format = field(default_factory=TaggedWords)
    train: Files = "c[a-r][0-9][0-9]"
    draw: SeededSplits | None = field(default_factory=SeededSplits, kw_only=True)


@dataclass(frozen=True)
class WsjSample(FileCorpus):
    """The 5 % sample of the Wall Street Journal with dependency trees, a file a document; no official splits."""

    default_name: ClassVar[str] = "WSJ sample"
    how_to_get: ClassVar[str] = "The sample is NLTK's: nltk.download('dependency_treebank')."
    folder: str = "wsj_sample/dependency"
    format: Format = field(default_factory=DependencyColumns)
    train: Files = "*.dp"
    draw: SeededSplits | None = field(default_factory=lambda: SeededSplits(valid=20, test=20), kw_only=True)


@dataclass(frozen=True)
class PennTreebank(FileCorpus):
    """The Wall Street Journal in brackets (Penn Treebank-3, LDC99T42): `parsed/mrg/wsj` of the disc, as UDGN splits it.

    Other bracketed treebanks have other patterns: BLLIP (LDC2000T43) has `1987/w7_00*/*` and the like.
    """

    default_name: ClassVar[str] = "Penn Treebank"
    how_to_get: ClassVar[str] = (
        "Bracketed treebanks come from the Linguistic Data Consortium, https://catalog.ldc.upenn.edu: LDC99T42 and "
        "LDC2000T43; a sample of the first is NLTK's: nltk.download('treebank')."
    )
    folder: str = "wsj"
    format: Format = field(default_factory=Brackets)
    train: Files = ("0?/*.mrg", "1?/*.mrg", "20/*.mrg")
    valid: Files = ("21/*.mrg", "22/*.mrg")
    test: Files = ("23/*.mrg", "24/*.mrg")


# -- users' -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ConlluTreebank(FileCorpus):
    """A treebank in CoNLL-U with its trees."""

    how_to_get: ClassVar[str] = (
        "Treebanks in CoNLL-U are at https://universaldependencies.org, in github.com/UniversalDependencies."
    )
    format: Format = field(default_factory=Conllu)


@dataclass(frozen=True)
class Ewt(ConlluTreebank):
    """UD English-EWT."""

    default_name: ClassVar[str] = "UD English-EWT"
    folder: str = "ud_english_ewt"
    train: Files = "en_ewt-ud-train.conllu"
    valid: Files = "en_ewt-ud-dev.conllu"
    test: Files = "en_ewt-ud-test.conllu"


@dataclass(frozen=True)
class TextLines(FileCorpus):
    """Tokenised text, a sentence or a paragraph a line."""

    default_steps: ClassVar[tuple[Step, ...]] = (WithoutHeldOut(),)
    how_to_get: ClassVar[str] = (
        "Put one tokenised sentence on each line of a UTF-8 text file, or name your files by train, valid and test."
    )
    format: Format = field(default_factory=Lines)
    train: Files = "train.txt"
    valid: Files = "valid.txt"
    test: Files = "test.txt"


@dataclass(frozen=True)
class RawText(TextLines):
    """Raw English text, a paragraph a line, which spaCy's rules cut into sentences and words."""

    how_to_get: ClassVar[str] = "Put one paragraph on each line of a UTF-8 text file, or name your files by train, …"
    format: Format = field(default_factory=lambda: Lines(splitter="sentencizer", tokens="rules"))


@dataclass(frozen=True)
class DocumentLines(TextLines):
    """Documents of tokenised text: a sentence a line, blank lines or headings such as `= Title =` between documents."""

    how_to_get: ClassVar[str] = (
        "Put one tokenised sentence on each line of a UTF-8 file and a blank line between documents."
    )
    format: Format = field(default_factory=Paragraphs)


@dataclass(frozen=True)
class JsonDocuments(FileCorpus):
    """JSON lines, a document each, such as {"id": "1", "text": "…"}."""

    default_steps: ClassVar[tuple[Step, ...]] = (WithoutHeldOut(),)
    how_to_get: ClassVar[str] = 'Put one JSON object on each line, such as {"id": "1", "text": "…"}.'
    format: Format = field(default_factory=JsonLines)
    train: Files = "train.jsonl"
    valid: Files = "valid.jsonl"
    test: Files = "test.jsonl"


@dataclass(frozen=True)
class SdpTreebank(FileCorpus):
    """Semantic dependency graphs in SDP files, which are sold by the Linguistic Data Consortium (LDC2016T10)."""

    how_to_get: ClassVar[str] = (
        "SDP files are in LDC2016T10 of the Linguistic Data Consortium; samples are at sdp.delph-in.net."
    )
    format: Format = field(default_factory=Sdp)
