"""Trained systems as networks that parse by probabilities of heads: one alone, or the consensus of several."""

import logging
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from depgen.errors import UserError
from depgen.evaluation.trained import Trained
from depgen.language_models.masked import HeadNetwork
from depgen.locations import lines_sha256
from depgen.nn.precise import precise
from depgen.training.configurations import differences
from depgen.training.experiment import settings_of

logger = logging.getLogger(__name__)


class Consensus(nn.Module):
    """A network in evaluation mode whose probabilities of heads are the means of its members'.

    Args:
        networks: the members, which read the same token ids.
    """

    def __init__(self, networks: Sequence[HeadNetwork]) -> None:
        super().__init__()
        self.networks = tuple(networks)
        self.members = nn.ModuleList(cast(Sequence[nn.Module], networks))  # gives the device
        self.eval()

    def head_probabilities(
        self, tokens: Int[Tensor, "batch length"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch dependents heads"]:
        """The means in float64, which leave no room for the order of the members."""
        return torch.stack([precise(each.head_probabilities(tokens, lengths)) for each in self.networks]).mean(0)


def network_of(systems: Sequence[Trained]) -> HeadNetwork:
    """The network of a system that parses, or the consensus of several.

    Raises:
        UserError: one does not parse, or another one than the first has another class of network or vocabulary, or
            only one of them has learnt from trees.
    """
    first, *others = systems
    network, *members = map(parser_of, systems)
    if not others:
        return network
    for each in others:
        for expected, found in zip(_kinds(first), _kinds(each), strict=True):
            if expected != found:
                raise UserError(
                    f"{each.checkpoint}: expected {expected}, as in {first.checkpoint}, found {found}. A consensus is "
                    "of runs that differ in their seed alone: leave out one of the two."
                )
    for each in others:
        _log_other_settings(first.run, each.run)
    return Consensus([network, *members])


@cache
def _log_other_settings(run: Path, other: Path) -> None:
    """Say once which settings of two runs differ, besides seeds."""
    paths = [each / "config.yaml" for each in (run, other)]
    if not all(path.is_file() for path in paths):
        return
    named = [
        f"{each.name} {each.given} / {each.held}"
        for each in differences(*map(settings_of, paths))
        if "seed" not in each.name
    ]
    if named:
        logger.warning(
            "The consensus is of runs that differ in more than their seed: %s (%s / %s).", ", ".join(named), run, other
        )


def _kinds(trained: Trained) -> Iterator[str]:
    """What all members of a consensus share."""
    yield f"a {type(trained.model).__name__}"
    yield f"heads that were learnt {'from' if trained.model.learns_from_trees else 'without'} trees"
    vocabulary = trained.vocabulary
    yield f"vocabulary {lines_sha256([vocabulary.to_json()])[:12]} of {vocabulary.size:,} types"


def parser_of(trained: Trained) -> HeadNetwork:
    """A run's system as a network that parses.

    Raises:
        UserError: it is none.
    """
    network: object = trained.model
    if not isinstance(network, HeadNetwork):
        raise UserError(
            f"{trained.checkpoint} holds a {type(network).__name__}, which does not parse by probabilities of heads: "
            "take a run of UDGN, StructFormer or a masked Transformer."
        )
    return network
