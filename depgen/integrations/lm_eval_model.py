"""Systems in lm_eval (the Language Model Evaluation Harness): `pip install 'depgen[lm-eval]'`.

On the command line, `python -m depgen.integrations.lm_eval_model` takes the arguments of `lm_eval`:

    python -m depgen.integrations.lm_eval_model --model depgen --model_args run=dmlm_rocstories --tasks blimp
"""

from typing import Any

import torch
from jaxtyping import Int
from lm_eval.__main__ import cli_evaluate
from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from depgen.decoding.generation import generate
from depgen.decoding.settings import Sampling
from depgen.errors import UserError
from depgen.evaluation.system import load
from depgen.integrations.next_word_model import NextWordModel, SystemTokenizer


@register_model("depgen")
class DepgenLM(HFLM):  # type: ignore[misc]
    """lm_eval's own model class around a system that predicts words from left to right.

    Args:
        run: what `depgen.load` takes.
        device: cpu, cuda, …; by default a GPU where there is one.
        add_bos_token: whether each text begins with the end of sequence; by default runs have it, as in their training,
            and pretrained models have none, as in lm_eval.
        options: of `HFLM`, such as `batch_size` and `max_length`.

    Raises:
        UserError: there is no such system, or it predicts words from both sides.
    """

    def __init__(
        self,
        run: str | None = None,
        *,
        device: str | None = None,
        add_bos_token: bool | None = None,
        **options: Any,  # noqa: ANN401, of the base
    ) -> None:
        system = load(run, device=device)
        trained_here = (system.checkpoint != system.run) if add_bos_token is None else add_bos_token
        self.begins = trained_here
        super().__init__(pretrained=NextWordModel(system).eval(), tokenizer=SystemTokenizer(system), **options)

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        before, after = super()._encode_pair(context, continuation)
        return ([self.prefix_token_id, *before] if self.begins else before), after

    @torch.inference_mode()
    def _model_generate(
        self,
        context: Int[Tensor, "batch length"],
        max_length: int,
        stop: list[str],
        attention_mask: Int[Tensor, "batch length"] | None = None,
        **options: Any,  # noqa: ANN401, of the task
    ) -> Int[Tensor, "batch longer"]:
        """Contexts, padded at the left, and new tokens after them."""
        assert attention_mask is not None
        rows = [row[seen.bool()].tolist() for row, seen in zip(context, attention_mask, strict=True)]
        end, begin = self.eot_token_id, [self.prefix_token_id] if self.begins else []
        texts = generate(
            self.model.model.drawing_step,
            [[*begin, *row] or [self.prefix_token_id] for row in rows],
            eos=end,
            options=_sampling(**options),
            seeds=torch.randint(2**31, (len(rows),)).tolist(),
            max_new_tokens=max_length - context.size(1),
            batch_size=len(rows),
            device=self.device,
        )
        new = pad_sequence([torch.tensor([*text.ids, end]) for text in texts], batch_first=True, padding_value=end)
        return torch.cat([context, new.to(context)], 1)


def _sampling(
    do_sample: bool = False,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    **others: Any,  # noqa: ANN401, of the task
) -> Sampling:
    if others:
        raise UserError(
            f"Expected do_sample, temperature, top_p and top_k among a task's options of generation, found "
            f"{', '.join(sorted(others))}: leave these out by --gen_kwargs."
        )
    return Sampling(top_p=top_p, temperature=temperature, top_k=top_k) if do_sample else Sampling(greedy=True)


if __name__ == "__main__":
    cli_evaluate()
