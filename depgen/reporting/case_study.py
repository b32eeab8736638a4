"""Case studies (such as Tables 8, 9 and 16 of Yang & Wan, 2022): what systems wrote, side by side, the human text last.

What is shown is drawn by a seed among what `depgen reproduce` kept, the same places of the files for all systems; or it
is the first of it. Texts with trees may be shown level by level, as they were written, and drawn with their trees.
Contexts of a study itself (`invented`) are continued by the trained systems when it is shown.

Deviations:
    D1. The paper's examples are picked; these are not.
    D2. The paper puts the human text first, where one reads all others against it.
"""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from depgen.data.corpus import Corpus
from depgen.data.experiment import data_of
from depgen.errors import UserError, did_you_mean
from depgen.evaluation.system import load
from depgen.evaluation.trees.generated_trees import sentence_of
from depgen.locations import results_root, write_atomically
from depgen.reporting.experiments import experiments_root, is_path
from depgen.reporting.fields import read_as
from depgen.reporting.jobs import Job, finished_run
from depgen.reporting.measures.texts import generation_of, prompts_of, texts_of
from depgen.reporting.results import read_results
from depgen.reporting.run_facts import facts_of
from depgen.reporting.system_plots import drawing_of, svg_of
from depgen.reporting.table import TableDefinition, chosen_table, is_made
from depgen.training.runs import read_record
from depgen.trees.binarization import levels_of
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
        first: show the first texts and the first human ones, in place of drawn ones.
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


@dataclass(frozen=True)
class Example:
    """What each system wrote.

    Attributes:
        title: over it; None for nothing.
        context: what the texts continue; None for texts without a prompt.
        texts: by system, in order.
    """

    title: str | None
    context: str | None
    texts: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Examples:
    """All examples under their caption, the notes below them, and pictures of trees as SVG with their captions."""

    caption: str
    examples: tuple[Example, ...]
    notes: tuple[str, ...]
    trees: Sequence[tuple[str, str]] = ()

    def render(self, ending: Literal["txt", "md", "html"]) -> str:
        """The examples as plain text, Markdown or HTML."""
        from jinja2 import Environment, PackageLoader, StrictUndefined

        templates = Environment(
            loader=PackageLoader("depgen.reporting"),
            undefined=StrictUndefined,
            autoescape=ending == "html",
            keep_trailing_newline=True,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        templates.filters.update(wrapped=_wrapped, literal=_literal)
        return templates.get_template(f"case_study.{ending}").render(vars(self))


def _wrapped(texts: Sequence[str], lead: str, *, indent: int | None = None) -> str:
    """Lines of texts after a lead, each text on a new line; `indent` of further lines: by default as the first text."""
    space = " " * (len(lead) if indent is None else indent)
    leads = [lead, *[space] * (len(texts) - 1)]
    lines = [
        textwrap.fill(text, 120, initial_indent=begin, subsequent_indent=space, break_on_hyphens=False)
        for begin, text in zip(leads, texts, strict=True)
    ]
    return "\n".join(line for line in lines if line)


def _literal(text: str) -> str:
    """Text in which nothing is Markdown: words such as `<unk>`, `[MALE]` and `*` are data."""
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def case_study(study: str | None = None, *, size: str | None = None) -> str:
    """What the systems of a table wrote, side by side, as far as `depgen reproduce` has kept it.

    Markdown and HTML are written under `results/<study>/`. A row's texts are those of its first seed that has any.

    Args:
        study: its name, or the path of a YAML file of your own; unset: each of the package that has texts.
        size: whose texts; unset: `small`, or the only one of the table.
    """
    if study is not None:
        return _shown(load_study(study), size)
    shown = []
    for name in study_names():
        try:
            shown.append(_shown(load_study(name), size))
        except UserError as error:
            shown.append(f"{name}: {error}\n")
    return "\n".join(shown)


def _shown(study: CaseStudy, size: str | None) -> str:
    """The text of a study, whose files are written."""
    definition, size, _ = chosen_table(study.table, size)
    examples, folder = examples_of(study, definition, size=size), results_root() / study.study
    for ending in ("md", "html"):
        write_atomically(folder / f"case-study-{size}.{ending}", examples.render(ending))
    if examples.trees:
        write_atomically(folder / f"trees-{size}.svg", svg_of(examples.trees))
    return examples.render("txt")


def study_names() -> list[str]:
    """Every case study that has a definition, by name."""
    return sorted(path.stem for path in (experiments_root() / "case_studies").glob("*.yaml"))


def load_study(name: str) -> CaseStudy:
    """The case study of that name (dashes and underscores alike), or of the YAML file at a path.

    The path of its table, where it names one by its path, starts at the folder of the study's file.
    """
    of_package = experiments_root() / "case_studies" / f"{name.replace('-', '_')}.yaml"
    path = Path(name) if is_path(name) else of_package
    if not path.is_file():
        known = study_names()
        meant = did_you_mean(name.replace("-", "_"), known)
        raise UserError(f"No case study {name!r}: {path} is not there.{meant} Case studies: {', '.join(known)}.")
    study = read_as(CaseStudy, read_settings(path), str(path))
    if is_path(study.table):
        study = replace(study, table=str(path.parent / study.table))
    if study.invented and (study.contexts is not None or study.trees is not None):
        raise UserError(f"{path}: invented contexts go with neither contexts of the test split nor trees.")
    return study


@dataclass(frozen=True)
class _Texts:
    """The texts of a row at one seed.

    Attributes:
        name: the row's; of the study's variants with theirs.
        job: the row at its seed.
        texts: what it wrote.
        prompts: what the texts continue; None for texts from nothing.
        made: on which machine, and when.
        structures: what it has built over each text.
    """

    name: str
    job: Job
    texts: tuple[str, ...]
    prompts: tuple[str, ...] | None
    made: str
    structures: tuple[Any, ...] = ()

    def at(self, places: Sequence[int]) -> tuple[str, tuple[str, ...]]:
        """The name and the texts at these places, with a word for empty ones."""
        return self.name, tuple(self.texts[place] if self.texts[place].strip() else EMPTY for place in places)

    def sentence(self, place: int) -> Sentence:
        """A text with its tree."""
        return sentence_of(self.texts[place], self.structures[place] or {})


def examples_of(study: CaseStudy, definition: TableDefinition, *, size: str) -> Examples:
    """The drawn examples.

    Raises:
        UserError: no row has texts, or those that have wrote different numbers of them or on different prompts.
    """
    rows = [definition.row(name) for name in study.rows]
    top_p = generation_of(definition).top_p if study.top_p is None else study.top_p
    find = _written if study.invented else _kept
    systems = [texts for row in rows for texts in find(study, Job(definition, row, size, 0))]
    again = definition.command(size, option="--remeasure")
    if not systems and study.invented:
        raise UserError(
            f"None of {', '.join(study.rows)} of {definition.table} is trained at size {size}. Train them first: "
            f"{definition.command(size)}"
        )
    if not systems:
        nucleus = "" if study.top_p is None else f" and nucleus {study.top_p}"
        raise UserError(f"No texts of {definition.table} at size {size}{nucleus}. Make them first: {again}")
    first, *others = systems
    for other in others:
        if other.prompts != first.prompts or (first.prompts is not None and len(other.texts) != len(first.texts)):
            raise UserError(
                f"{first.job.row.name} and {other.job.row.name} wrote on different prompts, so that their texts do not "
                f"compare. Make them again: {again}"
            )
    caption = f"{study.caption} (size {size})" if len(definition.sizes) > 1 else study.caption
    written = {texts.job.row.name for texts in systems}
    missing = [
        f"{row.name} ({'not run yet' if is_made(row, size=size) else 'not built yet'})"
        for row in rows
        if row.name not in written
    ]
    trees = [
        drawing_of(f"{texts.name}, text {place + 1}", texts.sentence(place))
        for texts in systems
        if study.trees == "pictures"
        for place in _places(study, len(texts.texts))
    ]
    notes = _notes(study, systems, missing, top_p)
    return Examples(caption, tuple(_examples(study, systems)), tuple(notes), trees)


def _kept(study: CaseStudy, job: Job) -> Iterator[_Texts]:
    """The kept texts of the first seed of a row that has any; of each variant that has any."""
    results = read_results(job.definition.table, job.row.slug, size=job.size)
    for variant, how in (study.variants or {"": {}}).items():
        for result in results:
            kept = texts_of(result, study.top_p, **how)
            if kept is not None and (study.contexts is None or kept.prompts is not None):
                name = ", ".join(filter(None, (job.row.name, variant)))
                prompts = None if study.contexts is None else kept.prompts
                made = f"{result.hardware}, {result.date}"
                yield _Texts(name, replace(job, seed=result.seed), kept.texts, prompts, made, kept.structures)
                break


def _written(study: CaseStudy, job: Job) -> Iterator[_Texts]:
    """What the run of the first seed that has a finished one writes on the study's own contexts."""
    how = generation_of(job.definition).at(job.size)
    for seed in job.definition.seeds_at(job.size) if is_made(job.row, size=job.size) else ():
        of_seed = replace(job, seed=seed)
        run = finished_run(of_seed)
        if run is not None:
            generated = load(run).generate(
                study.invented, seed=study.seed + seed, max_new_tokens=how.max_new_tokens,
                temperature=how.temperature, top_p=how.top_p if study.top_p is None else study.top_p, progress=False,
            )  # fmt: skip
            made = f"{facts_of(run).hardware}, {str(read_record(run).get('finished', 'unknown'))[:10]}"
            texts = tuple(generated["text"])
            yield _Texts(job.row.name, of_seed, texts, tuple(study.invented), made)
            return


def _examples(study: CaseStudy, systems: Sequence[_Texts]) -> Iterator[Example]:
    """What is shown of the systems' texts and, where there is a corpus, of the human ones."""
    first = systems[0]
    if study.trees == "levels":
        for texts in systems:
            for place in _places(study, len(texts.texts)):
                yield _by_level(texts, place)
    elif study.invented:
        for place, context in enumerate(study.invented):
            yield Example(f"Context {place + 1}", context, tuple(texts.at([place]) for texts in systems))
    elif first.prompts is None:
        human = [" ".join(document.words()) for document in _corpus(first).documents("test")]
        generator = np.random.default_rng(study.seed)
        places = _places(study, min(len(texts.texts) for texts in systems), generator)
        theirs = tuple(human[place] for place in _places(study, len(human), generator))
        yield Example(None, None, (*(texts.at(places) for texts in systems), (HUMAN, theirs)))
    else:
        prompts, references = prompts_of(_corpus(first), generation_of(first.job.definition))
        if prompts != first.prompts:
            job = first.job
            raise UserError(
                f"The test split has changed since {job.row.name} wrote on it: make its texts again "
                f"({job.definition.command(job.size, job.row, option='--remeasure')})."
            )
        for place in _places(study, len(first.prompts)):
            written = (*(texts.at([place]) for texts in systems), (HUMAN, (references[place],)))
            yield Example(f"Context (test document {place + 1})", first.prompts[place], written)


def _corpus(texts: _Texts) -> Corpus:
    corpus = data_of(texts.job.config).corpus
    assert isinstance(corpus, Corpus)
    return corpus


def _places(study: CaseStudy, count: int, generator: np.random.Generator | None = None) -> list[int]:
    """The places of what is shown out of `count` texts, in order; drawn by the study's seed without a generator."""
    wanted = min(count, study.texts if study.contexts is None else study.contexts)
    if study.first:
        return [*range(wanted)]
    places: list[int] = (generator or np.random.default_rng(study.seed)).choice(count, wanted, replace=False).tolist()
    return sorted(places)


def _by_level(texts: _Texts, place: int) -> Example:
    """A text as it was written (Casas et al., 2020, Figure 7)."""
    sentence = texts.sentence(place)
    levels = levels_of(sentence.words, sentence.heads or (), sentence.relations or ())
    steps = []
    for number, level in enumerate(levels, start=1):
        rows = {"I_tok": level.inputs, "O_tok": level.words, "O_exp": level.expansions}
        steps.append((f"Iteration {number}", tuple(f"{name}: {' '.join(row)}" for name, row in rows.items())))
    return Example(f"{texts.name}, text {place + 1}", texts.texts[place], tuple(steps))


def _notes(study: CaseStudy, systems: Sequence[_Texts], missing: Sequence[str], top_p: float) -> Iterator[str]:
    """Where the texts come from and how they were drawn."""
    if study.invented:
        chosen = "The contexts are invented, in no corpus; each text is the only one that its system wrote"
    elif study.first:
        chosen = "The first texts of those that each system wrote; nothing is picked"
    else:
        what = "contexts" if study.contexts is not None else "texts"
        chosen = f"Drawn by seed {study.seed}, the same {what} for all systems; nothing is picked"
    yield f"{chosen}. Published texts: {study.source}."
    seeds = "; ".join(f"{texts.name} {texts.job.seed}" for texts in systems)
    yield f"Texts of {systems[0].job.definition.table}, nucleus {top_p}; seeds of training: {seeds}."
    made = dict[str, list[str]]()
    for texts in systems:
        made.setdefault(texts.made, []).append(texts.name)
    machines = [machine if len(made) == 1 else f"{machine} ({'; '.join(names)})" for machine, names in made.items()]
    yield f"Made on {'; '.join(machines)}."
    if missing:
        yield f"Without texts: {', '.join(missing)}."
