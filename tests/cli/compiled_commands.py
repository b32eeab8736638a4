"""Commands of depgen in which `torch.compile` keeps torch's own kernels, so that compiling takes seconds.

Run by `python -m tests.cli.compiled_commands`, without the checks of shapes: compiled functions can't be type-checked.
The arguments are a JSON list of commands; the last line printed is the number of compiled graphs after each.
"""

import json
import sys
from functools import partial

import torch
from torch._dynamo.testing import CompileCounterWithBackend

from depgen.cli import main

if __name__ == "__main__":
    counter = CompileCounterWithBackend("eager")
    torch.compile = partial(torch.compile, backend=counter)
    graphs = []
    for command in json.loads(sys.argv[1]):
        torch._dynamo.reset()  # as in another process
        assert main(command) == 0
        graphs.append(counter.frame_count)
    print(json.dumps(graphs))
