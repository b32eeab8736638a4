"""Which of a run's processes this one is, before any of them has met the others."""

import os


def process_rank() -> int:
    """This process's number within a distributed run; 0 is the first, or the only one.

    The variables are read in Lightning's order: within an interactive SLURM shell, those of a launched process hold.
    """
    for variable in ("RANK", "LOCAL_RANK", "SLURM_PROCID"):
        if os.environ.get(variable, "").isdigit():
            return int(os.environ[variable])
    return 0
