"""UDGN through the command line: two processes as one, trees that change nothing, trees of another run."""

import csv

import pytest
import torch
import yaml

from depgen.cli import main
from depgen.training.checkpoints import load_checkpoint

pytestmark = pytest.mark.slow

SIZES = {"train": 12, "valid": 4, "test": 4, "sentences": [5, 5]}
DROPOUTS = ("dropout", "attention_dropout", "parser_dropout")


def experiment(**model):
    sizes = {"width": 16, "layers": 2, "attention_heads": 2, "head_size": 8, "parser_layers": 1, "tags": 2}
    plateau = {"factor": 0.5, "patience": 0, "threshold": 10.0, "threshold_mode": "abs"}  # never that much better
    settings = {
        "optimizer": {"class_path": "torch.optim.Adam", "init_args": {"lr": 1e-3, "weight_decay": 1e-6}},
        "scheduler": {"class_path": "torch.optim.lr_scheduler.ReduceLROnPlateau", "init_args": plateau},
        "evaluation_masks": 2,
    }
    corpus = {"class_path": "depgen.data.generated.GeneratedLanguage", "init_args": SIZES}
    words = {"class_path": "depgen.data.vocabulary.WordVocabulary", "init_args": {"masks": True}}
    data = {"corpus": corpus, "vocabulary": words, "tokens_per_batch": 400}
    return {
        "seed_everything": 1,
        "trainer": {"max_epochs": 2, "accelerator": "cpu", "gradient_clip_val": 0.25},
        "model": {"class_path": "depgen.models.udgn.UDGN", "init_args": {**sizes, **settings, **model}},
        "data": {"class_path": "depgen.data.text.TextData", "init_args": data},
    }


def fit(folder, content, *more):
    """Train in a folder; the run."""
    folder.mkdir()
    (folder / "udgn.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPGEN_CACHE", str(folder.parent / "cache"))
        patch.setenv("DEPGEN_RUNS", str(folder / "runs"))
        assert main(["fit", "--config", str(folder / "udgn.yaml"), *more]) == 0
    ((run,),) = (experiment.iterdir() for experiment in (folder / "runs").iterdir())
    return run


def losses(run):
    with (run / "metrics.csv").open(newline="") as stream:
        return [float(row["val/loss"]) for row in csv.DictReader(stream) if row["val/loss"]]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A run without trees."""
    return fit(tmp_path_factory.mktemp("shared") / "plain", experiment())


def with_trees(annotator, **model):
    content = experiment(**model)
    given = {"class_path": f"depgen.annotation.controls.{annotator}"}
    content["data"]["init_args"] |= {"annotator": given, "trees_for": ["train", "valid", "test"]}
    return content


def test_trees_in_the_data_change_neither_weights_nor_selection(tmp_path, plain, capsys):
    other = fit(tmp_path / "gold", with_trees("GoldTrees"))
    assert "UDGN reads sentences, but 12 training documents of " in capsys.readouterr().err
    assert losses(other) == losses(plain)
    for name in ("best.ckpt", "resume.ckpt"):
        whole, found = (load_checkpoint(each / "checkpoints" / name)["state_dict"] for each in (plain, other))
        assert whole.keys() == found.keys()
        assert all(torch.equal(found[key], value) for key, value in whole.items())


def test_two_processes_see_the_loss_of_one(tmp_path):
    """Masks are drawn by sentence. The optimiser is SGD, since Adam would turn rounding into whole steps."""
    content = experiment(**dict.fromkeys(DROPOUTS, 0.0))
    content["model"]["init_args"]["optimizer"] = {"class_path": "torch.optim.SGD", "init_args": {"lr": 1.0}}
    one = losses(fit(tmp_path / "one", content))
    two = losses(fit(tmp_path / "two", content, "--trainer.strategy=ddp_fork", "--trainer.devices=2"))
    assert len(one) == 2
    assert two == pytest.approx(one, abs=1e-4)


def test_messages_along_trees_that_a_run_has_induced(tmp_path, plain):
    """`--parser` is the annotator in words of one option, wherever it stands and whatever the YAML names."""
    content, as_it_is = with_trees("RightChain", mask_from="trees"), "--data.init_args.annotator.init_args.form"
    told = fit(tmp_path / "told", content, as_it_is, "as_is", "--parser", str(plain))
    annotator = yaml.safe_load((told / "config.yaml").read_text())["data"]["init_args"]["annotator"]
    assert annotator["class_path"] == "depgen.evaluation.induced.InducedTrees"
    assert (annotator["init_args"]["run"], annotator["init_args"]["form"]) == (str(plain), "as_is")
    assert losses(told) != losses(plain)
