"""Human evaluation: blinded sheets about what systems wrote, and what the answers that come back say.

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
    D3. The instructions of wording `paper` are Yang & Wan's (Tables 14 and 15) word for word, but for layout, the
        number of sentences, and a last line that allows ties: the paper counts them, and its questionnaire does not
        speak of them. They describe texts of ROCStories and EMNLP News as the paper preprocessed them; `neutral` ones
        suit any texts. Those of ratings are ours: Casas et al. print none, but that ratings are of fluency and
        correctness.

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
import json
import random
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
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
from depgen.trees.text_files import format_of

Kind = Literal["pairwise", "turing", "rating"]
Wording = Literal["neutral", "paper"]
Level = Literal["nominal", "interval"]
Ratings = Float[np.ndarray, "raters items"]

REAL = "Real data"
"""What the paper calls the human texts of its Turing test."""
KEY, ANSWERS, RATERS = "key.json", "answers", "raters"
"""What a questionnaire's folder holds: who wrote what, what came back, what is sent."""
IDENTITY = ["questionnaire", "rater", "item"]
"""The first columns of every sheet, by which answers are found."""
QUESTIONS: Mapping[Kind, Mapping[str, tuple[str, ...]]] = {
    "pairwise": {"grammaticality": ("1", "2", "tie"), "logicality": ("1", "2", "tie")},
    "turing": {"human": ("yes", "no")},
    "rating": {"rating": ("1", "2", "3", "4", "5")},
}
"""The columns that raters fill in, and the answers that they choose from."""

_SEPARATED = (
    "preprocessed by lowercasing, separating punctuation, and splitting conjunctions. They are not grammar errors."
)
_ANY_FORM = (
    "Note: the texts may be lower-cased, or cut into words and punctuation with spaces between. That is no error."
)
_WORDS: Mapping[Wording, Mapping[str, str]] = {
    "paper": {
        "stories": "Each story contains about five sentences. For each story, we will put the first four sentences "
        "into two different systems, and then systems generate the last sentence.",
        "beginning": "the first four sentences",
        "ending": "generated sentence",
        "pairwise": 'NOTE that the names in all stories are replaced with "[MALE]" or "[FEMALE]" or "[NEUTRAL]", and '
        f"all the sentences are {_SEPARATED}",
        "turing": f"Note: All the sentences are {_SEPARATED}",
    },
    "neutral": {
        "stories": "For each story, we will put its beginning into two different systems, and then "
        "systems generate the rest.",
        "beginning": "the beginning",
        "ending": "generated text",
        "pairwise": _ANY_FORM,
        "turing": _ANY_FORM,
    },
}
"""What fills the gaps of the instructions."""


@dataclass(frozen=True)
class Questionnaire:
    """All that raters are shown, with who wrote it: the key.

    Attributes:
        kind: comparison, Turing test or rating.
        systems: in the order given.
        shown: a row for each item of each rater, in the rater's order: `rater`, `item`, `line` of the texts in their
            files, `system_1` and `text_1`; in comparisons also `system_2`, `text_2` and the `context` of both.
        left_out: how many candidates could not be judged, by reason.
        seed: of the draw, the orders and the sides.
        wording: of the instructions.
        sources: the files of the texts, by system.
    """

    kind: Kind
    systems: tuple[str, ...]
    shown: pd.DataFrame
    left_out: Mapping[str, int]
    seed: int
    wording: Wording = "neutral"
    sources: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def name(self) -> str:
        """A digest of all that raters are shown, in letters that no spreadsheet takes for a number."""
        digest = hashlib.sha256(f"{self.kind}\n{self.shown.to_csv(index=False)}".encode())
        return f"q-{digest.hexdigest()[:12]}"

    @property
    def raters(self) -> list[str]:
        """Who has a sheet."""
        return list(self.shown["rater"].unique())

    @property
    def instructions(self) -> str:
        """What raters read first."""
        text = (files("depgen.evaluation") / f"human_{self.kind}.txt").read_text(encoding="utf-8")
        words = _WORDS[self.wording]
        return text.format(**words, form=words.get(self.kind), items=(self.shown["rater"] == self.raters[0]).sum())

    def sheet(self, rater: str) -> pd.DataFrame:
        """What one rater is given, without the systems, and an empty column for each answer."""
        sheet = self.shown[self.shown["rater"] == rater].drop(columns=["line", *self.shown.filter(like="system_")])
        sheet.insert(0, "questionnaire", self.name)
        if self.kind != "pairwise":
            sheet = sheet.rename(columns={"text_1": "text"})
        return sheet.assign(**dict.fromkeys(QUESTIONS[self.kind], ""))


# -- draws ------------------------------------------------------------------------------------------------------------


def pairwise(
    systems: Mapping[str, Sequence[str]],
    contexts: Sequence[str],
    *,
    number: int = 100,
    raters: int = 5,
    seed: int = 0,
) -> Questionnaire:
    """Two systems' texts side by side, each pair under the context that it continues.

    Raises:
        UserError: the numbers of texts and contexts differ, or there are too few pairs that can be judged.
    """
    for name, texts in systems.items():
        if len(texts) != len(contexts):
            raise UserError(f"Expected a text of {name} for each of the {len(contexts)} contexts, found {len(texts)}.")
    candidates = []
    left_out = {"with an empty text": 0, "of identical texts": 0}
    for line, (one, other) in enumerate(zip(*systems.values(), strict=True), start=1):
        if not one.strip() or not other.strip():
            left_out["with an empty text"] += 1
        elif one.split() == other.split():
            left_out["of identical texts"] += 1
        else:
            candidates.append((line, one, other))
    first, second = systems
    what = f"pairs of {first} and {second}"
    drawn = _drawn(random.Random(f"{seed} items"), candidates, number, what, left_out)
    rows = [
        {
            "item": f"item-{place}", "line": line, "context": contexts[line - 1],
            "system_1": first, "text_1": one, "system_2": second, "text_2": other,
        }
        for place, (line, one, other) in enumerate(drawn, start=1)
    ]  # fmt: skip
    packs = [rows] * raters
    return Questionnaire("pairwise", (first, second), _shown(packs, seed, sides=True), left_out, seed)


def single(
    kind: Literal["turing", "rating"],
    systems: Mapping[str, Sequence[str]],
    *,
    number: int = 100,
    raters: int = 5,
    per_sentence: int | None = None,
    seed: int = 0,
) -> Questionnaire:
    """Single sentences of several systems mixed; each rater gets as many of one system as of another.

    Args:
        kind: whether they are judged as human or not, or rated from 1 to 5.
        systems: each one's sentences; real ones are among them.
        number: of sentences to draw of each system.
        raters: how many will answer.
        per_sentence: how many of them judge a sentence; None: all.
        seed: of the draw and the orders.

    Raises:
        UserError: somebody has too few sentences, or they cannot be shared evenly.
    """
    share = raters if per_sentence is None else per_sentence
    if not 1 <= share <= raters or number * share % raters:
        raise UserError(
            f"Expected {number} sentences of each system, each judged by {share}, to be shared evenly among {raters} "
            "raters: choose --number, --raters and --per_sentence such that number x per_sentence / raters is whole."
        )
    drawn: list[tuple[str, int, str]] = []
    left_out: dict[str, int] = {}
    for name, texts in systems.items():
        candidates = [(name, line, text) for line, text in enumerate(texts, start=1) if text.strip()]
        empty = {f"empty, of {name}": len(texts) - len(candidates)}
        drawn += _drawn(random.Random(f"{seed} items {name}"), candidates, number, f"sentences of {name}", empty)
        left_out |= empty
    random.Random(f"{seed} names").shuffle(drawn)  # so that an item's name says nothing of its system
    packs: list[list[dict[str, Any]]] = [[] for _ in range(raters)]
    judged = dict.fromkeys(systems, 0)
    for place, (name, line, text) in enumerate(drawn, start=1):
        first = [*systems].index(name) + judged[name] * share
        judged[name] += 1
        row = {"item": f"item-{place}", "line": line, "system_1": name, "text_1": text}
        for rater in {(first + step) % raters for step in range(share)}:
            packs[rater].append(row)
    return Questionnaire(kind, tuple(systems), _shown(packs, seed, sides=False), left_out, seed)


def _drawn(
    draw: random.Random, candidates: Sequence[Any], number: int, what: str, left_out: Mapping[str, int]
) -> list[Any]:
    if len(candidates) < number:
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise UserError(
            f"Expected at least {number} {what} to draw from, found {len(candidates)} (left out: {reasons}). "
            "Give more texts, or a smaller --number."
        )
    return draw.sample(candidates, number)


def _shown(packs: Sequence[Sequence[dict[str, Any]]], seed: int, *, sides: bool) -> pd.DataFrame:
    """The items of each rater in an order of their own and, of comparisons, half of them with sides swapped."""
    swap = {"system_1": "system_2", "system_2": "system_1", "text_1": "text_2", "text_2": "text_1"}
    shown = []
    for number, pack in enumerate(packs, start=1):
        draw = random.Random(f"{seed} rater {number}")
        order = draw.sample(pack, len(pack))
        half = (len(pack) + draw.randrange(2)) // 2
        swapped = draw.sample(range(len(pack)), half) if sides else []
        for place, row in enumerate(order):
            sided = {name: row[swap.get(name, name) if place in swapped else name] for name in row}
            shown.append({"rater": f"rater-{number}", **sided})
    return pd.DataFrame(shown)


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
    wording: Wording = "neutral",
    seed: int = 0,
) -> str:
    """Write blinded questionnaires: two systems compared, with `--real` a Turing test, or with `--rate` ratings.

    Args:
        texts: NAME=FILE for each system, one text a line, or JSON lines of `depgen generate --json`. Those of a table's
            row lie in its run's folder `texts`.
        output: a folder: `raters/` is for them, `key.json` is not, `answers/` awaits what comes back.
        contexts: what the texts of a comparison continue, one a line; unset: the prompts of JSON lines.
        real: human sentences, one a line: asks of single sentences whether a human wrote them. They should look like
            the systems' texts (case, spaces, `<unk>`), else they give themselves away.
        rate: ask for ratings from 1 to 5 of single sentences, as in ITEXP's Table 4 (`-n 60 --raters 18 --per_sentence
            3`); a file may have real sentences.
        number: of pairs to be judged (`-n`); else of sentences of each system and of the real ones.
        raters: how many people will answer.
        per_sentence: of single sentences: how many of the raters judge one; unset: all.
        wording: of the instructions: `paper` are those of DMLM's appendix, which describe its corpora and their
            preprocessing; `neutral` ones suit any texts.
        seed: of the draw, the orders and the sides.

    Raises:
        UserError: texts are missing or too few, contexts differ, or another questionnaire lies in the folder.
    """
    paths: dict[str, Path] = {}
    for option in texts:
        name, _, file = option.partition("=")
        if not name or not file or name in (*paths, REAL):
            raise UserError(f"--texts {option}: expected NAME=FILE, with another name for each system.")
        paths[name] = Path(file)
    if real is not None and not rate:
        paths[REAL] = real
    systems = {name: read_file_texts(path) for name, path in paths.items()}
    if rate or real is not None:
        if contexts is not None or (rate and real is not None):
            raise UserError("Leave --contexts out where single sentences are judged, and --real with --rate.")
        questionnaire = single(
            "rating" if rate else "turing", systems, number=number, raters=raters, per_sentence=per_sentence, seed=seed
        )
    elif len(systems) == 2:
        begun = _contexts(contexts, [*paths.values()])
        questionnaire = pairwise(systems, begun, number=number, raters=raters, seed=seed)
    else:
        raise UserError(
            f"Expected --texts of two systems to compare, found {len(systems)}. More want --real or --rate."
        )
    sources = {name: str(path) for name, path in paths.items()}
    return write_folder(replace(questionnaire, wording=wording, sources=sources), output)


def _contexts(contexts: Path | None, texts: Sequence[Path]) -> list[str]:
    """What the texts continue, the same for all.

    Raises:
        UserError: no file says it, or two say different things.
    """
    known = {path: read_file_texts(path, ("prompt",)) for path in texts if format_of(path) == "jsonl"}
    if contexts is not None:
        known[contexts] = read_file_texts(contexts, PROMPT)
    if not known:
        raise UserError("A comparison shows what the texts continue: give --contexts FILE, one a line.")
    (first, prompts), *others = known.items()
    for path, other in others:
        if other != prompts:
            raise UserError(f"{first} and {path} have different contexts: both systems must continue the same ones.")
    return prompts


def write_folder(questionnaire: Questionnaire, output: Path) -> str:
    """What was written and what to do with it; the key first, so that no rater's file lies without it.

    Raises:
        UserError: another questionnaire lies in the folder.
    """
    key = {**asdict(questionnaire), "shown": questionnaire.shown.to_dict("records")}
    content = json.dumps(key, indent=1, ensure_ascii=False) + "\n"
    path = output / KEY
    if path.is_file() and path.read_text(encoding="utf-8") != content:
        raise UserError(f"{path} belongs to another questionnaire, whose answers need it. Choose another --output.")
    write_atomically(path, content)
    (output / ANSWERS).mkdir(exist_ok=True)
    write_atomically(output / RATERS / "instructions.txt", questionnaire.instructions)
    for rater in questionnaire.raters:
        sheet = questionnaire.sheet(rater).to_csv(index=False)
        write_atomically(output / RATERS / f"{rater}.csv", f"\ufeff{sheet}")  # the mark lets spreadsheets read UTF-8
    return (
        f"{questionnaire.shown['item'].nunique()} items of {', '.join(questionnaire.systems)} for "
        f"{len(questionnaire.raters)} raters in {output}.\n"
        f"Left out before the draw: {left_out(questionnaire)}.\n"
        f"Send {RATERS}/instructions.txt and {RATERS}/rater-N.csv to rater N, and nothing else.\n"
        f"Put the CSV files that come back into {output / ANSWERS}, then: depgen human-eval score {output}"
    )


def left_out(questionnaire: Questionnaire) -> str:
    """How many candidates could not be judged, and why."""
    return ", ".join(f"{count:,} {reason}" for reason, count in questionnaire.left_out.items())


def read_key(folder: Path) -> Questionnaire:
    """The questionnaire of a folder that `export` wrote.

    Raises:
        UserError: there is none.
    """
    key = json_object(folder / KEY, remedy="Give the folder that `depgen human-eval export` wrote.")
    return Questionnaire(**{**key, "systems": tuple(key["systems"]), "shown": pd.DataFrame(key["shown"])})


def read_answers(questionnaire: Questionnaire, paths: Sequence[Path]) -> pd.DataFrame:
    """The rows of `shown` of all raters who answered, with a column for each question, empty where nothing was given.

    Raises:
        UserError: no file; one of another questionnaire; a rater or an item that is unknown or occurs twice; an answer
            that is none of the choices.
    """
    if not paths:
        raise UserError(f"No answers: put the raters' CSV files into `{ANSWERS}/` next to the key.")
    questions = QUESTIONS[questionnaire.kind]
    sheets = pd.concat([_read_sheet(path, [*IDENTITY, *questions]) for path in paths])
    known = {*zip(questionnaire.shown["rater"], questionnaire.shown["item"], strict=True)}
    for row in sheets.to_dict("records"):
        where = f"{row['file']}, {row['item']} of {row['rater']}"
        if row["questionnaire"] != questionnaire.name:
            raise UserError(f"{where}: answers questionnaire {row['questionnaire']!r}, not {questionnaire.name}.")
        if (row["rater"], row["item"]) not in known:
            raise UserError(f"{where}: unknown to the key, or answered twice. Keep one of the answers.")
        known.remove((row["rater"], row["item"]))
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
        raise UserError(f"{path}: expected the columns {', '.join(columns)}; {', '.join(lacking)} are not there.")
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
        raters: who answered.
        missing: how many answers these left out.
        first_shown: share of the comparisons without ties that the text shown first won; None for others.
    """

    questionnaire: Questionnaire
    figures: pd.DataFrame
    raters: tuple[str, ...]
    missing: int
    first_shown: float | None = None


def read_outcome(folder: Path, pairs: Collection[str] = ()) -> Outcome:
    """What the answers in a questionnaire's folder say; a comparison in the direction that one of these pairs has.

    Every item counts alike, whatever the number of its raters.

    Raises:
        UserError: there is no key, or answers are missing or do not fit it.
    """
    questionnaire = read_key(folder)
    returned = sorted(path for path in (folder / ANSWERS).glob("*") if path.suffix.lower() == ".csv")
    answers = read_answers(questionnaire, returned)
    systems, order = questionnaire.systems, sorted(answers["item"].unique(), key=lambda item: int(item.split("-")[1]))
    if " vs. ".join(systems[::-1]) in pairs:
        systems = systems[::-1]
    system_of = dict(zip(answers["item"], answers["system_1"], strict=True))
    figures, missing = list[dict[str, Any]](), 0
    for question in QUESTIONS[questionnaire.kind]:
        answers["value"] = _values(answers, question, systems[0])
        missing += int(answers["value"].isna().sum())
        table = answers.pivot(index="rater", columns="item", values="value")[order]
        if questionnaire.kind == "pairwise":
            ratings = _judged(table.to_numpy(), f"{folder}: {question}")
            figures += _preference(ratings, question, " vs. ".join(systems))
            continue
        for system in systems:
            own = [item for item in order if system_of[item] == system]
            figures += _rated(_judged(table[own].to_numpy(), f"{folder}: {system}"), question, system)
        level: Level = "interval" if questionnaire.kind == "rating" else "nominal"
        figures.append(_figure("", "alpha", krippendorff_alpha(table.to_numpy(), level)))
    raters, sided = tuple(answers["rater"].unique()), [*QUESTIONS["pairwise"]]
    first_shown = None
    if questionnaire.kind == "pairwise" and (chosen := answers[sided].isin(["1", "2"]).to_numpy()).any():
        first_shown = float((answers[sided].to_numpy()[chosen] == "1").mean())
    return Outcome(questionnaire, pd.DataFrame(figures, dtype=object), raters, missing, first_shown)


def _values(answers: pd.DataFrame, question: str, first: str) -> pd.Series:
    """Answers as numbers, NaN where nothing was given; of comparisons 1 or -1 where the first or the other one won."""
    if question in QUESTIONS["pairwise"]:
        choice = answers[question].map({"1": 1.0, "2": -1.0, "tie": 0.0})
        return choice.where(answers["system_1"] == first, -choice)
    return answers[question].map({"yes": 1.0, "no": 0.0, **{str(rating): float(rating) for rating in range(1, 6)}})


def _judged(ratings: Ratings, what: str) -> Ratings:
    """The same.

    Raises:
        UserError: nobody gave an answer, and there would be no figure.
    """
    if np.isnan(ratings).all():
        raise UserError(f"{what}: expected at least one answer in `{ANSWERS}/`, found all of them empty.")
    return ratings


def _figure(system: str, measure: str, value: Interval | float | None) -> dict[str, Any]:
    interval = asdict(value) if isinstance(value, Interval) else {"value": value, "low": None, "high": None}
    return {"system": system, "measure": measure, **interval}


def _preference(ratings: Ratings, aspect: str, pair: str) -> list[dict[str, Any]]:
    """The figures of one aspect of a comparison, from the first system's side."""
    shares = {
        name: bootstrap_interval(item_means(np.where(np.isnan(ratings), np.nan, 100.0 * (ratings == value))))
        for name, value in (("win", 1.0), ("lose", -1.0), ("tie", 0.0))
    }
    tests = {
        "alpha": krippendorff_alpha(ratings),
        "p_items": signed_rank(item_means(ratings)),
        "p_judgements": signed_rank(ratings[~np.isnan(ratings)]),
    }
    return [_figure(pair, f"{aspect}_{name}", value) for name, value in {**shares, **tests}.items()]


def _rated(ratings: Ratings, question: str, system: str) -> list[dict[str, Any]]:
    """The mean of a system's sentences and, of ratings, how far their raters lie apart."""
    figures = [_figure(system, question, bootstrap_interval(item_means(ratings)))]
    if question == "rating":
        several = ratings[:, (~np.isnan(ratings)).sum(axis=0) > 1]
        deviation = float(np.nanstd(several, axis=0, ddof=1).mean()) if several.size else None
        figures.append(_figure(system, "deviation", deviation))
    return figures


def item_means(ratings: Ratings) -> Float[np.ndarray, " items"]:
    """Each item's mean over the raters who judged it; NaN where nobody did.

    >>> item_means(np.array([[1.0, 0.0], [0.0, np.nan]]))
    array([0.5, 0. ])
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # an item that nobody judged
        return np.asarray(np.nanmean(ratings, axis=0))


def krippendorff_alpha(ratings: Ratings, level: Level = "nominal") -> float | None:
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
