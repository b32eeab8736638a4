"""`depgen human-eval export`: blinded questionnaires about what systems wrote."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from depgen.data.corpus import SPLITS
from depgen.data.experiment import data_of
from depgen.errors import UserError
from depgen.evaluation.file_texts import PROMPT, read_file_texts
from depgen.evaluation.human.folder import source_of, write_folder
from depgen.evaluation.human.questionnaire import REAL, Kind, Source, pairwise, rating, turing
from depgen.locations import lines_sha256
from depgen.reporting.jobs import Job
from depgen.reporting.measures.samples import CHOSEN, split_texts
from depgen.reporting.measures.texts import generation_of, nuclei, texts_of
from depgen.reporting.results import read_results
from depgen.reporting.table import TableDefinition, chosen_table

OF_PAPER: Mapping[Kind, tuple[str, ...]] = {
    "pairwise": ("dmlm_table2", "dmlm_endings", "dmlm_endings_dropped"),
    "turing": ("dmlm_table4", "dmlm_table5"),
    "rating": ("itexp_table2",),
}
"""The tables whose rows wrote what the paper's raters judged, so that its instructions and numbers are right for them.
No table of one's own has a name of the package's."""


def export(
    *,
    texts: list[str],
    output: Path,
    contexts: Path | None = None,
    real: Path | None = None,
    table: str | None = None,
    size: str | None = None,
    training_seed: int | None = None,
    top_p: float | None = None,
    number: int = 100,
    raters: int = 5,
    rate: bool = False,
    per_sentence: int | None = None,
    seed: int = 0,
) -> str:
    """Write blinded questionnaires: two systems compared, with `--real` a Turing test, or with `--rate` ratings.

    Args:
        texts: NAME=FILE for each system, one text a line, or JSON lines of `depgen generate --json`; or NAME alone for
            a row of `--table`: its texts, at the temperature that was chosen for it where one was, or the sentences of
            its split.
        output: a folder: `raters/` is for them, `key.json` is not, `answers/` awaits what comes back.
        contexts: what the texts of a comparison go on from, one a line; those of `--table` are known.
        real: human sentences, one a line: asks of single sentences whether a human wrote them. They should look like
            the systems' texts (case, spaces, `<unk>`), else they give themselves away.
        table: whose rows wrote texts, such as dmlm_table2.
        size: at which they were trained; unset: `small`, or the only one of the table.
        training_seed: of the rows' training; unset: 1.
        top_p: the nucleus of the rows' texts; unset: the table's, if it has one alone. The paper's comparisons are of
            0.5 (dmlm_table2), its Turing test of 0.7 (dmlm_table5).
        number: of pairs to be judged (`-n`); else of sentences of each system and of the real ones.
        raters: how many people will answer.
        rate: ask for ratings from 1 to 5 of single sentences, as in ITEXP's Table 4 (`-n 60 --raters 18 --per_sentence
            3`); a row or file may have real sentences.
        per_sentence: (with `--rate`) how many of the raters rate a sentence; unset: all.
        seed: of the draw, the orders and the sides.

    Raises:
        UserError: texts are missing or too few, contexts differ, options of a table's rows where every system has its
            file, or another questionnaire lies in the folder.
    """
    rows = _rows(texts, table, size, training_seed, top_p)
    written = [_written(each, rows) for each in texts]
    names = [each.name for each in written]
    if len({*names}) < len(names):
        raise UserError(f"--texts: systems must have different names, found {', '.join(names)}.")
    lines, sources = {each.name: each.texts for each in written}, {each.name: each.source for each in written}
    if not rate and per_sentence is not None:
        raise UserError("--per_sentence is of ratings: add --rate, or leave it out.")
    if rate:
        if contexts is not None or real is not None:
            raise UserError("Ratings are of single sentences: leave --contexts out, and name real ones by --texts.")
        asked = rating(lines, number=number, raters=raters, per_sentence=per_sentence, seed=seed)
    elif real is not None:
        if contexts is not None:
            raise UserError("A Turing test shows single sentences: leave --contexts out.")
        human = read_file_texts(real)
        sources[REAL] = source_of(real, human)
        asked = turing(lines, human, number=number, raters=raters, seed=seed)
    else:
        if len(written) != 2:
            raise UserError(
                f"Expected --texts of two systems to compare, found {len(written)}. More want --real or --rate."
            )
        first, second = lines.items()
        asked = pairwise(first, second, _contexts(contexts, written), number=number, raters=raters, seed=seed)
    if rows is not None:
        of_paper = rows.definition.table in OF_PAPER[asked.kind] and not any("=" in each for each in texts)
        asked = replace(asked, profile=rows.size, top_p=rows.top_p, of_paper=of_paper)
    return write_folder(replace(asked, sources=sources), output)


@dataclass(frozen=True)
class _Written:
    """A system's texts, and the prompts that they continue where these are known."""

    name: str
    texts: Sequence[str]
    source: Source
    prompts: Sequence[str] | None = None


@dataclass(frozen=True)
class _Rows:
    """Whose rows' texts are meant where no file is named."""

    definition: TableDefinition
    size: str
    seed: int
    top_p: float


def _rows(
    texts: Sequence[str], table: str | None, size: str | None, seed: int | None, top_p: float | None
) -> _Rows | None:
    """The table's rows that texts without a file are of; None where each has its file.

    Raises:
        UserError: there is no such table, size or nucleus, or something is said of rows where there are none.
    """
    bare = next((each for each in texts if "=" not in each), None)
    if bare is None:
        of_rows = {"--table": table, "--size": size, "--training-seed": seed, "--top-p": top_p}
        given = [option for option, value in of_rows.items() if value is not None]
        if given:
            raise UserError(f"Every system here has its file, and none is a table's row: leave {', '.join(given)} out.")
        return None
    if table is None:
        raise UserError(f"--texts {bare}: expected {bare}=FILE, or --table to name the table whose row it is.")
    definition, chosen, _ = chosen_table(table, size)
    known = sorted(nuclei(definition, generation_of(definition)))
    listed = ", ".join(map(str, known))
    if top_p is None and len(known) > 1:
        raise UserError(f"Table {definition.table} has texts of the nuclei {listed}: name one with --top-p.")
    if top_p is not None and top_p not in known:
        raise UserError(f"Table {definition.table} has no texts of nucleus {top_p}, but of {listed}.")
    return _Rows(definition, chosen, 1 if seed is None else seed, known[0] if top_p is None else top_p)


def _written(given: str, rows: _Rows | None) -> _Written:
    """The texts of a system that is named by `NAME=FILE`, or as a row: of a split those of the corpus."""
    name, separator, file = given.partition("=")
    if separator:
        if not name or not file:
            raise UserError(f"--texts {given}: expected NAME=FILE.")
        texts = read_file_texts(Path(file))
        return _Written(name, texts, source_of(Path(file), texts))
    assert rows is not None
    definition = rows.definition
    row = definition.row(name)
    for split in SPLITS:
        if row.floor == split:
            job = Job(definition, row, rows.size, rows.seed)
            corpus = data_of(job.config).corpus
            drawn = split_texts(corpus, split, generation_of(definition).at(rows.size))
            return _Written(row.name, drawn, Source(f"{corpus.name}, {split}", lines_sha256(drawn), len(drawn), 0))
    for result in read_results(definition.table, row.slug, size=rows.size):
        chosen = {CHOSEN: result.metrics[CHOSEN]} if CHOSEN in result.metrics else {}
        kept = texts_of(result, rows.top_p, **chosen) if result.seed == rows.seed else None
        if kept is not None:
            return _Written(row.name, kept.texts, source_of(kept.file, kept.texts), kept.prompts)
    raise UserError(
        f"No texts of {row.name}, {rows.size}, seed {rows.seed}. Make them first: depgen reproduce "
        f"{definition.argument} --row {row.slug} --size {rows.size} --seeds '[{rows.seed}]' --remeasure"
    )


def _contexts(given: Path | None, written: Sequence[_Written]) -> Sequence[str]:
    """What the texts continue, the same for all.

    Raises:
        UserError: nobody says, or two files say different things.
    """
    known = [(each.source.file, each.prompts) for each in written if each.prompts is not None]
    if given is not None:
        known.insert(0, (str(given), read_file_texts(given, PROMPT)))
    if not known:
        raise UserError("A comparison shows what the texts continue: give --contexts FILE, one a line.")
    first, contexts = known[0]
    for file, others in known[1:]:
        if tuple(others) != tuple(contexts):
            raise UserError(f"{first} and {file} have different contexts: both systems must continue the same ones.")
    return contexts
