"""Run folders, phases, checkpoints, guards, optimisers and schedules."""
