"""Systems in lm_eval (the Language Model Evaluation Harness): `pip install 'depgen[lm-eval]'`.

On the command line, `python -m depgen.integrations.lm_eval_model` takes the arguments of `lm_eval`:

    python -m depgen.integrations.lm_eval_model --model depgen --model_args run=mine --tasks blimp --device cpu

Without `--device`, lm_eval asks for the first GPU.
"""

from typing import Any

from lm_eval.__main__ import cli_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from depgen.errors import UserError
from depgen.evaluation.over_trees import ScoresTrees
from depgen.evaluation.system import load
from depgen.language_models.document import DocumentLanguageModel
from depgen.language_models.left_to_right import LeftToRight
from depgen.language_models.structured import StructuredLanguageModel


@register_model("depgen")
class DepgenLM(LM):  # type: ignore[misc]
    """A system's scores as lm_eval asks for them, by `System.score`: of any system that gives texts a likelihood.

    Texts are words between white space, and each begins after the end of sequence, as in training. A request's
    log-likelihood is the sum over the words that end in its continuation, without the end of the text; a word that
    begins in the context is its continuation's. Of masked systems it is the pseudo-log-likelihood, of GiLT, Pushdown,
    TG and DTG the lower bound. ITEXP gives whole texts a bound over sampled trees, and refuses contexts.

    Args:
        run: what `depgen.load` takes.
        device: cpu, cuda, …; by default a GPU where there is one.
        first_word_space: see `depgen.load`.
        beam_size: (systems whose scores are bounds) structures of a text that are summed over.
        number_of_trees: (ITEXP) sampled for each text.
        parser: (ITEXP) that they are sampled from.
        batch_size, max_batch_size: as lm_eval gives them; not used, since no score depends on the batches.

    Raises:
        UserError: there is no such system.
    """

    def __init__(
        self,
        run: str | None = None,
        *,
        device: str | None = None,
        first_word_space: bool | None = None,
        beam_size: int | None = None,
        number_of_trees: int = 100,
        parser: str = "ewt_supar",
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
    ) -> None:
        super().__init__()
        self.system = load(run, device=device, first_word_space=first_word_space)
        self.beam_size, self.number_of_trees, self.parser = beam_size, number_of_trees, parser

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Log-likelihood of each continuation after its context, and whether its words are the likeliest ones.

        The second is False for systems that do not predict each word from those before it alone.
        """
        return self._scores([request.args for request in requests], progress=not disable_tqdm)

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """Log-likelihood of each text.

        Raises:
            UserError: the system can't read a text of this length.
        """
        scores = self._scores([("", request.args[0]) for request in requests], progress=not disable_tqdm)
        return [log_likelihood for log_likelihood, _ in scores]

    def _scores(self, pairs: list[tuple[str, str]], *, progress: bool) -> list[tuple[float, bool]]:
        system, model = self.system, self.system.model
        texts = [context + continuation for context, continuation in pairs]
        if isinstance(model, ScoresTrees):
            if any(context.strip() for context, _ in pairs):
                raise UserError(
                    f"{type(model).__name__} gives whole texts a probability: take a task without contexts."
                )
            bounds = system.score_over_trees(
                texts, number_of_trees=self.number_of_trees, parser=self.parser, by="document", progress=progress
            )
            return [(bound, False) for bound in bounds["log_prob"].tolist()]
        predicts_next = isinstance(model, LeftToRight | DocumentLanguageModel)
        ranked = predicts_next and not isinstance(model, StructuredLanguageModel)
        words = system.score(
            texts, reads="document" if predicts_next else None, next_words=ranked, beam_size=self.beam_size,
            progress=progress,
        )  # fmt: skip
        last = words.groupby("document").cumcount(ascending=False) == 0
        begins = words["document"].map(dict(enumerate((len(context) for context, _ in pairs), start=1)))
        own = words[(words["end"] > begins) & ~(words["is_end"] & last)]
        sums = own.groupby("document")["log_prob"].sum(skipna=True)
        likeliest = own.groupby("document")["likeliest"].all() if ranked else {}
        numbers = range(1, len(pairs) + 1)
        return [(float(sums.get(number, 0.0)), bool(likeliest.get(number, False))) for number in numbers]

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """A text after each context, cut before the first of the request's stop strings.

        Raises:
            UserError: the system does not write, or has no such option of generation.
        """
        texts = []
        for request in requests:
            context, asked = request.args
            options: dict[str, Any] = dict(asked)
            stops = options.pop("until", [])
            most = options.pop("max_gen_toks", 256)
            if not options.pop("do_sample", False):
                options = {name: value for name, value in options.items() if name not in ("temperature", "top_p")}
                options["greedy"] = True
            (text,) = self.system.generate([context], max_new_tokens=most, **options)["text"]
            ends = [text.find(stop) for stop in ([stops] if isinstance(stops, str) else stops) if stop]
            texts.append(text[: min((end for end in ends if end >= 0), default=None)])
        return texts


if __name__ == "__main__":
    cli_evaluate()
