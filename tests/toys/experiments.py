"""The runs of toys, which the contract trains as those of systems."""

from tests.fixtures.kinds import ADAM, GOLD, SENTENCES, TRANSFORMER, Settings, experiment, named, text

GRAPHS = {"class_path": "tests.toys.graph_lm.NearGraphs"}
GRAPH_LM = {"backbone": TRANSFORMER, "beam_size": 2, "optimizer": ADAM}
BOTH_SIDES = named("backbones.transformer.Transformer", **{**TRANSFORMER["init_args"], "layers": 1, "causal": False})
LEVELS = {"backbone": BOTH_SIDES, "optimizer": ADAM}
SPLITS = ["train", "valid", "test"]
LEVEL_DATA = {
    "corpus": SENTENCES, "annotator": GOLD, "trees_for": SPLITS, "vocabulary_splits": SPLITS,
    "vocabulary": {"class_path": "tests.toys.level_writer.LevelWords"}, "tokens_per_batch": 400,
}  # fmt: skip

TOYS: dict[str, Settings] = {
    "toy_of_graphs": experiment(
        {"class_path": "tests.toys.graph_lm.GraphLM", "init_args": GRAPH_LM},
        text(corpus=SENTENCES, annotator=GRAPHS),
        2,
    ),
    "toy_of_levels": experiment(
        {"class_path": "tests.toys.level_writer.LevelWriter", "init_args": LEVELS},
        {"class_path": "tests.toys.level_writer.LevelData", "init_args": LEVEL_DATA},
        2,
    ),
}
