"""The runs of toys, which the contract trains as those of systems."""

from tests.fixtures.kinds import ADAM, SENTENCES, TRANSFORMER, Settings, experiment, text

GRAPHS = {"class_path": "tests.toys.graph_lm.NearGraphs"}
GRAPH_LM = {"backbone": TRANSFORMER, "beam_size": 2, "optimizer": ADAM}

TOYS: dict[str, Settings] = {
    "toy_of_graphs": experiment(
        {"class_path": "tests.toys.graph_lm.GraphLM", "init_args": GRAPH_LM},
        text(corpus=SENTENCES, annotator=GRAPHS),
        2,
    ),
}
