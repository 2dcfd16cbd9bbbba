"""The tuner of `hither cp`: its settings beside the best fixed ones, and paths that it shares."""
