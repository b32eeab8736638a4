"""A trained backbone as a model that the `transformers` library loads."""

import logging
from pathlib import Path

from depgen.backbones.pretrained import PretrainedTransformer
from depgen.data.vocabulary import TOKENIZER_FILE
from depgen.errors import UserError
from depgen.evaluation.trained import load_trained
from depgen.language_models.left_to_right import LeftToRight
from depgen.models.causal_lm import CausalLM

logger = logging.getLogger(__name__)


def export_pretrained(*, to: Path, run: str | None = None) -> str:
    """Write a run's backbone so that `AutoModelForCausalLM.from_pretrained` loads it, and its tokenizer.

    Args:
        to: the folder to write, which must be empty if it is there.
        run: a run folder (its best checkpoint) or a checkpoint file; by default the newest run.

    Raises:
        UserError: no such run, a backbone that is not the library's, or a folder that holds something.
    """
    check_empty(to)
    trained = load_trained(run, device="cpu")
    model = trained.model
    if not isinstance(model, LeftToRight) or not isinstance(model.backbone, PretrainedTransformer):
        kind = type(model.backbone if isinstance(model, LeftToRight) else model).__name__
        raise UserError(f"{trained.checkpoint} is a {kind}, which transformers can't load: only its own networks are.")
    if not isinstance(model, CausalLM):
        logger.warning(
            "What %s adds to its backbone is left out: transformers has no such model.", type(model).__name__
        )
    eos = trained.vocabulary.eos
    model.backbone.save(to, eos=eos)
    (to / TOKENIZER_FILE).write_text(trained.vocabulary.tokenizer, encoding="utf-8")
    if trained.vocabulary.splits_words:
        from transformers import PreTrainedTokenizerFast

        specials = trained.vocabulary.specials
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=str(to / TOKENIZER_FILE),
            bos_token=specials["eos"],
            eos_token=specials["eos"],
            unk_token=specials.get("unk"),
        )
        tokenizer.save_pretrained(to)
    return f"model\t{to.absolute()}"


def check_empty(folder: Path) -> None:
    """Raises UserError where a folder to be written holds something already, or is a file.

    Args:
        folder: which may not exist.

    Raises:
        UserError: it holds something.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder.absolute()} holds something already: name a folder that is empty or not there yet.")
