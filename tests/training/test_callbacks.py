import pytest

from depgen.errors import UserError
from depgen.training.callbacks import InitialWeights
from depgen.training.checkpoints import load_checkpoint
from depgen.training.runs import read_record
from tests.training.fits import fit, same
from tests.training.tiny import TinyModel


def test_a_training_begins_with_the_weights_of_another_run(tmp_path):
    class See(InitialWeights):
        def on_train_start(self, trainer, model):
            self.seen = {name: value.clone() for name, value in model.state_dict().items()}

    fit(tmp_path / "first")
    begin = See(tmp_path / "first" / "best.ckpt")
    fit(tmp_path / "second", begin)
    assert same(begin.seen, load_checkpoint(tmp_path / "first" / "best.ckpt")["state_dict"])
    with pytest.raises(UserError, match=r"are of another system: .*size mismatch"):
        fit(tmp_path / "third", InitialWeights(begin.checkpoint), model=TinyModel(3, width=9))


def test_a_record_counts_parameters_and_steps(tmp_path):
    trainer, model = fit(tmp_path / "checkpoints")
    record = read_record(tmp_path)
    assert record["parameters"] == sum(each.numel() for each in model.parameters())
    assert record["steps"] == trainer.global_step
    assert record["finished"]
