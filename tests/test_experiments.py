"""Every experiment parses, its model and data are built, and it differs from its small twin in sizes alone.

One step on invented data is taken by `STEPPED`: one experiment of each combination of system, backbone, context and
data module, and further ones until every class that any experiment names has been in a step. For all other experiments
the parser of the command line reads the YAML (every option's name and type), and the classes named under
`model` and `data` are built from it (every check of a constructor). What their step would run beyond that is code that
a stepped experiment runs with other sizes.
"""

import gc
import os
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from jsonargparse import ArgumentParser, Namespace
from lightning import LightningDataModule, LightningModule

from depgen.annotation.train_parser import train_parser
from depgen.annotation.training import Treebank
from depgen.cli import main
from depgen.cli.run_cli import RunCLI
from depgen.reporting.definition import load_definition
from depgen.reporting.experiments import experiment_path
from tests.annotation.conftest import tiny_spacy, tiny_supar
from tests.invented_data import write_corpora
from tests.invented_models import write_gpt2, write_udgn_run
from tests.invented_similarity import write_similarity

NOT_FITTED = ("parser_", "parsing_", "correlations_", "union_", "bracketing_", "scoring_", "coherence_")
"""Experiments of verbs of their own."""
EXPERIMENTS = sorted(path for path in Path("experiments").glob("*.yaml") if not path.stem.startswith(NOT_FITTED))
SIZES = {
    "layers", "width", "embedding_size", "hidden_size", "attention_heads", "head_size", "feedforward", "max_epochs",
    "dependency_modeling_epochs", "language_modeling_epochs", "tokens_per_batch", "columns", "min_count",
    "warmup_steps",
    "restart_at",  # half of the epochs
    "max_documents",
    "size", "segments_per_batch",
    "path",  # a parser that a laptop trains
    "run",  # another one
    "encoder",  # a run of a laptop's size
}  # fmt: skip
BEGINNINGS = {"pretrained", "tokenizer", "eos_token", "size", "max_length", "lr"}
"""What else differs where the small twin of a pretrained network begins from random weights; its schedule does too."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Invented corpora, a tiny parser and a tiny GPT-2 where experiments look for them."""
    folder = tmp_path_factory.mktemp("place")
    write_corpora(folder / "data")
    write_similarity(folder / "data" / "sts")
    write_gpt2(folder / "models" / "gpt2")
    treebank = {
        split: f"ud_english_ewt/en_ewt-ud-{part}.conllu"
        for split, part in (("train", "train"), ("valid", "dev"), ("test", "test"))
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in ("data", "cache", "runs", "results", "models"):
            patch.setenv(f"DEPGEN_{name.upper()}", str(folder / name))
        invented, parsers = Treebank(name="invented", lowercase=True, **treebank), folder / "cache" / "parsers"
        train_parser(invented, tiny_spacy(steps=4), "ewt")
        train_parser(invented, tiny_supar(steps=2, evaluate_every=2), "ewt_supar")
        for name, other in (("ewt_lowercased", "ewt"), ("wsj_normalized", "ewt"), ("ewt_supar_small", "ewt_supar")):
            shutil.copytree(parsers / other, parsers / name)
        lines = {split: f"ptb.{split}.txt" for split in ("train", "valid", "test")}
        corpus = {"class_path": "depgen.data.text_lines.TextLines", "init_args": {"folder": "ptb", **lines}}
        rows = folder / "runs" / "udgn_table1" / "UDGN"
        write_udgn_run(rows / "small-seed1", corpus=corpus)
        shutil.copytree(rows / "small-seed1", rows / "paper-seed1")
        gc.freeze()  # libraries stay: `cleared` need not look through them
        yield folder
        gc.unfreeze()


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
    """Small experiments first: one of each combination, those that bring a class not seen so far, pretrained ones."""
    found, combinations, classes = [], set(), set()
    settings = {path: yaml.safe_load(path.read_text()) for path in EXPERIMENTS}
    small_first = sorted(EXPERIMENTS, key=lambda path: not path.stem.endswith("_small"))
    for path in sorted(small_first, key=lambda path: -len(classes_in(settings[path]))):
        new = combination(settings[path]) not in combinations or not classes_in(settings[path]) <= classes
        if new or is_pretrained(settings[path]):
            found.append(path)
            combinations.add(combination(settings[path]))
            classes |= classes_in(settings[path])
    return sorted(found)


STEPPED = stepped()


@pytest.fixture
def cleared():
    """A trainer, its model and optimizer refer to each other and wait, large as they are, for a full collection."""
    yield
    gc.collect()


@pytest.mark.usefixtures("cleared")
@pytest.mark.parametrize("path", STEPPED, ids=lambda path: path.stem)
def test_it_takes_a_step(path, place, capsys):
    options = ["--trainer.fast_dev_run", "true", "--trainer.accelerator", "cpu"]
    if "demo" in path.stem:
        options += [f"--data.init_args.corpus.init_args.{split}=8" for split in ("train", "valid", "test")]
    if "encoder" in (data := yaml.safe_load(path.read_text())["data"].get("init_args", {})):
        run = place / "runs" / "udgn_table1" / "UDGN" / "small-seed1" / "udgn"
        shutil.copytree(run, place / "runs" / data["encoder"], dirs_exist_ok=True)
    if "models.udgn" in path.read_text():  # quick: the small twin has the same code
        options += ["--model.init_args.width=16", "--model.init_args.layers=2"]
    if "CorpusVocabulary" in path.read_text():  # of a whole corpus, of which there are a few lines here
        options += ["--data.init_args.vocabulary.init_args.builder.init_args.min_count=1"]
    if "pretrained: gpt2" in path.read_text():
        sizes = {"layers": 2, "width": 16, "attention_heads": 2}
        options += [f"--model.init_args.backbone.init_args.{name}={size}" for name, size in sizes.items()]
    assert main(["fit", "--config", str(path), *options]) == 0, capsys.readouterr().err


@pytest.fixture(scope="module")
def parser_of_fit(place):
    """The parser of `depgen fit`, which is made once for all files."""
    parsers, extend = [], RunCLI.add_arguments_to_parser
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            RunCLI, "add_arguments_to_parser", lambda cli, parser: parsers.append(parser) or extend(cli, parser)
        )
        assert main(["fit", "--config", str(EXPERIMENTS[0]), "--print_config"]) == 0
    (parser,) = parsers
    return parser


@pytest.fixture(scope="module")
def classes():
    """A parser of the two sections whose classes an experiment names: it builds these alone, without a trainer."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(LightningModule, "model")
    parser.add_subclass_arguments(LightningDataModule, "data")
    return parser


@pytest.mark.parametrize("path", sorted({*EXPERIMENTS} - {*STEPPED}), ids=lambda path: path.stem)
def test_it_parses_and_its_classes_can_be_built(path, parser_of_fit, classes):
    read = parser_of_fit.parse_args(["--config", str(path)])
    read.model.init_args.vocabulary_size = 50  # that of the data, which are not read here
    with torch.device("meta"):  # weights without values
        built = classes.instantiate_classes(Namespace(model=read.model, data=read.data))
    settings = yaml.safe_load(path.read_text())
    for name in ("model", "data"):
        kind = type(getattr(built, name))
        assert f"{kind.__module__}.{kind.__name__}" == settings[name]["class_path"]


def leaves(settings, prefix=()):
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from leaves(value, (*prefix, name))
        else:
            yield (*prefix, name), value


PAIRS = [path for path in EXPERIMENTS if path.with_name(f"{path.stem}_small.yaml") in EXPERIMENTS]


@pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.stem)
def test_its_small_twin_differs_in_sizes_alone(path):
    large = dict(leaves(yaml.safe_load(path.read_text())))
    small = dict(leaves(yaml.safe_load(path.with_name(f"{path.stem}_small.yaml").read_text())))
    assert large.keys() == small.keys()
    changed = {name for name, value in large.items() if small[name] != value}
    pretrained = large.get(("model", "init_args", "backbone", "init_args", "pretrained")) is not None
    if pretrained:
        changed.discard(("model", "init_args", "scheduler", "class_path"))
    rate, width = ("model", "init_args", "optimizer", "init_args", "lr"), masked_width(large)
    if width is not None and rate in changed:  # of masked language models it goes with 1 / sqrt(width)
        assert small[rate] == pytest.approx(large[rate] * (width / masked_width(small)) ** 0.5)
        changed.discard(rate)
    assert {name[-1] for name in changed} <= (SIZES | BEGINNINGS if pretrained else SIZES)


def masked_width(settings):
    """The width of UDGN or one of its baselines; None for every other system."""
    systems = ("udgn.UDGN", "structformer.StructFormer", "masked_transformer.MaskedTransformer")
    if not settings.get(("model", "class_path"), "").endswith(systems):
        return None
    arguments = ("model", "init_args")
    return settings.get((*arguments, "width"), settings.get((*arguments, "backbone", "init_args", "width")))


BASES = {
    "transformer_rocstories": [
        f"dmlm_rocstories{variant}" for variant in ("", "_left_chain", "_random_trees", "_logit")
    ],
    "awd_lstm_rocstories": ["dmlm_rocstories_lstm", "dmlm_rocstories_lstm_left_chain"],
    "awd_lstm_ptb": ["dmlm_ptb_lstm", "dmlm_ptb_lstm_left_chain"],
    "awd_lstm_news": ["dmlm_news_lstm"],
    "transformer_ptb": ["dmlm_ptb"],
    "transformer_ptb_lines": [
        f"dmlm_ptb_{kind}_lines" for kind in ("gold", "silver", "induced", "left_chain", "restart")
    ],
    "transformer_news": ["dmlm_news"],
    "transformer_wikinews": ["dmlm_wikinews"],
    "transformer_ewt": [
        f"dmlm_ewt_{kind}" for kind in ("gold", "spacy", "supar", "left_chain", "random_trees", "relations", "gate")
    ],
    "transformer_brown": ["dmlm_brown"],
    "awd_lstm_brown": ["dmlm_lstm_brown"],
    "gpt2_brown": ["dmlm_gpt2_brown"],
    **{f"gpt2_{corpus}": [f"dmlm_{corpus}_gpt2"] for corpus in ("rocstories", "ptb", "news")},
}


@pytest.mark.parametrize("suffix", ["", "_small"])
@pytest.mark.parametrize(("base", "twin"), [(base, twin) for base, twins in BASES.items() for twin in twins])
def test_a_base_and_its_twin_share_backbone_optimiser_budget_and_vocabulary(base, twin, suffix):
    base = yaml.safe_load(Path(f"experiments/{base}{suffix}.yaml").read_text())
    other = yaml.safe_load(Path(f"experiments/{twin}{suffix}.yaml").read_text())
    for name in ("backbone", "regularizer", "optimizer", "scheduler"):
        assert base["model"]["init_args"].get(name) == other["model"]["init_args"].get(name)
    assert base["trainer"] == other["trainer"]
    assert base["data"]["class_path"] == other["data"]["class_path"]
    for name in ("corpus", "vocabulary", "tokens_per_batch", "columns", "bptt", "max_documents"):
        assert base["data"]["init_args"].get(name) == other["data"]["init_args"].get(name)
    epochs = [other["model"]["init_args"][f"{phase}_epochs"] for phase in ("dependency_modeling", "language_modeling")]
    assert sum(epochs) == base["trainer"]["max_epochs"]


@pytest.mark.parametrize("suffix", ["", "_small"])
def test_masked_language_models_share_data_and_budget_and_the_baselines_their_backbone(suffix):
    names = ("udgn", "structformer", "masked_transformer")
    udgn, structformer, transformer = (
        yaml.safe_load(Path(f"experiments/{name}_ptb{suffix}.yaml").read_text()) for name in names
    )
    assert udgn["data"] == structformer["data"] == transformer["data"]
    assert udgn["trainer"] == structformer["trainer"] == transformer["trainer"]
    blocks = [dict(leaves(each["model"]["init_args"]["backbone"])) for each in (structformer, transformer)]
    assert dict(blocks[0].items() ^ blocks[1].items()).keys() == {("init_args", "embedding_dropout")}
    for name in ("optimizer", "scheduler"):
        assert structformer["model"]["init_args"][name] == transformer["model"]["init_args"][name]


@pytest.mark.parametrize("profile", ["small", "paper"])
def test_all_rows_of_the_scoreboard_share_corpus_vocabulary_recipe_and_budget(profile):
    rows = load_definition("scoreboard").rows
    settings = [yaml.safe_load(experiment_path(row.experiment, profile=profile).read_text()) for row in rows]

    def shared(each):
        data = each["data"]["init_args"]
        words = data["vocabulary"]["init_args"]
        special = 2 + words.get("masks", False) + words.get("starts", False)
        sentences = data["corpus"].get("init_args", {})
        corpus = sentences.get("corpus", data["corpus"])
        recipe = [each["model"]["init_args"][name] for name in ("optimizer", "scheduler")]
        course = [each["trainer"][name] for name in ("max_epochs", "gradient_clip_val")]
        sizes = [data["tokens_per_batch"], data.get("max_documents", sentences.get("max_documents"))]
        return [corpus, words["max_size"] - special, recipe, course, sizes, each["seed_everything"]]

    assert shared(settings[0])[:2] == [{"class_path": "depgen.data.tagged.TaggedDocuments"}, 10_000]
    for row, each in zip(rows, settings, strict=True):
        assert shared(each) == shared(settings[0]), row.name


def test_rows_of_the_scoreboard_that_another_table_trains_are_its_rows():
    for row in load_definition("scoreboard").rows:
        if row.runs_of is not None:
            table, _, slug = row.runs_of.partition("/")
            assert load_definition(table).row(slug).experiment == row.experiment


VARIANTS = {
    "udgn_ewt": {
        **{f"heads{heads}": {"attention_heads": heads, "head_size": None} for heads in (1, 2, 4, 16)},
        **{f"mask{rate}": {"mask_rate": rate / 100} for rate in (10, 20, 40, 50, 60, 70, 80, 90)},
    },
    "udgn_ptb": {
        "no_gates": {"gates": False},
        "no_competition": {"competition": False},
        "no_relative_bias": {"relative_bias": False},
        "no_nonlinearity": {"nonlinear": False},
        "positions": {"relative_bias": False, "positions": True},
        "kirchhoff": {"marginals": "kirchhoff"},
        "papers_rate": {},
    },
}
"""What UDGN's variants are told otherwise; head sizes follow from the number of heads."""
AT_THE_PAPERS_RATE = ("no_gates", "no_competition", "papers_rate")
"""Variants that do not learn at the small size's, as their files say, and UDGN beside them, which is small alone."""


def test_every_variant_of_udgn_is_listed():
    names = {path.stem.removesuffix("_small") for path in EXPERIMENTS if path.stem.startswith(tuple(VARIANTS))}
    listed = {f"{base}_{variant}" for base, variants in VARIANTS.items() for variant in variants}
    assert names == {*VARIANTS, "udgn_ptb_with_sample", *listed}


@pytest.mark.parametrize(
    ("base", "variant", "suffix"),
    [
        (base, each, suffix)
        for base in VARIANTS
        for each in VARIANTS[base]
        for suffix in (("", "_small") if each != "papers_rate" else ("_small",))
    ],
)
def test_a_variant_differs_from_udgn_in_what_it_is_named_for_alone(base, variant, suffix):
    plain, other, large = (
        yaml.safe_load(Path(f"experiments/{name}.yaml").read_text())
        for name in (f"{base}{suffix}", f"{base}_{variant}{suffix}", base)
    )
    told = dict(VARIANTS[base][variant])
    arguments = plain["model"]["init_args"]
    if "attention_heads" in told:
        told["head_size"] = arguments["attention_heads"] * arguments["head_size"] // told["attention_heads"]
    assert all(arguments.get(name) != value for name, value in told.items())
    if variant in AT_THE_PAPERS_RATE:
        arguments["optimizer"] = large["model"]["init_args"]["optimizer"]
    assert other["model"]["init_args"] == arguments | told
    assert {**other, "model": None} == {**plain, "model": None}


@pytest.mark.parametrize("suffix", ["", "_small"])
def test_with_the_sample_is_udgn_but_for_the_corpus(suffix):
    base, other = (
        yaml.safe_load(Path(f"experiments/udgn_ptb{name}{suffix}.yaml").read_text()) for name in ("", "_with_sample")
    )
    corpus = base["data"]["init_args"]["corpus"] = base["data"]["init_args"]["corpus"]["init_args"]["corpus"]
    assert corpus["init_args"].pop("name") == "PTB"  # as results call it
    assert other["data"]["init_args"]["corpus"]["init_args"].pop("published") == "ptb"
    assert other == base


@pytest.mark.parametrize("suffix", ["", "_small"])
def test_sizes_of_wikinews_have_as_many_steps_and_the_vocabulary_of_the_whole(suffix):
    parts = {"_eighth": 8, "_quarter": 4, "_half": 2, "": 1}
    whole = yaml.safe_load(Path(f"experiments/udgn_wikinews{suffix}.yaml").read_text())
    vocabulary = whole["data"]["init_args"]["vocabulary"]
    assert vocabulary["init_args"]["corpus"] == whole["data"]["init_args"]["corpus"]
    for part, times in parts.items():
        other = yaml.safe_load(Path(f"experiments/udgn_wikinews{part}{suffix}.yaml").read_text())
        assert other["trainer"].pop("max_epochs") == times * whole["trainer"]["max_epochs"]
        assert other["trainer"].pop("check_val_every_n_epoch", 1) == times, "validated as often"
        assert times * other["data"]["init_args"].pop("max_documents") == whole["data"]["init_args"]["max_documents"]
        assert other["data"]["init_args"] == {
            name: value for name, value in whole["data"]["init_args"].items() if name != "max_documents"
        }
        assert other["model"] == whole["model"]
        assert other["trainer"] == {name: value for name, value in whole["trainer"].items() if name != "max_epochs"}


AUTHORS_CODE = Path("experiments/presets/dclm_code2015.yaml")


@pytest.mark.parametrize(
    "path", sorted({*Path("experiments/presets").glob("*.yaml")} - {AUTHORS_CODE}), ids=lambda path: path.stem
)
def test_presets_touch_the_trainer_alone(path):
    assert set(yaml.safe_load(path.read_text())) == {"trainer"}


@pytest.mark.parametrize(
    ("name", "own"),
    [("ccdclm", {}), ("adclm", {"variant": "code2015"}), ("hrnnlm", {"output_bias": False})],
)
def test_one_preset_is_the_code_of_2015(name, own, capsys):
    """It changes no class, and beside it two contexts have a setting of their own."""
    options = [f"--model.init_args.context.init_args.{key}={value}" for key, value in own.items()]
    experiment = f"experiments/{name}_brown_small.yaml"
    assert main(["fit", "--config", experiment, "--config", str(AUTHORS_CODE), *options, "--print_config"]) == 0
    found = dict(leaves(yaml.safe_load(capsys.readouterr().out)))
    wanted = dict(leaves(yaml.safe_load(Path(experiment).read_text()))) | dict(
        leaves(yaml.safe_load(AUTHORS_CODE.read_text()))
    )
    wanted |= {("model", "init_args", "context", "init_args", key): value for key, value in own.items()}
    assert {key: found[key] for key in wanted} == wanted


def test_every_parser_experiment_parses(place):
    for path in sorted(Path("experiments").glob("parser_*.yaml")):
        assert main(["train-parser", "--config", os.fspath(path), "--print_config"]) == 0
