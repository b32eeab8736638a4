"""Files of GLUE's tasks made on the spot, laid out like the real ones."""

from collections.abc import Iterator
from pathlib import Path

ANIMALS = ("dog", "cat", "owl", "hedgehog")
HEADERS = {
    "RTE": "index\tsentence1\tsentence2\tlabel",
    "SST-2": "sentence\tlabel",
    "MRPC": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
    "STS-B": "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
}


def lines(task: str, count: int) -> Iterator[str]:
    """Examples whose answer is whether, or how much, their sentences are alike; quotes are part of some."""
    for k in range(count):
        same = k % 3 == 0
        first, second = f'The {ANIMALS[k % 4]} sat "there {k}.', f"A {ANIMALS[(k + (not same)) % 4]} sat."
        yield {
            "RTE": f"{k}\t{first}\t{second}\t{'entailment' if same else 'not_entailment'}",
            "SST-2": f"{first.lower()} \t{int(same)}",
            "MRPC": f"{int(same)}\t{k}\t{k + 1}\t{first}\t{second}",
            "STS-B": f"{k}\tnews\tf\t2012\t{k}\tnone\tnone\t{first}\t{second}\t{(k % 11) / 2:.3f}",
        }[task]


def write_glue(folder: Path, *, train: int = 40, dev: int = 9) -> None:
    """Write `train.tsv` and `dev.tsv` of all tasks; one of them with the line ends of Windows."""
    for task, header in HEADERS.items():
        (folder / task).mkdir(parents=True)
        end = "\r\n" if task == "RTE" else "\n"
        for name, count in (("train", train), ("dev", dev)):
            text = end.join([header, *lines(task, count)]) + end
            (folder / task / f"{name}.tsv").write_bytes(text.encode())
