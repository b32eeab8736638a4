"""Every experiment parses at every size and with the options of every table's row, and its model and data are built.

One step on invented data is taken by `STEPPED`: one experiment of each combination of system, backbone, context and
data module, and further ones until every class that any experiment names has been in a step. For all other experiments
the parser of the command line reads files and options (every option's name and type), and the classes named under
`model` and `data` are built from them (every check of a constructor). What their step would run beyond that is code
that a stepped experiment runs with other sizes.
"""

import gc
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
import torch
import yaml
from jsonargparse import ArgumentParser, Namespace
from lightning import LightningDataModule, LightningModule

from depgen.annotation.training import train_parser
from depgen.cli import main
from depgen.cli.requests import Request
from depgen.cli.run_cli import RunCLI
from depgen.data.corpora import Ewt, PennTreebank
from depgen.data.formats import Conllu
from depgen.reporting.table import load_definition, table_names
from depgen.training.configuration_digest import settings_digest
from depgen.training.experiment import PAPER, Experiment, sizes_of
from depgen.yaml_files import read_settings
from tests.annotation.conftest import tiny_spacy, tiny_supar
from tests.invented_data import write_corpora
from tests.invented_glue import write_glue
from tests.invented_models import write_gpt2, write_gpt2_run, write_udgn_run
from tests.invented_similarity import write_similarity

NOT_FITTED = ("parser_", "parsing_", "correlations_", "union_", "bracketing_", "scoring_", "coherence_")
"""Experiments of verbs of their own, and UNION, which `tests/evaluation/test_union.py` trains."""
PART_FOLDERS = ("networks", "systems", "corpora", "recipes")
BASES = sorted(path for path in Path("experiments").glob("*.yaml") if not path.stem.startswith(NOT_FITTED))
PARTS = {path for path in Path("experiments").glob("*/*.yaml") if path.parent.name in PART_FOLDERS}


def experiments():
    """Every base at every size, and what makes the rows of all tables, each once."""
    rows = [
        row.experiment_at(size)
        for definition in map(load_definition, table_names())
        for row in definition.rows
        if row.experiment is not None
        for size in definition.sizes
    ]
    found = [*(Experiment(path, size) for path in BASES for size in sizes_of(path)), *rows]
    return list({json.dumps([str(each.file), each.size, each.options]): each for each in found}.values())


EXPERIMENTS = experiments()
SETTINGS = [each.settings for each in EXPERIMENTS]
SIZES = {
    "layers", "width", "embedding_size", "hidden_size", "attention_heads", "head_size", "feedforward", "max_epochs",
    "dependency_modeling_share", "tokens_per_batch", "columns", "min_count",
    "warmup_steps", "total_steps",
    "restart_at",  # half of the epochs
    "max_documents", "max_examples", "test_sentences",
    "size", "segments_per_batch", "max_size", "max_more",
    "beam_size", "word_beam_size", "fast_track", "feature_size",
    "embedding_learning_rate",  # twice that of the others
    "layer",  # as far up in a network of fewer layers
    "path",  # a parser that a laptop trains
    "run",  # another one
    "encoder",  # a run of a laptop's size
}  # fmt: skip


def name_of(experiment):
    """A short name of a test."""
    options = [f"{name.rpartition('.')[2]}" for name in experiment.options]
    return "-".join([experiment.name, *options])


@pytest.fixture(scope="module")
def place(made_once):
    """Invented corpora, tiny parsers, a tiny GPT-2 and runs where experiments look for them."""
    folder = made_once("experiments", write_place)
    with pytest.MonkeyPatch.context() as patch:
        set_roots(patch, folder)
        yield folder


def set_roots(patch, folder):
    for name in ("data", "cache", "runs", "results", "models"):
        patch.setenv(f"DEPGEN_{name.upper()}", str(folder / name))


def write_place(folder):
    """Write what experiments read into a folder."""
    write_corpora(folder / "data")
    write_similarity(folder / "data" / "sts")
    write_glue(folder / "data" / "glue")
    for name in ("gpt2", "gpt2-medium"):
        write_gpt2(folder / "models" / name)
    lines = {split: f"ptb.{split}.txt" for split in ("train", "valid", "test")}
    corpus = {"class_path": "depgen.data.corpora.TextLines", "init_args": {"folder": "ptb", **lines}}
    with pytest.MonkeyPatch.context() as patch:
        set_roots(patch, folder)
        write_parsers(folder / "cache" / "parsers")
        rows = folder / "runs" / "udgn_table1" / "UDGN"
        write_udgn_run(rows / "small-seed1", corpus=corpus)
        shutil.copytree(rows / "small-seed1", rows / "paper-seed1")
        for name, graphs in (("gpt2_wikinews", False), ("gpt2_wikinews_post", False), ("gilt_gpt2_wikinews", True)):
            run = write_gpt2_run(folder / "gpt2_runs", corpus=corpus, experiment=name, graphs=graphs)
            shutil.copytree(run, folder / "runs" / name / "small" / "seed1" / run.name)


def write_parsers(parsers):
    """Train a parser of each kind for some steps, and copy it under all names of its kind."""
    invented = Ewt(name="invented")
    parts = {"train": ["0?/*.mrg"], "valid": ["1?/*.mrg"], "test": ["2?/*.mrg"]}
    brackets = PennTreebank("wsj", **parts, name="invented")
    graphs = Ewt(format=Conllu(graphs=True), name="invented")
    few = {"steps": 2, "evaluate_every": 2}
    train_parser(invented, "ewt", tiny_spacy(steps=4), lowercase=True)
    train_parser(invented, "ewt_supar", tiny_supar(**few), lowercase=True)
    train_parser(brackets, "wsj_constituency", tiny_supar(**few, structure="constituency"))
    train_parser(graphs, "ewt_graph", tiny_supar(**few, structure="graph"))
    copies = {
        "ewt": ("ewt_lowercased", "wsj_normalized"),
        "ewt_supar": ("ewt_supar_small",),
        "ewt_graph": ("ewt_content",),
    }
    for name, others in copies.items():
        for other in others:
            shutil.copytree(parsers / name, parsers / other)


def classes_in(settings):
    """All class paths of a YAML file."""
    values = settings if isinstance(settings, list) else settings.values()
    own = {settings["class_path"]} if "class_path" in settings else set()
    return own.union(*(classes_in(value) for value in values if isinstance(value, dict | list)))


def combination(settings):
    """System, backbone, context and data module."""
    arguments = settings["model"]["init_args"]
    parts = (settings["model"], arguments.get("backbone"), arguments.get("context"), settings["data"])
    return tuple(None if part is None else part["class_path"] for part in parts)


def is_pretrained(settings):
    """Whether the backbone's sizes come from a pretrained model, which a step replaces by an invented one."""
    return ((settings["model"]["init_args"].get("backbone") or {}).get("init_args") or {}).get("pretrained") is not None


def stepped():
    """Small experiments first: one of each combination, and those that bring a class not seen so far."""
    found, combinations, classes = [], set(), set()
    places = sorted(range(len(EXPERIMENTS)), key=lambda place: EXPERIMENTS[place].size == PAPER)
    for place in sorted(places, key=lambda place: -len(classes_in(SETTINGS[place]))):
        settings = SETTINGS[place]
        if combination(settings) not in combinations or not classes_in(settings) <= classes:
            found.append(place)
            combinations.add(combination(settings))
            classes |= classes_in(settings)
    return sorted(found)


STEPPED = stepped()


@pytest.fixture
def cleared():
    """A trainer, its model and optimizer refer to each other and wait, large as they are, for a full collection."""
    yield
    gc.collect()


@pytest.mark.slow
@pytest.mark.usefixtures("cleared")
@pytest.mark.parametrize("number", STEPPED, ids=lambda number: name_of(EXPERIMENTS[number]))
def test_it_takes_a_step(number, place, capsys):
    experiment, settings, text = EXPERIMENTS[number], SETTINGS[number], json.dumps(SETTINGS[number])
    options = ["--trainer.fast_dev_run", "true", "--trainer.accelerator", "cpu", "--name", f"step{number}"]
    data = settings["data"].get("init_args", {})
    loaded = data.get("encoder") or (data.get("annotator") or {}).get("init_args", {}).get("run")
    if loaded and "gpt2" not in loaded:
        run = place / "runs" / "udgn_table1" / "UDGN" / "small-seed1" / "udgn"
        shutil.copytree(run, place / "runs" / loaded, dirs_exist_ok=True)
    if loaded and "InducedTrees" in text:  # the invented run's corpus does not say it
        options += ["--data.init_args.annotator.init_args.form=as_is"]
        options += ["--model.init_args.max_count=99"] if "GiLT" in text else []  # its trees are chance
    if "beam_size" in settings["model"]["init_args"]:  # quick: a wider one has the same code
        options += ["--model.init_args.beam_size=3"]
    if "controlled" in experiment.name:  # one step is no time to warm up
        options += ["--model.init_args.scheduler.init_args.warmup_steps=0"]
    if "models.udgn" in text:  # quick: the small size has the same code
        options += ["--model.init_args.width=16", "--model.init_args.layers=2"]
    if '"rte"' in text:  # small vocabularies begin all numbers alike
        options += ["--data.init_args.corpus.init_args.verbalisers=[the,cat]"]
    if "CorpusVocabulary" in text:  # of a whole corpus, of which there are a few lines here
        options += ["--data.init_args.vocabulary.init_args.builder.init_args.min_count=1"]
    if '"skip"' in text:  # more than there are here
        options += ["--data.init_args.corpus.init_args.steps=[depgen.data.steps.SingleSentences]"]
    backbone = settings["model"]["init_args"].get("backbone") or {}
    if str(backbone.get("class_path")).endswith(".Transformer"):  # quick: mixed precision is slow on some CPUs
        sizes = [name for name in ("width", "feedforward") if name in backbone["init_args"]]
        options += [f"--model.init_args.backbone.init_args.{name}=32" for name in sizes]
    if is_pretrained(settings):
        options += ["--model.init_args.tape_layers=1"] if "GiLT" in text else []
        sizes = {"layers": 2, "width": 16, "attention_heads": 2}
        options += [f"--model.init_args.backbone.init_args.{name}={size}" for name, size in sizes.items()]
    assert main(["fit", *experiment.arguments, *options]) == 0, capsys.readouterr().err


@pytest.fixture(scope="module")
def parser_of_fit(place):
    """The parser of `depgen fit`, which is made once for all files."""
    parsers, extend = [], RunCLI.add_arguments_to_parser
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            RunCLI, "add_arguments_to_parser", lambda cli, parser: parsers.append(parser) or extend(cli, parser)
        )
        assert main(["fit", "--config", str(BASES[0]), "--print_config"]) == 0
    (parser,) = parsers
    return parser


@pytest.fixture(scope="module")
def classes():
    """A parser of the two sections whose classes an experiment names: it builds these alone, without a trainer."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(LightningModule, "model")
    parser.add_subclass_arguments(LightningDataModule, "data")
    return parser


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", sorted({*range(len(EXPERIMENTS))} - {*STEPPED}), ids=lambda number: name_of(EXPERIMENTS[number])
)
def test_it_parses_and_its_classes_can_be_built(number, parser_of_fit, classes):
    experiment, settings = EXPERIMENTS[number], SETTINGS[number]
    read = parser_of_fit.parse_args(Request.of("fit", experiment.arguments).arguments())
    if experiment.options and experiment.size != PAPER:  # no argument of a class that an option replaces is left
        text = parser_of_fit.dump(read, skip_link_targets=True, skip_unset=False, format="yaml", skip_validation=True)
        dumped = yaml.safe_load(text)
        sections = ("trainer", "model", "data")
        parsed, composed = ({name: each[name] for name in sections} for each in (dumped, settings))
        assert settings_digest(parsed, "parsed") == settings_digest(composed, "composed")
    read.model.init_args.vocabulary_size = 50  # that of the data, which are not read here
    if is_pretrained(settings):
        read.model.init_args.backbone.init_args.pretrained = None  # the same network, whose weights are not read either
    with torch.device("meta"):  # weights without values
        built = classes.instantiate_classes(Namespace(model=read.model, data=read.data))
    for name in ("model", "data"):
        kind = type(getattr(built, name))
        assert f"{kind.__module__}.{kind.__name__}" == settings[name]["class_path"]


def leaves(settings, prefix=()):
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from leaves(value, (*prefix, name))
        else:
            yield (*prefix, name), value


def settings_at(name, size):
    return Experiment(Path(f"experiments/{name}.yaml"), size).settings


def parts_of(path):
    """The files that an experiment is made of."""
    named = read_settings(path).get("base", [])
    parts = [(path.parent / each).resolve() for each in ([named] if isinstance(named, str) else named)]
    return {*parts}.union(*map(parts_of, parts))


def test_every_experiment_of_a_paper_has_a_small_size_and_every_part_two_experiments():
    assert {path.stem for path in BASES if "small" not in sizes_of(path) and "controlled" not in path.stem} == set()
    uses = Counter(part for path in BASES for part in parts_of(path))
    assert {part.name for part in PARTS if uses[part.resolve()] < 2} == set()


@pytest.mark.parametrize(
    "path",
    [path for path in BASES if "small" in sizes_of(path) and not is_pretrained(Experiment(path).settings)],
    ids=lambda path: path.stem,
)
def test_its_small_size_differs_in_sizes_alone(path):
    large, small = (dict(leaves(Experiment(path, size).settings)) for size in (PAPER, "small"))
    assert large.keys() == small.keys()
    changed = {name for name, value in large.items() if small[name] != value}
    rate, width = ("model", "init_args", "optimizer", "init_args", "lr"), masked_width(large)
    if width is not None and rate in changed:  # of masked language models it goes with 1 / sqrt(width)
        assert small[rate] == pytest.approx(large[rate] * (width / masked_width(small)) ** 0.5)
        changed.discard(rate)
    if large.get((*BACKBONE, "positions")) == "relative" and rate in changed:  # of Transformer-XL with 1 / width
        width = (*BACKBONE, "width")
        assert small[rate] == pytest.approx(large[rate] * large[width] / small[width])
        changed.discard(rate)
    steps = ("data", "init_args", "corpus", "init_args", "steps")
    if steps in changed:
        assert without_limits(small[steps]) == without_limits(large[steps])
        changed.discard(steps)
    assert {name[-1] for name in changed} <= SIZES


def without_limits(steps):
    """The steps of a corpus but for how many documents they take."""
    others = [step for step in steps if not step["class_path"].endswith("FirstDocuments")]
    return json.loads(json.dumps(others).replace('"most": 60000', '"most": 20000'))


BACKBONE = ("model", "init_args", "backbone", "init_args")


def masked_width(settings):
    """The width of UDGN or one of its baselines; None for every other system."""
    systems = ("udgn.UDGN", "structformer.StructFormer", "masked_transformer.MaskedTransformer")
    if not settings.get(("model", "class_path"), "").endswith(systems):
        return None
    arguments = ("model", "init_args")
    return settings.get((*arguments, "width"), settings.get((*arguments, "backbone", "init_args", "width")))


TWINS = {
    "transformer_rocstories": ["dmlm_rocstories"],
    "awd_lstm_rocstories": ["dmlm_rocstories_lstm"],
    "awd_lstm_ptb": ["dmlm_ptb_lstm"],
    "awd_lstm_news": ["dmlm_news_lstm"],
    "transformer_ptb": ["dmlm_ptb"],
    "transformer_ptb_lines": ["dmlm_ptb_gold_lines", "dmlm_ptb_induced_lines"],
    "transformer_news": ["dmlm_news"],
    "transformer_wikinews": ["dmlm_wikinews"],
    "transformer_ewt": ["dmlm_ewt_gold"],
    "transformer_brown": ["dmlm_brown"],
    "awd_lstm_brown": ["dmlm_lstm_brown"],
    "gpt2_brown": ["dmlm_gpt2_brown"],
    **{f"gpt2_{corpus}": [f"dmlm_{corpus}_gpt2"] for corpus in ("rocstories", "ptb", "news")},
}


@pytest.mark.parametrize("size", ["small", "paper"])
@pytest.mark.parametrize(("base", "twin"), [(base, twin) for base, twins in TWINS.items() for twin in twins])
def test_a_base_and_its_twin_share_backbone_optimiser_budget_and_vocabulary(base, twin, size):
    base, other = settings_at(base, size), settings_at(twin, size)
    for name in ("backbone", "regularizer", "optimizer", "scheduler"):
        assert base["model"]["init_args"].get(name) == other["model"]["init_args"].get(name)
    assert base["trainer"] == other["trainer"]
    assert base["data"]["class_path"] == other["data"]["class_path"]
    for name in ("corpus", "vocabulary", "tokens_per_batch", "columns", "bptt", "max_documents"):
        assert base["data"]["init_args"].get(name) == other["data"]["init_args"].get(name)
    first = other["model"]["init_args"]["dependency_modeling_share"] * base["trainer"]["max_epochs"]
    assert first == pytest.approx(round(first))  # the phases have whole epochs


@pytest.mark.parametrize("size", ["small", "paper"])
@pytest.mark.parametrize("twin", ["dtg_wikinews", "pushdown_wikinews", "txl_treereg_wikinews"])
def test_rivals_of_transformer_xl_differ_from_it_in_what_is_theirs(twin, size):
    base, other = (dict(leaves(settings_at(name, size))) for name in ("txl_wikinews", twin))
    differing = {name for name in base.keys() | other.keys() if base.get(name) != other.get(name)}
    own = {"class_path", "annotator", "tree_regularization", "beam_size", "attachment_dropout", "word_beam_size"}
    own |= {"embedding_learning_rate"}
    assert {name for name in differing if not own & {*name[:3]}} == set()
    assert all(name[:2] == ("model", "class_path") or name[1] == "init_args" for name in differing)


@pytest.mark.parametrize("size", ["small", "paper"])
def test_transformer_grammars_share_all_but_trees_with_transformer_xl(size):
    base, other = (dict(leaves(settings_at(name, size))) for name in ("txl_wikinews", "tg_wikinews"))
    within = ("data", "init_args", "vocabulary", "init_args", "builder")  # the pieces are those of the base
    moved = {(*within[:3], *name[5:]): value for name, value in other.items() if name[:5] == within}
    other = {name: value for name, value in other.items() if name[:3] != within[:3]} | moved
    differing = {name[-1] for name in base.keys() | other.keys() if base.get(name) != other.get(name)}
    assert differing == {"class_path", "path", "beam_size", "word_beam_size", "fast_track"}


@pytest.mark.parametrize("size", ["small", "paper"])
def test_masked_language_models_share_data_and_budget_and_the_baselines_their_backbone(size):
    udgn, structformer, transformer = (
        settings_at(f"{name}_ptb", size) for name in ("udgn", "structformer", "masked_transformer")
    )
    assert udgn["data"] == structformer["data"] == transformer["data"]
    assert udgn["trainer"] == structformer["trainer"] == transformer["trainer"]
    blocks = [dict(leaves(each["model"]["init_args"]["backbone"])) for each in (structformer, transformer)]
    assert dict(blocks[0].items() ^ blocks[1].items()).keys() == {("init_args", "embedding_dropout")}
    for name in ("optimizer", "scheduler"):
        assert structformer["model"]["init_args"][name] == transformer["model"]["init_args"][name]


@pytest.mark.parametrize("size", ["small", "paper"])
def test_all_rows_of_the_scoreboard_share_corpus_vocabulary_recipe_and_budget(size):
    rows = load_definition("scoreboard").rows
    settings = [row.experiment_at(size).settings for row in rows]

    def shared(each):
        data = each["data"]["init_args"]
        words = data["vocabulary"]["init_args"]
        special = 2 + words.get("masks", False) + words.get("starts", False)
        steps = data["corpus"].get("init_args", {}).get("steps", [])
        most = [step["init_args"]["most"] for step in steps if step["class_path"].endswith("FirstDocuments")]
        recipe = [each["model"]["init_args"][name] for name in ("optimizer", "scheduler")]
        course = [each["trainer"][name] for name in ("max_epochs", "gradient_clip_val")]
        sizes = [data["tokens_per_batch"], data.get("max_documents", next(iter(most), None))]
        return [
            data["corpus"]["class_path"],
            words["max_size"] - special,
            recipe,
            course,
            sizes,
            each["seed_everything"],
        ]

    assert shared(settings[0])[:2] == ["depgen.data.corpora.Brown", 10_000]
    for row, each in zip(rows, settings, strict=True):
        assert shared(each) == shared(settings[0]), row.name


def rows_of(table, size, *, base):
    """The settings of a table's rows that are made from one experiment, by name."""
    rows = [row for row in load_definition(table).rows if row.experiment == base]
    return {row.name: row.experiment_at(size).settings for row in rows}


@pytest.mark.parametrize("size", ["small", "paper"])
def test_sizes_of_wikinews_have_as_many_steps_and_the_vocabulary_of_the_whole(size):
    rows = list(rows_of("udgn_table9", size, base="udgn_wikinews").values())
    whole = rows[-1]["data"]["init_args"]
    assert whole["vocabulary"]["init_args"]["corpus"] == whole["corpus"]
    for settings, times in zip(rows, (8, 4, 2, 1), strict=True):
        trainer, data = settings["trainer"], settings["data"]["init_args"]
        assert trainer["max_epochs"] == times * rows[-1]["trainer"]["max_epochs"]
        assert trainer.get("check_val_every_n_epoch", 1) == times, "validated as often"
        assert times * data["max_documents"] == whole["max_documents"]
        assert data["vocabulary"] == whole["vocabulary"]


AUTHORS_CODE = Path("experiments/presets/dclm_code2015.yaml")


@pytest.mark.parametrize(
    ("name", "own"),
    [("ccdclm", {}), ("adclm", {"variant": "code2015"}), ("hrnnlm", {"output_bias": False})],
)
def test_one_preset_is_the_code_of_2015(name, own, capsys):
    """It changes no class, and beside it two contexts have a setting of their own."""
    options = [f"--model.init_args.context.init_args.{key}={value}" for key, value in own.items()]
    experiment = Experiment(Path(f"experiments/{name}_brown.yaml"), "small")
    assert main(["fit", *experiment.arguments, "--config", str(AUTHORS_CODE), *options, "--print_config"]) == 0
    found = dict(leaves(yaml.safe_load(capsys.readouterr().out)))
    wanted = dict(leaves(experiment.settings)) | dict(leaves(yaml.safe_load(AUTHORS_CODE.read_text())))
    wanted |= {("model", "init_args", "context", "init_args", key): value for key, value in own.items()}
    assert {key: found[key] for key in wanted} == wanted
