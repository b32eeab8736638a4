"""Human evaluation: blinded sheets about what systems wrote, and what the answers say, beside published figures.

Yang & Wan (ACL 2022), sections 3.1 and 3.2 and appendix D. *Pairwise* (their Table 3): two systems' endings of one
beginning, judged by grammaticality and by logicality, with ties. *Turing* (their Table 6): sentences of several systems
and real ones, each judged as human or not. Both with 100 items a system and five raters. *Rating* (Casas et al., 2020,
section 5.1): sentences of several systems, each rated from 1 to 5 by three of 18 raters, who have ten of each system.

Deviations of the sheets, all where the papers are silent:
    D1. Every rater has an order of items, and sides, of their own, drawn from one seed. Each system is shown first in
        half of a rater's pairs (an odd number's half is rounded by chance), so that a liking for the first text
        favours none.
    D2. Items are drawn from those that can be judged: a pair with an empty text, or of two identical ones, and an empty
        sentence are left out before and counted. A system that often writes nothing is judged by its other texts.
    D3. The instructions are Yang & Wan's (Tables 14 and 15), without what they say of their corpora, and with a last
        line that allows ties: the paper counts them, and its questionnaire does not speak of them. Those of ratings are
        ours: Casas et al. print none, but that ratings are of fluency and correctness.

Deviations of the figures:
    D4. The column κ of Yang & Wan's Table 3 is Krippendorff's alpha, not a kappa; they do not name its level. Here it
        is nominal: win, lose and tie are three kinds of answer without an order. For ratings, of which Casas et al.
        report no agreement, the level is interval, as for mean and deviation.
    D5. They do not name the unit of the Wilcoxon signed-rank test. Here it is the pair of texts, with the mean
        preference of its raters, since the judgements of one pair are not independent; the test over single judgements
        is reported with it. Units without a preference are left out of the ranks (`zero_method="wilcox"`; over single
        judgements, whose sizes are all 1, Pratt's way comes to the same). p-values are two-sided and not corrected for
        their number; over more than 50 units they are the normal approximation with ties corrected.
    D6. Two things in the paper's Table 3 do not follow from its rates. Those of DM-LSTM against PRPN and AWD-LSTM are
        no multiples of 1/500 and fit 400 judgements; and logicality against AWD-LSTM (43.0 : 34.5, starred for
        p < 0.01) has p = 0.05 over 400 single judgements, 0.03 over 500.
"""

import hashlib
import json as json_format
import random
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float

from depgen.errors import UserError
from depgen.evaluation.text_documents import PROMPT, read_file_texts
from depgen.locations import json_object, write_atomically
from depgen.metrics.significance import Interval, bootstrap_interval
from depgen.reporting.render import Cell, Format, Page, render, row_cells
from depgen.reporting.table import Row, TableDefinition, load_definition
from depgen.trees.text_files import format_of

Kind = Literal["pairwise", "turing", "rating"]
Ratings = Float[np.ndarray, "raters items"]

REAL = "Real data"
"""What the paper calls the human texts of its Turing test."""
KEY, ANSWERS, RATERS = "key.json", "answers", "raters"
"""What a questionnaire's folder holds: who wrote what, what came back, what is sent."""
SIDES = ("1", "2", "tie")
QUESTIONS: Mapping[Kind, Mapping[str, tuple[str, ...]]] = {
    "pairwise": {"grammaticality": SIDES, "logicality": SIDES},
    "turing": {"human": ("yes", "no")},
    "rating": {"rating": ("1", "2", "3", "4", "5")},
}
"""The columns that raters fill in, and the answers that they choose from."""


@dataclass(frozen=True)
class Questionnaire:
    """All that raters are shown, with who wrote it: the key.

    Attributes:
        kind: comparison, Turing test or rating.
        systems: in the order given.
        shown: a row for each item of each rater, in the rater's order: `rater`, `item`, `line` of the texts in their
            files, `system_1` and `text_1`; in comparisons also `system_2`, `text_2` and the `context` of both.
        left_out: how many texts could not be judged.
    """

    kind: Kind
    systems: tuple[str, ...]
    shown: pd.DataFrame
    left_out: int

    @property
    def name(self) -> str:
        """A digest of all that raters are shown, in letters that no spreadsheet takes for a number."""
        digest = hashlib.sha256(f"{self.kind}\n{self.shown.to_csv(index=False)}".encode())
        return f"q-{digest.hexdigest()[:12]}"

    def sheets(self) -> dict[str, pd.DataFrame]:
        """What each rater is given, without the systems, and an empty column for each answer."""
        named = {} if self.kind == "pairwise" else {"text_1": "text"}
        shown = self.shown.drop(columns=["line", *self.shown.filter(like="system_")]).rename(columns=named)
        shown.insert(0, "questionnaire", self.name)
        shown = shown.assign(**dict.fromkeys(QUESTIONS[self.kind], ""))
        return {str(rater): sheet for rater, sheet in shown.groupby("rater", sort=False)}


# -- draws ------------------------------------------------------------------------------------------------------------


def pairwise(systems: Mapping[str, Sequence[str]], contexts: Sequence[str], **options: int) -> Questionnaire:
    """Two systems' texts side by side, each pair under the context that it continues; options as those of `single`."""
    for name, texts in systems.items():
        if len(texts) != len(contexts):
            raise UserError(f"Expected a text of {name} for each of the {len(contexts)} contexts, found {len(texts)}.")
    first, second = systems
    pairs = [
        {"line": line, "context": context, "system_1": first, "text_1": one, "system_2": second, "text_2": other}
        for line, (context, one, other) in enumerate(zip(contexts, *systems.values(), strict=True), start=1)
        if one.strip() and other.strip() and one.split() != other.split()
    ]
    return _drawn("pairwise", (first, second), {"": pairs}, len(contexts), **options)


def single(kind: Literal["turing", "rating"], systems: Mapping[str, Sequence[str]], **options: int) -> Questionnaire:
    """Single sentences of several systems mixed, real ones among them; each rater gets as many of one as of another.

    Args:
        kind: whether they are judged as human or not, or rated from 1 to 5.
        systems: each one's sentences.
        options: the `number` of sentences of each system (by default 100), how many `raters` answer (5), how many of
            them judge a sentence (`per_sentence`, by default 0: all), and the `seed` of the draw and the orders (0).
    """
    sentences = {
        name: [
            {"line": line, "system_1": name, "text_1": text} for line, text in enumerate(texts, start=1) if text.strip()
        ]
        for name, texts in systems.items()
    }
    return _drawn(kind, tuple(systems), sentences, sum(map(len, systems.values())), **options)


def _drawn(
    kind: Kind,
    systems: tuple[str, ...],
    groups: Mapping[str, Sequence[dict[str, Any]]],
    candidates: int,
    *,
    number: int = 100,
    raters: int = 5,
    per_sentence: int = 0,
    seed: int = 0,
) -> Questionnaire:
    """A questionnaire about as many rows of each group, each judged by the next `per_sentence` raters in turn.

    Raters have an order of items of their own and, of comparisons, half of the pairs with sides swapped.
    """
    share = per_sentence or raters
    if share > raters or number * share % raters:
        raise UserError(
            f"Expected {number} sentences of each system, each judged by {share}, to be shared evenly among {raters} "
            "raters: choose --number, --raters and --per_sentence such that number x per_sentence / raters is whole."
        )
    drawn: list[dict[str, Any]] = []
    for name, rows in groups.items():
        if len(rows) < number:
            raise UserError(
                f"Expected at least {number} texts of {name or ' and '.join(systems)} to draw from, found {len(rows)} "
                "that are neither empty nor identical. Give more texts, or a smaller --number."
            )
        drawn += random.Random(f"{seed} items {name}".strip()).sample(rows, number)
    if kind != "pairwise":
        random.Random(f"{seed} names").shuffle(drawn)  # so that an item's name says nothing of its system
    packs: list[list[dict[str, Any]]] = [[] for _ in range(raters)]
    first_raters = {name: place for place, name in enumerate(systems)}
    for place, row in enumerate(drawn, start=1):
        first = first_raters[row["system_1"]]
        first_raters[row["system_1"]] += share
        for rater in {(first + step) % raters for step in range(share)}:
            packs[rater].append({"item": f"item-{place}", **row})
    swap = {"system_1": "system_2", "system_2": "system_1", "text_1": "text_2", "text_2": "text_1"}
    shown = []
    for rater, pack in enumerate(packs, start=1):
        draw = random.Random(f"{seed} rater {rater}")
        order = draw.sample(pack, len(pack))
        half = (len(pack) + draw.randrange(2)) // 2
        swapped = draw.sample(range(len(pack)), half) if kind == "pairwise" else []
        for place, row in enumerate(order):
            sided = {name: row[swap.get(name, name) if place in swapped else name] for name in row}
            shown.append({"rater": f"rater-{rater}", **sided})
    return Questionnaire(kind, systems, pd.DataFrame(shown), candidates - sum(map(len, groups.values())))


# -- folders ----------------------------------------------------------------------------------------------------------


def export(
    *,
    texts: list[str],
    output: Path,
    contexts: Path | None = None,
    real: Path | None = None,
    rate: bool = False,
    number: int = 100,
    raters: int = 5,
    per_sentence: int | None = None,
    seed: int = 0,
) -> str:
    """A folder with a blinded sheet for each rater, their instructions, and the key; what to do with it.

    Args:
        texts: NAME=FILE of each system, one text a line or as `depgen generate --json` writes them. Two systems are
            compared, any number judged or rated sentence by sentence.
        output: the folder; `raters/` is sent, `key.json` kept, `answers/` awaits what comes back.
        contexts: what the texts of a comparison continue, one a line; unset: the prompts of JSON lines.
        real: human sentences, one a line: asks of single sentences whether a human wrote them. They should look like
            the systems' texts (case, spaces, `<unk>`), else they give themselves away.
        rate: ask for ratings from 1 to 5 of single sentences, as in ITEXP's Table 4 (`--number 60 --raters 18
            --per_sentence 3`); a file may have real sentences.
        number: of pairs to be judged; else of sentences of each system and of the real ones.
        raters: how many people will answer.
        per_sentence: of single sentences: how many of the raters judge one; unset: all.
        seed: of the draw, the orders and the sides.
    """
    paths: dict[str, Path] = {}
    for option in texts:
        name, _, file = option.partition("=")
        if not name or not file or name in (*paths, REAL):
            raise UserError(f"--texts {option}: expected NAME=FILE, with another name for each system.")
        paths[name] = Path(file)
    systems = {name: read_file_texts(path) for name, path in paths.items()}
    options = {"number": number, "raters": raters, "per_sentence": per_sentence or raters, "seed": seed}
    if rate:
        return write_folder(single("rating", systems, **options), output)
    if real is not None:
        return write_folder(single("turing", {**systems, REAL: read_file_texts(real)}, **options), output)
    if len(systems) != 2:
        raise UserError(f"Expected --texts of two systems, found {len(systems)}. More want --real or --rate.")
    sources = [path for path in paths.values() if format_of(path) == "jsonl"] + ([contexts] if contexts else [])
    if not sources:
        raise UserError("A comparison shows what the texts continue: give --contexts FILE, one a line.")
    begun, *others = (read_file_texts(path, PROMPT) for path in sources)
    if any(other != begun for other in others):
        raise UserError(f"{' and '.join(map(str, sources))} have different contexts: both systems must continue one.")
    return write_folder(pairwise(systems, begun, **options), output)


def write_folder(questionnaire: Questionnaire, output: Path) -> str:
    """What was written and what to do with it; the key first, so that no rater's file lies without it."""
    kind, shown, sheets = questionnaire.kind, questionnaire.shown, questionnaire.sheets()
    content = json_format.dumps(
        {**asdict(questionnaire), "shown": shown.to_dict("records")}, indent=1, ensure_ascii=False
    )
    path = output / KEY
    if path.is_file() and path.read_text(encoding="utf-8") != content:
        raise UserError(f"{path} belongs to another questionnaire, whose answers need it. Choose another --output.")
    write_atomically(path, content)
    (output / ANSWERS).mkdir(exist_ok=True)
    instructions = (files("depgen.reporting") / f"human_{kind}.txt").read_text(encoding="utf-8")
    write_atomically(output / RATERS / "instructions.txt", instructions.format(items=len(sheets["rater-1"])))
    for rater, sheet in sheets.items():
        write_atomically(output / RATERS / f"{rater}.csv", f"\ufeff{sheet.to_csv(index=False)}")  # read as UTF-8
    return (
        f"{shown['item'].nunique()} items of {', '.join(questionnaire.systems)} for {len(sheets)} raters in {output}.\n"
        f"Left out before the draw: {questionnaire.left_out:,} empty or identical texts.\n"
        f"Send {RATERS}/instructions.txt and {RATERS}/rater-N.csv to rater N, and nothing else.\n"
        f"Put the CSV files that come back into {output / ANSWERS}, then: depgen human-eval score {output}"
    )


def read_key(folder: Path) -> Questionnaire:
    """The questionnaire of a folder that `export` wrote."""
    key = json_object(folder / KEY, remedy="Give the folder that `depgen human-eval export` wrote.")
    return Questionnaire(**{**key, "systems": tuple(key["systems"]), "shown": pd.DataFrame(key["shown"])})


def read_answers(questionnaire: Questionnaire, folder: Path) -> pd.DataFrame:
    """The rows of `shown` of all who answered, with a column for each question, empty where nothing was given."""
    paths = sorted(path for path in (folder / ANSWERS).glob("*") if path.suffix.lower() == ".csv")
    if not paths:
        raise UserError(f"No answers: put the raters' CSV files into {folder / ANSWERS}.")
    questions = QUESTIONS[questionnaire.kind]
    sheets = pd.concat([_read_sheet(path, ["questionnaire", "rater", "item", *questions]) for path in paths])
    known = {(questionnaire.name, *row) for row in questionnaire.shown[["rater", "item"]].itertuples(index=False)}
    for row in sheets.to_dict("records"):
        where = f"{row['file']}, {row['item']} of {row['rater']} in {row['questionnaire']}"
        place = (row["questionnaire"], row["rater"], row["item"])
        if place not in known:
            raise UserError(f"{where}: unknown to the key of {questionnaire.name}, or answered twice.")
        known.remove(place)
        for question, choices in questions.items():
            if row[question] not in ("", *choices):
                raise UserError(f"{where}: {question} is {row[question]!r}; expected {', '.join(choices)}, or nothing.")
    answered = questionnaire.shown[questionnaire.shown["rater"].isin(sheets["rater"])]
    return answered.merge(sheets[["rater", "item", *questions]], on=["rater", "item"], how="left").fillna("")


def _read_sheet(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """The columns of a sheet as a spreadsheet saves it, with comma or semicolon, and the file; no empty rows."""
    try:
        head = path.read_text(encoding="utf-8-sig").partition("\n")[0]
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: expected UTF-8, found {error}. Save the sheet as `CSV UTF-8`.") from error
    separator = ";" if head.count(";") > head.count(",") else ","
    sheet = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    if lacking := [name for name in columns if name not in sheet.columns]:
        raise UserError(f"{path}: the columns {', '.join(lacking)} are not there.")
    sheet = sheet[columns].apply(lambda column: column.str.strip())
    sheet[columns[3:]] = sheet[columns[3:]].apply(lambda column: column.str.lower())
    return sheet[(sheet != "").any(axis=1)].assign(file=str(path))


# -- figures ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What the answers to a questionnaire say.

    Attributes:
        questionnaire: that was answered.
        figures: a row for each `system` (a comparison's is `A vs. B`) and `measure`: its `value`, None where it is not
            defined, and the 95 % bootstrap interval over items from `low` to `high`, None where it has none. By aspect
            of a comparison: `win`, `lose` and `tie` in per cent, `alpha`, and `p_items` and `p_judgements` of the
            signed-rank test; by system of a Turing test `human`, of ratings `rating` and `deviation` (the mean over
            sentences of the standard deviation over their raters, n - 1); their `alpha` where `system` is empty.
        raters: how many answered.
        missing: how many answers these left out.
    """

    questionnaire: Questionnaire
    figures: pd.DataFrame
    raters: int
    missing: int


def read_outcome(folder: Path, pairs: Collection[str] = ()) -> Outcome:
    """What the answers in a questionnaire's folder say; a comparison in the direction that one of these pairs has.

    Every item counts alike, whatever the number of its raters.
    """
    questionnaire = read_key(folder)
    answers, kind, systems = read_answers(questionnaire, folder), questionnaire.kind, questionnaire.systems
    order = sorted(answers["item"].unique(), key=lambda item: int(item.split("-")[1]))
    if " vs. ".join(systems[::-1]) in pairs:
        systems = systems[::-1]
    rows = list[dict[str, Any]]()

    def add(system: str, figures: Mapping[str, Interval | float | None]) -> None:
        for measure, value in figures.items():
            interval = asdict(value) if isinstance(value, Interval) else {"value": value, "low": None, "high": None}
            rows.append({"system": system, "measure": measure, **interval})

    missing = 0
    for question in QUESTIONS[kind]:
        answers["value"] = _values(answers, question, systems[0])
        missing += int(answers["value"].isna().sum())
        table = answers.pivot(index="rater", columns="item", values="value")[order]
        if table.isna().all(axis=None):
            raise UserError(f"{folder}: {question}: expected at least one answer, found all of them empty.")
        if kind == "pairwise":
            preferences = _preferences(table.to_numpy())
            add(" vs. ".join(systems), {f"{question}_{name}": value for name, value in preferences.items()})
            continue
        for system in systems:
            own = answers.loc[answers["system_1"] == system, "item"]
            add(system, _ratings(table.loc[:, table.columns.isin(own)].to_numpy(), question))
        add("", {"alpha": krippendorff_alpha(table.to_numpy(), "interval" if kind == "rating" else "nominal")})
    return Outcome(questionnaire, pd.DataFrame(rows, dtype=object), answers["rater"].nunique(), missing)


def _values(answers: pd.DataFrame, question: str, first: str) -> pd.Series:
    """Answers as numbers, NaN where nothing was given; of comparisons 1 or -1 where the first or the other one won."""
    if question in QUESTIONS["pairwise"]:
        choice = answers[question].map({"1": 1.0, "2": -1.0, "tie": 0.0})
        return choice.where(answers["system_1"] == first, -choice)
    return answers[question].map({"yes": 1.0, "no": 0.0, **{str(rating): float(rating) for rating in range(1, 6)}})


def _preferences(ratings: Ratings) -> dict[str, Interval | float | None]:
    """The figures of one aspect of a comparison, from the first system's side."""
    shares = {
        name: bootstrap_interval(item_means(np.where(np.isnan(ratings), np.nan, 100.0 * (ratings == value))))
        for name, value in (("win", 1.0), ("lose", -1.0), ("tie", 0.0))
    }
    return {
        **shares,
        "alpha": krippendorff_alpha(ratings),
        "p_items": signed_rank(item_means(ratings)),
        "p_judgements": signed_rank(ratings[~np.isnan(ratings)]),
    }


def _ratings(ratings: Ratings, question: str) -> dict[str, Interval | float | None]:
    """The mean of a system's sentences and, of ratings, how far their raters lie apart."""
    mean = bootstrap_interval(item_means(ratings))
    if question != "rating":
        return {question: mean}
    several = ratings[:, (~np.isnan(ratings)).sum(axis=0) > 1]
    return {question: mean, "deviation": float(np.nanstd(several, axis=0, ddof=1).mean()) if several.size else None}


def item_means(ratings: Ratings) -> Float[np.ndarray, " items"]:
    """Each item's mean over the raters who judged it; NaN where nobody did.

    >>> item_means(np.array([[1.0, 0.0], [0.0, np.nan]]))
    array([0.5, 0. ])
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # an item that nobody judged
        return np.asarray(np.nanmean(ratings, axis=0))


def krippendorff_alpha(ratings: Ratings, level: Literal["nominal", "interval"] = "nominal") -> float | None:
    """Krippendorff's alpha, items as units; None where all pairable answers are one and the same.

    Items with fewer than two answers count nowhere; NaN is no answer.

    >>> ratings = np.array([[1.0, 2.0, 5.0], [1.0, 3.0, 4.0]])
    >>> [round(krippendorff_alpha(ratings, level), 4) for level in ("nominal", "interval")]
    [0.2857, 0.875]
    """
    from krippendorff import alpha

    pairable = ratings[:, (~np.isnan(ratings)).sum(axis=0) > 1]
    if len(np.unique(pairable[~np.isnan(pairable)])) < 2:
        return None
    return float(alpha(reliability_data=pairable, level_of_measurement=level))


def signed_rank(differences: Float[np.ndarray, " units"]) -> float:
    """The two-sided p-value of the Wilcoxon signed-rank test that differences lie around zero; NaN ones are no units.

    >>> signed_rank(np.array([0.2, 0.4, 0.6, -0.8, 1.0]))
    0.4375
    """
    from scipy.stats import wilcoxon

    units = differences[~np.isnan(differences)]
    return float(wilcoxon(units, zero_method="wilcox").pvalue) if (units != 0).any() else 1.0


# -- beside published figures -----------------------------------------------------------------------------------------

PUBLISHED: Mapping[Kind, tuple[str, ...]] = {
    "pairwise": ("human/dmlm_table3",),
    "turing": ("human/dmlm_table6",),
    "rating": ("human/itexp_table4", "human/itexp_table5"),
}
"""Tables in a folder of their own: `depgen reproduce` does not make them. Of several, that with most of the systems."""
LEVEL = 0.01
"""Of Table 3's star."""


def score(folders: list[Path], *, format: Format = "markdown", output: Path | None = None, json: bool = False) -> str:
    """People's answers beside the published ones: comparisons and a Turing test as DMLM's, ratings as ITEXP's.

    Args:
        folders: one or more that `depgen human-eval export` wrote, with the raters' files in `answers/`.
        format: of the table.
        output: a file for the table as well.
        json: the figures as JSON instead of a table.
    """
    pairs = [row.name for row in load_definition(*PUBLISHED["pairwise"]).rows]
    outcomes = {folder: read_outcome(folder, pairs) for folder in folders}
    kinds = {outcome.questionnaire.kind for outcome in outcomes.values()}
    figures = pd.concat([outcome.figures.assign(folder=str(folder)) for folder, outcome in outcomes.items()])
    if len(kinds) > 1 or (kinds != {"pairwise"} and len(outcomes) > 1):
        raise UserError("Expected comparisons, one Turing test, or one folder of ratings: they make different tables.")
    if figures.duplicated(["system", "measure"]).any():
        raise UserError("A pair is in two folders.")
    tables = [load_definition(name) for name in PUBLISHED[kinds.pop()]]
    definition = max(tables, key=lambda table: len({*figures["system"]} & {row.name for row in table.rows}))
    if json:
        text = json_format.dumps(figures.to_dict("records"), indent=2, ensure_ascii=False) + "\n"
    else:
        text = render(_page(definition, figures, outcomes), format=format)
    if output is not None:
        write_atomically(output, text)
    return text


def _page(definition: TableDefinition, figures: pd.DataFrame, outcomes: Mapping[Path, Outcome]) -> Page:
    """The published table with our lines in it; systems and pairs that it lacks follow at its end."""
    keys = [column.key for column in definition.columns]
    ours: dict[str, list[Cell]] = {}
    for system, of_system in figures.groupby("system", sort=False):
        rows = of_system.set_index("measure")
        ours[str(system)] = [
            Cell(
                str(system), "local", key, row["value"], low=row["low"], high=row["high"],
                mark="*" * _is_starred(rows["value"], key),
            )
            for key, row in rows.reindex(keys).iterrows()
            if key in rows.index
        ]  # fmt: skip
    known = {row.name for row in definition.rows}
    more = tuple(Row(name=system, in_paper=False) for system in ours if system and system not in known)
    definition = definition.model_copy(update={"rows": (*definition.rows, *more)})
    cells = [
        cell
        for row in definition.rows
        for cell in row_cells(definition, row, ours.get(row.name, ()))
        if cell.numbers != "difference"  # other people judged other texts
    ]
    notes = list(definition.notes)
    for folder, outcome in outcomes.items():
        shown = outcome.questionnaire.shown
        notes.append(
            f"{folder}: {shown['item'].nunique()} items, {outcome.raters} of {shown['rater'].nunique()} raters, "
            f"{outcome.missing:,} answers missing."
        )
    without_column = figures[~figures["measure"].isin(keys) & figures["value"].notna()]
    notes += [f"{row.folder}: {row.measure.replace('_', ' ')} {row.value:.3g}." for row in without_column.itertuples()]
    notes.append("Ours: every item counts alike; in brackets 95 % bootstrap intervals over items.")
    if more:
        notes.append("†: not in the paper.")
    if definition.table == "dmlm_table3":
        notes.append(
            f"A star: p < {LEVEL} in the two-sided Wilcoxon signed-rank test, not corrected for the number of tests. "
            "Ours is over pairs of texts, each with its raters' mean preference, pairs without one left out of the "
            "ranks; the paper does not name its unit. Single judgements are not independent."
        )
    labels = {row.name: "" if row.in_paper else "†" for row in definition.rows}
    return Page(definition, "", tuple(cells), labels, notes=tuple(notes))


def _is_starred(values: pd.Series, key: str) -> bool:
    """Whether a share of wins or losses is the larger one, and the test over items says that this is no chance."""
    aspect, _, name = key.rpartition("_")
    other = {"win": "lose", "lose": "win"}.get(name)
    if other is None:
        return False
    return bool(values[f"{aspect}_p_items"] < LEVEL and values[key] > values[f"{aspect}_{other}"])
