"""uproot's side of the comparison: both columns as NumPy arrays, then the cut.

    python uproot_read.py URL SOURCE WARM_UP_FILE

SOURCE is `default` (uproot's own choice: fsspec), or the name of a class in uproot (HTTPSource, XRootDSource).
Imports are not timed, nor is a first read of a small local file that loads what is loaded late.
"""

import json
import sys
import time


def query(uproot, url: str, options: dict) -> tuple[int, float, float]:
    with uproot.open(url, **options) as file:
        arrays = file["T"].arrays(["rawtr", "E33"], library="np")
    values = arrays["rawtr"][arrays["E33"] > 5].astype("f8")
    return len(values), float(values.mean()) if len(values) else 0.0, float(values.std()) if len(values) else 0.0


def main() -> None:
    url, source, warm_up = sys.argv[1:4]
    import uproot

    options = {} if source == "default" else {"handler": getattr(uproot, source)}
    if url.startswith("root:"):
        import fsspec_xrootd  # noqa: F401
        import XRootD.client  # noqa: F401
    elif source == "default":
        import aiohttp  # noqa: F401
        import fsspec.implementations.http  # noqa: F401
    query(uproot, warm_up, {})

    started = time.monotonic()
    selected, mean, stddev = query(uproot, url, options)
    seconds = time.monotonic() - started
    print(json.dumps({"seconds": seconds, "selected": selected, "mean": mean, "stddev": stddev}))


if __name__ == "__main__":
    main()
