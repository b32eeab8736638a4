"""The spaCy component: `nlp.add_pipe("depgen_parser", config={"run": "udgn_ptb"})`.

spaCy finds it by itself where depgen is installed, and imports this module with any pipeline: it imports no more than
spaCy before a parser is made.
"""

from typing import Any

from spacy.language import Language


def _parser(run: str | None, device: str | None, form: Any) -> Any:  # noqa: ANN401, imported where it is used
    from depgen.evaluation.system import load
    from depgen.integrations.spacy_parser import Parser

    return Parser(load(run, device=device, form=form))


# A lambda, because spaCy looks for the arguments `nlp` and `name`, which a decorator of a function hides.
make_parser = Language.factory(
    "depgen_parser",
    assigns=["token.head", "token.dep", "token.is_sent_start"],
    default_config={"run": None, "device": None, "form": None},
    func=lambda nlp, name, run, device, form: _parser(run, device, form),
)
"""The component's factory; its settings are arguments of `depgen.load`."""
