"""UDGN through the command line: killed and gone on with, two processes as one, trees that change nothing, plateaus."""

import csv

import pytest
import torch
import yaml

from depgen.cli import main
from depgen.data.generated import GeneratedLanguage
from depgen.data.vocabulary import encode
from depgen.evaluation.trained import load_trained
from depgen.models.udgn import supervised_nll
from depgen.training.checkpoints import load_checkpoint
from depgen.trees.conllu import write_conllu
from depgen.trees.sentence import Document

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
    """Train in `folder`; its checkpoints."""
    path = folder / "udgn.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    assert main(["fit", "--config", str(path), *more]) == 0
    return checkpoints_in(folder)


def checkpoints_in(folder):
    (found,) = (folder / "runs").rglob("checkpoints")
    return found


def losses(checkpoints):
    with (checkpoints.parent / "metrics.csv").open(newline="") as stream:
        return [float(row["val/loss"]) for row in csv.DictReader(stream) if row["val/loss"]]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to train in, by name."""

    def at(name):
        (tmp_path / name).mkdir()
        monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / name / "runs"))
        return tmp_path / name

    return at


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The checkpoints of a run that several tests compare with: trained once, by the name of its trees' annotator."""
    folder, made = tmp_path_factory.mktemp("shared"), {}

    def of(trees=None):
        if trees not in made:
            content = experiment() if trees is None else along(trees)
            (folder / str(trees)).mkdir()
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("DEPGEN_CACHE", str(folder / "cache"))
                patch.setenv("DEPGEN_RUNS", str(folder / str(trees) / "runs"))
                made[trees] = fit(folder / str(trees), content)
        return made[trees]

    return of


def along(trees):
    """An experiment whose messages pass along given trees."""
    given = {"class_path": f"depgen.annotation.trivial.{trees}"}
    return with_trees(experiment(mask_from="trees"), given, trees_for=["train", "valid", "test"])


def same(one, other, name):
    whole, found = (load_checkpoint(each / name)["state_dict"] for each in (one, other))
    return whole.keys() == found.keys() and all(torch.equal(found[key], value) for key, value in whole.items())


def test_trees_in_the_data_change_neither_weights_nor_selection(place, shared, capsys):
    plain = shared()
    unread = "gives trees that this UDGN does not learn from: take it out"
    assert unread not in capsys.readouterr().err
    content = experiment()
    content["data"]["init_args"] |= {
        "annotator": {"class_path": "depgen.annotation.trivial.GoldTrees"}, "trees_for": ["train", "valid", "test"],
    }  # fmt: skip
    other = fit(place("gold"), content)
    error = capsys.readouterr().err
    assert unread in error
    assert "UDGN reads sentences, but 12 training documents of " in error
    assert losses(other) == losses(plain)
    assert same(plain, other, "best.ckpt")
    assert same(plain, other, "resume.ckpt")


def test_two_processes_see_the_loss_of_one(place):
    """Masks are drawn by sentence. The optimiser is SGD, since Adam would turn rounding into whole steps."""
    content = experiment(**dict.fromkeys(DROPOUTS, 0.0))
    content["model"]["init_args"]["optimizer"] = {"class_path": "torch.optim.SGD", "init_args": {"lr": 1.0}}
    one, two = (
        losses(
            fit(place(f"on{n}"), content, *([] if n == 1 else ["--trainer.strategy=ddp_fork", "--trainer.devices=2"]))
        )
        for n in (1, 2)
    )
    assert len(one) == 2
    assert two == pytest.approx(one, abs=1e-4)


def with_trees(content, annotator, *, trees_for):
    content["data"]["init_args"] |= {"annotator": annotator, "trees_for": trees_for}
    return content


def head_nats(checkpoints, sentence):
    """Of a sentence's heads, by the parser of the best weights."""
    trained = load_trained(checkpoints.parent, device="cpu")
    tokens = torch.tensor([encode(trained.vocabulary, sentence.words).ids.tolist()])
    with torch.inference_mode():
        found = trained.model.head_log_probs(tokens, torch.tensor([len(sentence)]))
    return float(supervised_nll(found, torch.tensor([sentence.heads]))[0])


def test_few_trees_and_much_text(place, tmp_path, capsys):
    """The trees of two sentences of the text, of which the treebank's file is all that is known.

    In steps large and many enough for the parser to leave the uniform distribution that it starts from.
    """

    def of(**model):
        adam = {"class_path": "torch.optim.Adam", "init_args": {"lr": 1e-2}}
        content = experiment(optimizer=adam, **model)
        content["trainer"]["max_epochs"] = 4
        return content

    stories = GeneratedLanguage(**SIZES)
    chosen = list({s.words: s for document in stories.documents("train") for s in document.sentences}.values())[:2]
    write_conllu([Document(tuple(chosen), "few")], tmp_path / "few.conllu")
    treebank = {
        "class_path": "depgen.data.corpora.ConlluTreebank",
        "init_args": {"folder": str(tmp_path), "train": ["few.conllu"], "name": "few"},
    }
    known = {"treebank": treebank, "splits": ["train"], "leave_unknown": True}
    annotator = {"class_path": "depgen.annotation.known_trees.KnownTrees", "init_args": known}
    content = with_trees(of(supervised_weight=1.0), annotator, trees_for=["train"])
    folder = place("few")
    (folder / "udgn.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    assert main(["annotate", "--config", str(folder / "udgn.yaml")]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    every = [sentence.words for document in stories.documents("train") for sentence in document.sentences]
    left = sum(len(words) for words in every if words not in {sentence.words for sentence in chosen})
    assert 0 < left < sum(map(len, every))
    assert f" words ({left:,} without a head); few, its own trees; other sentences: no trees; " in line
    checkpoints = fit(folder, content)
    assert main(["test", "--config", str(folder / "udgn.yaml")]) == 0
    plain = fit(place("plain"), of())
    assert sum(head_nats(checkpoints, each) for each in chosen) < sum(head_nats(plain, each) for each in chosen)


def test_messages_along_trees_that_a_run_has_induced(place, shared, capsys):
    """`--parser` is the annotator in words of one option, wherever it stands and whatever the YAML names."""
    as_it_is = ("--data.init_args.annotator.init_args.form", "as_is")
    parser, chained = shared().parent, shared("RightChain")
    assert losses(chained) != losses(shared())
    capsys.readouterr()
    told = fit(place("told"), along("RightChain"), *as_it_is, "--parser", str(parser))
    annotator = yaml.safe_load((told.parent / "config.yaml").read_text())["data"]["init_args"]["annotator"]
    assert annotator["class_path"] == "depgen.evaluation.trees.induced_trees.InducedTrees"
    assert (annotator["init_args"]["run"], annotator["init_args"]["form"]) == (str(parser), "as_is")
    assert losses(told) != losses(chained)
    for more, said in (
        (
            ["--config", str(told.parent / "config.yaml"), "--data.init_args.annotator", "RightChain"],
            "Give only one of",
        ),
        ([], "--parser needs --config"),
    ):
        assert main(["fit", "--parser", str(parser), *more]) == 2
        assert said in capsys.readouterr().err
    assert main(["test", "--run", str(told.parent), "--parser", str(parser)]) == 2
    assert "depgen test reads by the run's own" in capsys.readouterr().err
