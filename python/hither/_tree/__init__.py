"""Trees, branches, ROOT files and datasets."""
