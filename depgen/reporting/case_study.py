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
from depgen.locations import results_root, write_atomically
from depgen.reporting.jobs import Job, finished_run
from depgen.reporting.measures.samples import sentence_of
from depgen.reporting.measures.texts import generation_of, prompts_of, texts_of
from depgen.reporting.results import facts_of, read_results
from depgen.reporting.system_plots import drawing_of, svg_of
from depgen.reporting.table import TableDefinition, chosen_table, experiments_root, is_made, is_path, read_as
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

    def places(self, count: int, generator: np.random.Generator | None = None) -> list[int]:
        """The places of what is shown out of `count` texts, in order; drawn by the seed without a generator."""
        shown = min(count, self.texts if self.contexts is None else self.contexts)
        if self.first:
            return [*range(shown)]
        draw = generator or np.random.default_rng(self.seed)
        places: list[int] = draw.choice(count, shown, replace=False).tolist()
        return sorted(places)


@dataclass(frozen=True)
class Example:
    """What each system wrote: its title, the context that the texts continue, and the texts by system, in order."""

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

    def text(self) -> str:
        """Plain text."""
        parts = [self.caption]
        for example in self.examples:
            lines = [] if example.title is None else [_wrapped(f"{example.title}: ", [example.context or ""], indent=4)]
            width = max(len(system) for system, _ in example.texts) + 4
            lines += [_wrapped(f"  {system}:".ljust(width), texts) for system, texts in example.texts]
            parts.append("\n".join(lines))
        parts.append("\n".join(_wrapped("- ", [note]) for note in self.notes))
        return "\n\n".join(parts) + "\n"

    def page(self, ending: Literal["md", "html"]) -> str:
        """A page of Markdown or HTML."""
        from jinja2 import Environment, PackageLoader, StrictUndefined

        environment = Environment(
            loader=PackageLoader("depgen.reporting"), undefined=StrictUndefined, autoescape=ending == "html",
            keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        environment.filters["literal"] = _literal
        return environment.get_template(f"case_study.{ending}").render(vars(self))


def _literal(text: str) -> str:
    """Text in which nothing is Markdown: words such as `<unk>`, `[MALE]` and `*` are data."""
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _wrapped(lead: str, texts: Sequence[str], *, indent: int | None = None) -> str:
    """Lines of texts after a lead, each text on a new line; `indent` of further lines: by default as the first text."""
    space = " " * (len(lead) if indent is None else indent)
    leads = [lead, *[space] * (len(texts) - 1)]
    lines = [
        textwrap.fill(text, 120, initial_indent=begin, subsequent_indent=space, break_on_hyphens=False)
        for begin, text in zip(leads, texts, strict=True)
    ]
    return "\n".join(line for line in lines if line)


def case_study(study: str, *, size: str | None = None) -> str:
    """What the systems of a table wrote, side by side, as far as `depgen reproduce` has kept it.

    Markdown and HTML are written into `results/<study>/`. A row's texts are those of its first seed that has any.

    Args:
        study: its name, or the path of a YAML file of your own.
        size: whose texts; unset: `small`, or the only one of the table.
    """
    loaded = load_study(study)
    definition, size = chosen_table(loaded.table, size)
    examples, folder = examples_of(loaded, definition, size=size), results_root() / loaded.study
    write_atomically(folder / f"case-study-{size}.md", examples.page("md"))
    write_atomically(folder / f"case-study-{size}.html", examples.page("html"))
    if examples.trees:
        write_atomically(folder / f"trees-{size}.svg", svg_of(examples.trees))
    return examples.text()


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
    return replace(study, table=str(path.parent / study.table)) if is_path(study.table) else study


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


def examples_of(study: CaseStudy, definition: TableDefinition, *, size: str) -> Examples:
    """The drawn examples."""
    rows = [definition.row(name) for name in study.rows]
    top_p = generation_of(definition).top_p if study.top_p is None else study.top_p
    find = _written if study.invented else _kept
    systems = [texts for row in rows for texts in find(study, Job(definition, row, size, 0))]
    if not systems:
        again = definition.command(size, option="" if study.invented else "--remeasure")
        raise UserError(f"No texts of {definition.table} at size {size}, nucleus {top_p}. Make them first: {again}")
    examples = [*(_by_level if study.trees == "levels" else _compared)(study, systems)]
    trees = [
        drawing_of(title, sentence) for title, sentence in (_trees(study, systems) if study.trees == "pictures" else ())
    ]
    caption = f"{study.caption} (size {size})" if len(definition.sizes) > 1 else study.caption
    return Examples(caption, tuple(examples), tuple(_notes(study, systems, top_p)), trees)


def _kept(study: CaseStudy, job: Job) -> Iterator[_Texts]:
    """The kept texts of the first seed of a row that has any; of each variant that has any."""
    results = read_results(job.definition.table, job.row.slug, size=job.size)
    for variant, how in (study.variants or {"": {}}).items():
        for result in results:
            kept = texts_of(result, study.top_p, **how)
            if kept is not None and (study.contexts is None or any(kept["prompt"])):
                name = ", ".join(filter(None, (job.row.name, variant)))
                prompts = None if study.contexts is None else tuple(kept["prompt"])
                made = f"{result.hardware}, {result.date}"
                structures = tuple(kept.get("structure", [{}] * len(kept)))
                yield _Texts(name, replace(job, seed=result.seed), tuple(kept["text"]), prompts, made, structures)
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


def _compared(study: CaseStudy, systems: Sequence[_Texts]) -> Iterator[Example]:
    """The systems' texts at the same places and, where there is a corpus, the human ones."""
    first = systems[0]
    if study.invented:
        for place, context in enumerate(study.invented):
            yield Example(f"Context {place + 1}", context, tuple(texts.at([place]) for texts in systems))
        return
    corpus = data_of(first.job.config).corpus
    assert isinstance(corpus, Corpus)
    if first.prompts is None:
        human = [" ".join(document.words()) for document in corpus.documents("test")]
        generator = np.random.default_rng(study.seed)
        places = study.places(min(len(texts.texts) for texts in systems), generator)
        theirs = tuple(human[place] for place in study.places(len(human), generator))
        yield Example(None, None, (*(texts.at(places) for texts in systems), (HUMAN, theirs)))
        return
    prompts, references = prompts_of(corpus, generation_of(first.job.definition).at(first.job.size))
    for texts in systems:
        if texts.prompts != prompts or len(texts.texts) != len(prompts):
            again = texts.job.definition.command(texts.job.size, texts.job.row, option="--remeasure")
            raise UserError(f"{texts.name} wrote on other prompts than the test split has. Make them again: {again}")
    for place in study.places(len(prompts)):
        written = (*(texts.at([place]) for texts in systems), (HUMAN, (references[place],)))
        yield Example(f"Context (test document {place + 1})", prompts[place], written)


def _trees(study: CaseStudy, systems: Sequence[_Texts]) -> Iterator[tuple[str, Sentence]]:
    """The texts that are shown, each under its name, with their trees."""
    for texts in systems:
        for place in study.places(len(texts.texts)):
            yield f"{texts.name}, text {place + 1}", sentence_of(texts.texts[place], texts.structures[place] or {})


def _by_level(study: CaseStudy, systems: Sequence[_Texts]) -> Iterator[Example]:
    """Texts as they were written (Casas et al., 2020, Figure 7)."""
    for title, sentence in _trees(study, systems):
        steps = []
        for number, level in enumerate(
            levels_of(sentence.words, sentence.heads or (), sentence.relations or ()), start=1
        ):
            rows = {"I_tok": level.inputs, "O_tok": level.words, "O_exp": level.expansions}
            steps.append((f"Iteration {number}", tuple(f"{name}: {' '.join(row)}" for name, row in rows.items())))
        yield Example(title, " ".join(sentence.words), tuple(steps))


def _notes(study: CaseStudy, systems: Sequence[_Texts], top_p: float) -> Iterator[str]:
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
    if missing := [name for name in study.rows if name not in {texts.job.row.name for texts in systems}]:
        yield f"Without texts: {', '.join(missing)}."
