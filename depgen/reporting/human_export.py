"""`depgen human-eval export`: blinded questionnaires about what systems wrote."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from depgen.errors import UserError
from depgen.evaluation.human.forms import sheet_csv, sheet_html
from depgen.evaluation.human.questionnaire import REAL, Questionnaire, Source, pairwise, turing
from depgen.locations import write_atomically
from depgen.reporting.definition import load_definition
from depgen.reporting.provenance import choose_profile
from depgen.reporting.results import result_path
from depgen.trees.lines import read_lines

KEY, ANSWERS, RATERS = "key.json", "answers", "raters"
"""What a questionnaire's folder holds: who wrote what, what came back, what is sent."""


def export(
    *,
    texts: list[str],
    output: Path,
    contexts: Path | None = None,
    real: Path | None = None,
    table: str | None = None,
    profile: str | None = None,
    training_seed: int = 1,
    number: int = 100,
    raters: int = 5,
    seed: int = 0,
) -> str:
    """Write blinded questionnaires: two systems compared, or with `--real` a Turing test of several.

    Args:
        texts: NAME=FILE for each system, one text a line; or NAME alone for a row of `--table`.
        output: a folder: `raters/` is for them, `key.json` is not, `answers/` awaits what comes back.
        contexts: what the texts of a comparison go on from, one a line; those of `--table` are known.
        real: human sentences, one a line: asks of single sentences whether a human wrote them. They should look like
            the systems' texts (case, spaces, `<unk>`), else they give themselves away.
        table: whose rows wrote texts, such as dmlm_table2.
        profile: at which they were trained; unset: `paper` where a GPU is found, `small` elsewhere.
        training_seed: of the rows' training.
        number: of pairs to be judged (`-n`); in a Turing test, of sentences of each system and of the real ones.
        raters: how many people will answer.
        seed: of the draw, the orders and the sides.

    Raises:
        UserError: texts are missing or too few, contexts differ, or another questionnaire lies in the folder.
    """
    row_profile = None
    if any("=" not in each for each in texts):
        row_profile = _row_profile(texts, table, profile)
    written = [_written(each, table, row_profile, training_seed) for each in texts]
    lines = {each.name: each.texts for each in written}
    if len(lines) < len(texts):
        raise UserError(
            f"--texts: systems must have different names, found {', '.join(each.name for each in written)}."
        )
    sources = {each.name: each.source for each in written}
    if real is not None:
        if contexts is not None:
            raise UserError("A Turing test shows single sentences: leave --contexts out.")
        human = _lines(real)
        sources[REAL] = _source(real, human)
        asked = turing(lines, human, number=number, raters=raters, seed=seed)
    else:
        if len(written) != 2:
            raise UserError(f"Expected --texts of two systems to compare, found {len(written)}. More want --real.")
        first, second = lines.items()
        asked = pairwise(first, second, _contexts(contexts, written), number=number, raters=raters, seed=seed)
    asked = replace(asked, sources=sources, profile=row_profile)
    _write(asked, output)
    return "\n".join(_said(asked, output))


@dataclass(frozen=True)
class _Written:
    """A system's texts, and the prompts that they go on from where these are known."""

    name: str
    texts: list[str]
    source: Source
    prompts: Path | None = None


def _row_profile(texts: Sequence[str], table: str | None, profile: str | None) -> str:
    if table is None:
        bare = next(each for each in texts if "=" not in each)
        raise UserError(f"--texts {bare}: expected {bare}=FILE, or --table to name the table whose row it is.")
    return choose_profile(load_definition(table).profiles, profile)[0]


def _written(given: str, table: str | None, profile: str | None, seed: int) -> _Written:
    name, separator, file = given.partition("=")
    if separator:
        if not name or not file:
            raise UserError(f"--texts {given}: expected NAME=FILE.")
        texts = _lines(Path(file))
        return _Written(name, texts, _source(Path(file), texts))
    assert table is not None
    assert profile is not None
    definition = load_definition(table)
    row = definition.row(name)
    folder = result_path(definition.table, row.slug, profile=profile, seed=seed).with_suffix("")
    path = folder / "texts.txt"
    if not path.is_file():
        raise UserError(
            f"No texts of {row.name}, {profile}, seed {seed} at {path}. Make them first: depgen reproduce "
            f"{definition.argument} --row {row.slug} --profile {profile} --seeds '[{seed}]'"
        )
    texts = _lines(path)
    return _Written(row.name, texts, _source(path, texts), folder / "prompts.txt")


def _lines(path: Path) -> list[str]:
    return [line for _, line in read_lines(path)]


def _source(path: Path, texts: Sequence[str]) -> Source:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Source(str(path), digest, len(texts), sum(not text.strip() for text in texts))


def _contexts(given: Path | None, written: Sequence[_Written]) -> list[str]:
    """What the texts go on from, the same for all.

    Raises:
        UserError: nobody says, or two files say different things.
    """
    paths = [path for path in (given, *(each.prompts for each in written)) if path is not None]
    if not paths:
        raise UserError("A comparison shows what the texts go on from: give --contexts FILE, one a line.")
    contexts = _lines(paths[0])
    for path in paths[1:]:
        if _lines(path) != contexts:
            raise UserError(f"{paths[0]} and {path} differ: both systems must go on from the same contexts.")
    return contexts


def _write(asked: Questionnaire, output: Path) -> None:
    """The folder's files; the key first, so that no rater's file lies without it."""
    key, content = output / KEY, asked.to_json()
    if key.is_file() and key.read_text(encoding="utf-8") != content:
        raise UserError(f"{key} belongs to another questionnaire, whose answers need it. Choose another --output.")
    write_atomically(key, content)
    (output / ANSWERS).mkdir(exist_ok=True)
    folder = output / RATERS
    write_atomically(folder / "instructions.txt", asked.instructions)
    for sheet in asked.sheets:
        # The mark lets spreadsheets read UTF-8.
        write_atomically(folder / f"{sheet.rater}.csv", f"\ufeff{sheet_csv(asked, sheet)}")
        write_atomically(folder / f"{sheet.rater}.html", sheet_html(asked, sheet))


def _said(asked: Questionnaire, output: Path) -> Iterator[str]:
    what = f"pairs of {' and '.join(asked.systems)}" if asked.kind == "pairwise" else "sentences"
    yield f"{len(asked.items)} {what} for {len(asked.sheets)} raters in {output}."
    yield f"Left out before the draw: {left_out(asked)}."
    yield f"Send {output / RATERS}/rater-N.html (or .csv with instructions.txt) to rater N, and nothing else."
    yield f"Put the CSV files that come back into {output / ANSWERS}, then: depgen human-eval score {output}"


def left_out(asked: Questionnaire) -> str:
    """How many candidates could not be judged, and whose texts are empty."""
    empty = ", ".join(f"{name} {source.empty:,} of {source.texts:,}" for name, source in asked.sources.items())
    if asked.kind == "turing":
        return f"empty texts ({empty})"
    return f"{', '.join(f'{count:,} {reason}' for reason, count in asked.left_out.items())} (empty texts: {empty})"
