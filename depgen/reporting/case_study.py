"""Case studies (such as Tables 8, 9 and 16 of Yang & Wan, 2022): what systems wrote, side by side, the human text last.

What is shown is drawn by a seed among what `depgen reproduce` kept, the same places of the files for all systems; or it
is the first of it. Texts with trees may be shown level by level, as they were written, and drawn with their trees.
Contexts of a study itself (`invented`) are continued by the trained systems when it is shown.

Deviations:
    D1. The paper's examples are picked; these are not.
    D2. The paper puts the human text first, where one reads all others against it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from depgen.data.corpus import Corpus
from depgen.data.experiment import data_of
from depgen.errors import UserError, did_you_mean
from depgen.evaluation.loading import load_run
from depgen.evaluation.trees.generated_trees import sentence_of
from depgen.locations import results_root, write_atomically
from depgen.reporting.definition import Row, TableDefinition, chosen_table, is_made
from depgen.reporting.examples import ENDINGS, Example, Examples, Format, render
from depgen.reporting.experiments import experiments_root
from depgen.reporting.fields import read_as
from depgen.reporting.jobs import Job, finished_run
from depgen.reporting.results import read_results
from depgen.reporting.run_facts import facts_of
from depgen.reporting.texts import prompts_of, texts_of
from depgen.reporting.trees import Trees, trees_svg
from depgen.training.runs import read_record
from depgen.trees.binarization import Level, levels_of
from depgen.trees.sentence import Sentence
from depgen.yaml_files import read_settings

HUMAN, EMPTY = "human", "(empty)"


@dataclass(frozen=True)
class CaseStudy:
    """A case study as its YAML file says it.

    Attributes:
        study: its name, as in `results/<study>/`.
        caption: printed over it.
        source: where the paper has its own.
        table: whose rows' texts are shown.
        rows: the systems, in order.
        seed: of the draw; of invented contexts, of sampling, to which the seed of the run is added.
        contexts: how many prompts are shown, one text a system each; None for texts written from nothing.
        texts: how many texts of each system, where they are written from nothing.
        top_p: the nucleus of the texts; None takes the table's own.
        invented: contexts, tokens with spaces between, that the systems continue in place of those of a corpus.
        first: show the first texts written from nothing, and the first human ones, in place of drawn ones.
        variants: texts of other settings of generation than the table's, each by its name.
        trees: `levels` shows each text written from nothing level by level, `pictures` also draws the trees.
    """

    study: str
    caption: str
    source: str
    table: str
    rows: Sequence[str]
    seed: int
    contexts: int | None = None
    texts: int = 1
    top_p: float | None = None
    invented: Sequence[str] = ()
    first: bool = False
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    trees: Literal["levels", "pictures"] | None = None


def case_study(
    study: str | None = None,
    *,
    size: str | None = None,
    seeds: list[int] | None = None,
    format: Format = "text",
    output: Path | None = None,
) -> str:
    """What the systems of a table wrote, side by side, as far as `depgen reproduce` has kept it.

    Markdown, plain text and HTML are written under `results/<study>/` as well.

    Args:
        study: its name; unset: each that has texts.
        size: whose texts; unset: `small`, or the only one of the table.
        seeds: of the trainings, the first of them that a row has texts of; unset: the first that there is.
        format: of the returned text.
        output: a file for the returned text.

    Raises:
        UserError: no such study or size, no texts, or systems that wrote on different prompts.
    """
    if study is not None:
        text = _one(load_study(study), size, seeds, format)
        if output is not None:
            write_atomically(output, text)
        return text
    if output is not None:
        raise UserError("--output takes one case study: name it.")
    shown = []
    for name in study_names():
        try:
            shown.append(_one(load_study(name), size, seeds, format))
        except UserError as error:
            shown.append(f"{name}: {error}\n")
    return "\n".join(shown)


def study_names() -> list[str]:
    """Every case study that has a definition, by name."""
    return sorted(path.stem for path in (experiments_root() / "case_studies").glob("*.yaml"))


def load_study(name: str) -> CaseStudy:
    """The case study of that name (dashes and underscores alike).

    Raises:
        UserError: there is none, or its file does not read as one.
    """
    path = experiments_root() / "case_studies" / f"{name.replace('-', '_')}.yaml"
    if not path.is_file():
        known = study_names()
        meant = did_you_mean(name.replace("-", "_"), known)
        raise UserError(f"No case study {name!r}: {path} is not there.{meant} Case studies: {', '.join(known)}.")
    study = read_as(CaseStudy, read_settings(path), str(path))
    if not study.rows or (study.texts if study.contexts is None else study.contexts) < 1:
        raise UserError(f"{path}: expected at least one row and at least one text of each.")
    if study.invented and study.contexts is not None:
        raise UserError(f"{path}: contexts of the test split and invented ones were given. Leave out one of them.")
    return study


def _one(study: CaseStudy, size: str | None, seeds: list[int] | None, format: Format) -> str:
    definition, chosen, _ = chosen_table(study.table, size)
    examples = examples_of(study, definition, size=chosen, seeds=seeds)
    for each, ending in ENDINGS.items():
        path = results_root() / study.study / f"case-study-{chosen}.{ending}"
        write_atomically(path, render(examples, format=each))
    if examples.trees:
        write_atomically(results_root() / study.study / f"trees-{chosen}.svg", trees_svg(examples.trees))
    return render(examples, format=format)


@dataclass(frozen=True)
class _Kept:
    """The texts of a row, the prompts that they continue, if any, and where and when its result or run was made.

    The name is the row's, of the study's variants with theirs.
    """

    row: Row
    seed: int
    texts: tuple[str, ...]
    prompts: tuple[str, ...] | None
    made: str
    name: str
    structures: tuple[Any, ...] = ()

    def sentence(self, place: int) -> Sentence:
        """A text with its tree.

        Raises:
            UserError: there is no tree over its words.
        """
        return sentence_of(self.texts[place], self.structures[place] or {})


def examples_of(
    study: CaseStudy, definition: TableDefinition, *, size: str, seeds: Sequence[int] | None = None
) -> Examples:
    """The drawn examples.

    Raises:
        UserError: no row has texts, or those that have wrote different numbers of them or on different prompts.
    """
    rows = [definition.row(name) for name in study.rows]
    if study.invented:
        kept = [found for row in rows if (found := _written(study, definition, row, size, seeds)) is not None]
    else:
        kept = [each for row in rows for each in _kept(study, definition, row, size, seeds)]
    if not kept and study.invented:
        raise UserError(
            f"None of {', '.join(study.rows)} of {definition.table} is trained at size {size}. Train them first: "
            f"depgen reproduce {definition.argument} --size {size}"
        )
    if not kept:
        nucleus = "" if study.top_p is None else f" and nucleus {study.top_p}"
        raise UserError(
            f"No texts of {definition.table} at size {size}{nucleus}. Make them first: "
            f"depgen reproduce {definition.argument} --size {size} --remeasure"
        )
    _check_side_by_side(kept, definition, size)
    generator = np.random.default_rng(study.seed)
    if study.invented:
        shown = [_ending(f"Context {place + 1}", kept, place, ()) for place in range(len(study.invented))]
    elif study.trees == "levels":
        shown = [each for system in kept for each in _by_level(study, system)]
    elif study.contexts is None:
        shown = [_from_nothing(study, kept, _human_sentences(definition, kept[0], size), generator)]
    else:
        shown = _endings(study, kept, _human_endings(definition, kept[0], size), generator)
    missing = [row for row in rows if row.name not in {each.row.name for each in kept}]
    notes = _notes(study, definition, kept, [_why_missing(row, size) for row in missing])
    caption = f"{study.caption} (size {size})" if len(definition.sizes) > 1 else study.caption
    drawn = [each for system in kept for each in _pictures(study, system)] if study.trees == "pictures" else []
    return Examples(caption, tuple(shown), notes, tuple(drawn))


def _kept(
    study: CaseStudy, definition: TableDefinition, row: Row, size: str, seeds: Sequence[int] | None
) -> Iterator[_Kept]:
    """The texts of the first seed that has any; of each variant that has any."""
    if definition.generation is None:
        raise UserError(f"Table {definition.table} has no texts: its definition names no `generation`.")
    results = {each.seed: each for each in read_results(definition.table, row.slug, size=size)}
    for name, how in (study.variants or {"": {}}).items():
        for seed in results if seeds is None else seeds:
            kept = texts_of(results[seed], study.top_p, **how) if seed in results else None
            if kept is not None and (study.contexts is None or kept.prompts is not None):
                made = f"{results[seed].hardware}, {results[seed].date}"
                prompts = None if study.contexts is None else kept.prompts
                title = ", ".join(filter(None, (row.name, name)))
                yield _Kept(row, seed, kept.texts, prompts, made, title, kept.structures)
                break


def _written(
    study: CaseStudy, definition: TableDefinition, row: Row, size: str, seeds: Sequence[int] | None
) -> _Kept | None:
    """What the run of the first seed that has a finished one writes on the study's own contexts."""
    if definition.generation is None or not is_made(row, size=size):
        return None
    how = definition.generation.at(size)
    for seed in definition.seeds_at(size) if seeds is None else seeds:
        run = finished_run(Job(definition, row, size, seed))
        if run is not None:
            found = load_run(run).generate(
                study.invented, seed=study.seed + seed, max_new_tokens=how.max_new_tokens,
                temperature=how.temperature, top_p=how.top_p if study.top_p is None else study.top_p, progress=False,
            )  # fmt: skip
            made = f"{facts_of(run).hardware}, {str(read_record(run).get('finished', 'unknown'))[:10]}"
            return _Kept(row, seed, tuple(each.text for each in found), tuple(study.invented), made, row.name)
    return None


def _check_side_by_side(kept: Sequence[_Kept], definition: TableDefinition, size: str) -> None:
    first = kept[0]
    for other in kept[1:]:
        if other.prompts != first.prompts or (first.prompts is not None and len(other.texts) != len(first.texts)):
            raise UserError(
                f"{first.row.name} and {other.row.name} wrote on different prompts, so that their texts do not "
                f"compare. Make them again: depgen reproduce {definition.argument} --size {size} --remeasure"
            )


def _human_endings(definition: TableDefinition, kept: _Kept, size: str) -> tuple[str, ...]:
    """What the corpus has after each prompt.

    Raises:
        UserError: the corpus is not there, or holds other prompts than those that were written on.
    """
    assert definition.generation is not None
    prompts, references = prompts_of(_corpus(definition, kept, size), definition.generation)
    if prompts != kept.prompts:
        raise UserError(
            f"The test split has changed since {kept.row.name} wrote on it: make its texts again (depgen reproduce "
            f"{definition.argument} --row {kept.row.slug} --size {size} --remeasure)."
        )
    return references


def _human_sentences(definition: TableDefinition, kept: _Kept, size: str) -> tuple[str, ...]:
    return tuple(" ".join(document.words()) for document in _corpus(definition, kept, size).documents("test"))


def _corpus(definition: TableDefinition, kept: _Kept, size: str) -> Corpus:
    corpus = data_of(Job(definition, kept.row, size, kept.seed).config).corpus
    assert isinstance(corpus, Corpus)
    return corpus


def _drawn(generator: np.random.Generator, count: int, wanted: int) -> list[int]:
    """So many different places, in order; all where there are fewer."""
    return sorted(int(place) for place in generator.choice(count, min(wanted, count), replace=False))


def _endings(
    study: CaseStudy, kept: Sequence[_Kept], human: Sequence[str], generator: np.random.Generator
) -> list[Example]:
    """One example a context: an ending of each system."""
    assert study.contexts is not None
    prompts = kept[0].prompts
    assert prompts is not None
    return [
        _ending(f"Context (test document {place + 1})", kept, place, ((HUMAN, (human[place],)),))
        for place in _drawn(generator, len(prompts), study.contexts)
    ]


def _ending(title: str, kept: Sequence[_Kept], place: int, human: tuple[tuple[str, tuple[str, ...]], ...]) -> Example:
    """An ending of each system after one of its prompts, then the human text where there is one."""
    prompts = kept[0].prompts
    assert prompts is not None
    return Example(title, prompts[place], (*((each.name, (_shown(each.texts[place]),)) for each in kept), *human))


def _from_nothing(
    study: CaseStudy, kept: Sequence[_Kept], human: Sequence[str], generator: np.random.Generator
) -> Example:
    """One example: so many texts of each system."""
    places = _places(study, min(len(each.texts) for each in kept), generator)
    theirs = tuple(human[place] for place in _places(study, len(human), generator))
    systems = ((each.name, tuple(_shown(each.texts[place]) for place in places)) for each in kept)
    return Example(None, None, (*systems, (HUMAN, theirs)))


def _places(study: CaseStudy, count: int, generator: np.random.Generator) -> list[int]:
    """The places of the texts that are shown, out of `count` texts."""
    return [*range(min(study.texts, count))] if study.first else _drawn(generator, count, study.texts)


def _by_level(study: CaseStudy, kept: _Kept) -> Iterator[Example]:
    """Each shown text as it was written (Casas et al., 2020, Figure 7)."""
    for place in _places(study, len(kept.texts), np.random.default_rng(study.seed)):
        sentence = kept.sentence(place)
        levels = levels_of(sentence.words, sentence.heads or (), sentence.relations or ())
        steps = tuple(
            (
                f"Iteration {number}",
                tuple(f"{name}: {' '.join(row)}" for name, row in zip(_ROWS, _rows(each), strict=True)),
            )
            for number, each in enumerate(levels, start=1)
        )
        yield Example(f"{kept.name}, text {place + 1}", kept.texts[place], steps)


_ROWS = ("I_tok", "O_tok", "O_exp")


def _rows(level: Level) -> tuple[tuple[str, ...], ...]:
    return level.inputs, level.words, level.expansions


def _pictures(study: CaseStudy, kept: _Kept) -> Iterator[Trees]:
    """The trees of the shown texts (Casas et al., 2020, Figure 8)."""
    for place in _places(study, len(kept.texts), np.random.default_rng(study.seed)):
        yield Trees(f"{kept.name}, text {place + 1}", (("", kept.sentence(place)),))


def _shown(text: str) -> str:
    return text if text.strip() else EMPTY


def _why_missing(row: Row, size: str) -> str:
    return f"{row.name} ({'not run yet' if is_made(row, size=size) else 'not built yet'})"


def _notes(
    study: CaseStudy, definition: TableDefinition, kept: Sequence[_Kept], missing: Sequence[str]
) -> tuple[str, ...]:
    """Where the texts come from and how they were drawn."""
    generation = definition.generation
    assert generation is not None
    top_p = generation.top_p if study.top_p is None else study.top_p
    what = "contexts" if study.contexts is not None else "texts"
    seeds = "; ".join(f"{each.name} {each.seed}" for each in kept)
    drawn = f"Drawn by seed {study.seed}, the same {what} for all systems; nothing is picked"
    drawn = "The first texts of those that each system wrote; nothing is picked" if study.first else drawn
    invented = "The contexts are invented, in no corpus; each text is the only one that its system wrote"
    places = {made: [each.name for each in kept if each.made == made] for made in {each.made: None for each in kept}}
    machines = [made if len(places) == 1 else f"{made} ({'; '.join(names)})" for made, names in places.items()]
    lines = [
        f"{invented if study.invented else drawn}. Published texts: {study.source}",
        f"Texts of {definition.table}, nucleus {top_p}; seeds of training: {seeds}",
        f"Made on {'; '.join(machines)}",
    ]
    if missing:
        lines.append(f"Without texts: {', '.join(missing)}")
    return tuple(f"{line}." for line in lines)
