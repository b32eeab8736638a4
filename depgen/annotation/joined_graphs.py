"""Several graphs of each sentence, as a tree and a semantic graph, for systems that learn from them jointly."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from depgen.errors import UserError
from depgen.locations import lines_sha256
from depgen.trees.annotator import Annotator, Rearranger, Structure, has_self_loops, leaves_out, structure_of
from depgen.trees.graph import check_graph_names, joined_graphs
from depgen.trees.sentence import Edge, Sentence


class JoinedGraphs:
    """Gives each sentence the graphs of several annotators as one, whose labels begin with the name of their graph.

    GiLT's option `graphs` takes the same names and learns from all graphs; without it, it learns from their union. A
    sentence that one annotator leaves out has no graph. A tree is a graph too.

    Args:
        graphs: the annotator of each graph, by the graph's name.

    Raises:
        UserError: there is no annotator, a name is empty or has a `/`, or an annotator gives constituents or gives
            sentences the graphs of one another.

    >>> from depgen.annotation.trivial import GoldTrees, LeftChain
    >>> annotator = JoinedGraphs({"tree": GoldTrees(), "chain": LeftChain()})
    >>> annotator.annotate([Sentence(("good", "dogs"), heads=(2, 0), relations=("amod", "root"))])[0].edges
    ((0, 1, 'chain/root'), (2, 1, 'tree/amod'), (0, 2, 'tree/root'), (1, 2, 'chain/dep'))
    """

    structure: Structure = "graph"

    def __init__(self, graphs: Mapping[str, Annotator]) -> None:
        if not graphs:
            raise UserError("JoinedGraphs: expected names of graphs with their annotators, found none.")
        check_graph_names(list(graphs))
        for name, each in graphs.items():
            if structure_of(each) == "constituency" or isinstance(each, Rearranger):
                raise UserError(
                    f"JoinedGraphs: graphs: {name}: expected an annotator that gives a sentence its own tree or graph, "
                    f"found {type(each).__name__} ({each.scheme})."
                )
        self.graphs = dict(graphs)
        self.leaves_out = any(map(leaves_out, self.graphs.values()))
        self.self_loops = any(map(has_self_loops, self.graphs.values()))
        self.scheme = "; ".join(f"{name}: {each.scheme}" for name, each in self.graphs.items())

    def fingerprint(self) -> str:
        """Of the names and of the annotators."""
        parts = (part for name, each in self.graphs.items() for part in (name, each.fingerprint()))
        return lines_sha256(["joined graphs 1", *parts])

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with the graphs of all annotators.

        Raises:
            SentenceError: an annotator refuses one.
        """
        found = [
            [_edges(each, structure_of(annotator)) for each in annotator.annotate(sentences)]
            for annotator in self.graphs.values()
        ]
        whole = []
        for sentence, *graphs in zip(sentences, *found, strict=True):
            known = [each for each in graphs if each is not None]
            edges = joined_graphs(known, list(self.graphs)) if len(known) == len(graphs) else None
            whole.append(replace(sentence, heads=None, relations=None, edges=edges))
        return whole


def _edges(sentence: Sentence, structure: Structure) -> Sequence[Edge] | None:
    """The edges of a sentence's graph or tree; None where it has none."""
    if structure == "graph":
        return sentence.edges
    if sentence.heads is None or -1 in sentence.heads:
        return None
    relations = sentence.relations or ("_",) * len(sentence)
    return [(head, word, label) for word, (head, label) in enumerate(zip(sentence.heads, relations, strict=True), 1)]
