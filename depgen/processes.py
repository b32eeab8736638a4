"""Which of a run's processes this one is, and whether the one that started it is still alive."""

import os

PARENT = "DEPGEN_PARENT"
"""The variable by which a command of depgen gives another one its process id."""
SECONDS_BETWEEN_LOOKS = 1.0


def process_rank() -> int:
    """This process's number within a distributed run; 0 is the first, or the only one.

    The variables are read in Lightning's order: within an interactive SLURM shell, those of a launched process hold.
    """
    for variable in ("RANK", "LOCAL_RANK", "SLURM_PROCID"):
        if os.environ.get(variable, "").isdigit():
            return int(os.environ[variable])
    return 0


def end_with_parent() -> None:
    """Start a thread that ends this process by SIGTERM once the command of depgen that started it is gone.

    Without effect in a process that no other command started. The variable is removed, so that processes that this one
    starts do not take it for theirs.
    """
    parent = os.environ.pop(PARENT, "")
    if not parent.isdigit():
        return
    import signal
    import threading
    import time

    def watch() -> None:
        while os.getppid() == int(parent):
            time.sleep(SECONDS_BETWEEN_LOOKS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
