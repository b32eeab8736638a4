from types import SimpleNamespace
from unittest.mock import Mock

import lightning as L
import pytest
import torch

from depgen.cli import main
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.trees.attention import sentence_attention
from depgen.locations import results_root
from depgen.reporting.jobs import Job, fit
from depgen.reporting.pictures import attention
from depgen.reporting.pictures.attention import AttentionPicture, attention_figure, draw_attention
from depgen.reporting.table import load_definition

VOCABULARY = Vocabulary.of_words(["red", "figures", "fall", "."])


class Attends(L.LightningModule):
    """Looks at the latest token only, and remembers what it was asked."""

    mixing_layer = None

    def dependency_attention(self, tokens, *, eos):
        assert not self.training
        self.asked = (list(tokens), eos)
        return torch.eye(len(tokens))


class Loaded:
    """What is loaded of a run."""

    def attention(self, sentence, **options):
        tokens = options.pop("tokens")
        assert options == {"layer": None, "attention_head": None}
        words = sentence.replace(".", " .").split() if tokens == "rules" else sentence.split()
        return sentence_attention(Attends(), VOCABULARY, words)


def drawn(figure):
    (axes, _) = figure.axes
    labels = [[tick.get_text() for tick in ticks] for ticks in (axes.get_yticklabels(), axes.get_xticklabels())]
    return *labels, axes.images[0].get_array()


def test_rows_are_the_predicted_tokens_and_columns_what_they_see():
    model = Attends().train()
    attention = sentence_attention(model, VOCABULARY, ["red", "figures", "fall", "."])
    assert model.asked == ([2, 3, 4, 5], 0)
    assert model.training
    rows, columns, values = drawn(attention_figure(attention))
    assert rows == ["red", "figures", "fall", "."]
    assert columns == ["BOS", "red", "figures", "fall"]
    assert values[2, 2] == 1.0
    assert values.mask.sum() == 6  # nothing is drawn over tokens that come later


def test_unknown_words_are_marked():
    attention = sentence_attention(Attends(), VOCABULARY, ["blue", "figures"])
    rows, columns, _ = drawn(attention_figure(attention))
    assert rows == ["blue (unk)", "figures"]
    assert columns == ["BOS", "blue (unk)"]


def test_models_without_such_attention_and_empty_sentences_are_refused():
    with pytest.raises(UserError, match="LightningModule has no dependency attention"):
        sentence_attention(L.LightningModule(), VOCABULARY, ["red"], kind="dependency")
    with pytest.raises(UserError, match="no token"):
        sentence_attention(Attends(), VOCABULARY, [])


@pytest.mark.slow
def test_the_picture_is_written_in_the_format_of_its_name(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(attention, "load", lambda run, **_: Loaded())
    text = draw_attention("some/run", "red blue .", output=tmp_path / "deep" / "a.png")
    assert (tmp_path / "deep" / "a.png").read_bytes().startswith(b"\x89PNG")
    draw_attention("some/run", "red blue .", output=tmp_path / "a.svg")
    drawn = (tmp_path / "a.svg").read_text()
    assert all(f"{label}</text>" in drawn for label in ("predicted token", "context", "weight of the context token"))
    assert text.endswith("dependency attention over 3 predictions. 1 of its 3 tokens are unknown to the model.")
    command = ["attention", "--run", "some/run", "--sentence", "red blue.", "--output", str(tmp_path / "b.svg")]
    for tokens, words in (("whitespace", 2), ("rules", 3)):
        assert main([*command, "--tokens", tokens]) == 0
        assert f"over {words} predictions" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"ends in \.png, \.pdf or \.svg"):
        draw_attention("some/run", "red", output=tmp_path / "a.jpg")


@pytest.mark.slow
def test_a_row_of_a_table_is_drawn_by_its_trained_run(depgen, tmp_path, monkeypatch):
    drawn = []

    def load(run, **_):
        drawn.append(run)
        return Loaded()

    monkeypatch.setattr(attention, "load", load)
    with pytest.raises(UserError, match=r"DM-Base of toy .*depgen reproduce toy --row DM-Base --size"):
        draw_attention(table="toy", row="DM-Base", size="small", output=tmp_path / "a.png")
    definition = load_definition("toy")
    run = fit(Job(definition, definition.row("DM-Base"), "small", 2), depgen).run
    draw_attention(table="toy", row="DM-Base", size="small", output=tmp_path / "a.png")
    assert drawn == [str(run)]
    draw_attention(table="toy", row="DM-Base", size="small")
    assert (results_root() / "toy/attention-DM-Base.png").is_file()
    with pytest.raises(UserError, match="name one of them"):
        draw_attention("some/run", table="toy")
    for option in ("row", "size"):
        with pytest.raises(UserError, match=r"--row and --size .*name the --table"):
            draw_attention("some/run", **{option: "small"})


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(UserError, match=r"depgen\[plots\]"):
        attention_figure(sentence_attention(Attends(), VOCABULARY, ["red"]))


def trainer_at(tmp_path, epoch, **changes):
    values = {
        "sanity_checking": False,
        "is_global_zero": True,
        "current_epoch": epoch,
        "log_dir": str(tmp_path),
        "loggers": [],
        "datamodule": SimpleNamespace(vocabulary=VOCABULARY),
    }
    trainer = Mock(spec=L.Trainer)
    trainer.configure_mock(**(values | changes))
    return trainer


def test_the_callback_draws_every_k_epochs(tmp_path):
    callback = AttentionPicture("red figures fall .", every_n_epochs=2)
    for epoch in range(4):
        callback.on_validation_end(trainer_at(tmp_path, epoch), Attends())
    callback.on_validation_end(trainer_at(tmp_path, 4, sanity_checking=True), Attends())
    callback.on_validation_end(trainer_at(tmp_path, 4, is_global_zero=False), Attends())
    assert sorted(path.name for path in (tmp_path / "attention").iterdir()) == ["epoch-0000.png", "epoch-0002.png"]


def test_the_callback_logs_to_wandb_where_there_is_one(tmp_path, monkeypatch):
    from lightning.pytorch.loggers import WandbLogger

    logged = []
    monkeypatch.setattr(WandbLogger, "__init__", lambda self: None)
    monkeypatch.setattr(WandbLogger, "log_image", lambda self, key, images: logged.append((key, len(images))))
    AttentionPicture("red").on_validation_end(trainer_at(tmp_path, 0, loggers=[WandbLogger()]), Attends())
    assert logged == [("attention", 1)]
    assert not (tmp_path / "attention").exists()


def test_the_callback_refuses_before_training(tmp_path):
    with pytest.raises(UserError, match=r"leave the callback out of trainer\.callbacks"):
        AttentionPicture().setup(trainer_at(tmp_path, 0), L.LightningModule(), "fit")
    with pytest.raises(UserError, match="at least 1"):
        AttentionPicture(every_n_epochs=0)
