"""The talk's query with uproot: both columns as NumPy arrays, then the cut.

    python -m bench.peers.draw.uproot_read URL SOURCE WARM_UP_FILE

SOURCE is `default` (uproot's default: fsspec), or the name of a class in uproot (HTTPSource,
XRootDSource); or a way to read through hither: `hither`, `hither filesystem`, and the latter with
uproot configured not to join ranges over gaps. Imports are not timed, nor is a first read of a
small local file, which loads what is loaded late.
"""

import json
import sys
import time

OF_HITHER = ("hither", "hither filesystem", "hither filesystem, gaps left out")


def query(uproot, url: str, options: dict) -> tuple[int, float, float]:
    with uproot.open(url, **options) as file:
        arrays = file["T"].arrays(["rawtr", "E33"], library="np")
    values = arrays["rawtr"][arrays["E33"] > 5].astype("f8")
    return len(values), float(values.mean()) if len(values) else 0.0, float(values.std()) if len(values) else 0.0


def through_hither(source: str, url: str) -> tuple[str, dict]:
    """URL and options for uproot."""
    import hither

    options = {"client": hither.Client(store=False, anonymous=True)}
    if source == "hither":
        import hither.uproot

        return url, {**options, "handler": hither.uproot.Source}
    import hither.fsspec

    if source == OF_HITHER[2]:
        from uproot.source.coalesce import CoalesceConfig

        options["coalesce_config"] = CoalesceConfig(max_range_gap=0)
    return f"hither{url}", options


def main() -> None:
    url, source, warm_up = sys.argv[1:4]
    import uproot

    options = {} if source == "default" or source in OF_HITHER else {"handler": getattr(uproot, source)}
    if source in OF_HITHER:
        url, options = through_hither(source, url)
    elif url.startswith("root:"):
        import fsspec_xrootd  # noqa: F401
        import XRootD.client  # noqa: F401
    elif source == "default":
        import aiohttp  # noqa: F401
        import fsspec.implementations.http  # noqa: F401
    query(uproot, warm_up, {})

    started = time.monotonic()
    selected, mean, stddev = query(uproot, url, options)
    seconds = time.monotonic() - started
    answer = {"seconds": seconds, "selected": selected, "mean": mean, "stddev": stddev}
    if source in OF_HITHER:
        answer["report"] = {**options["client"].report.as_dict(), "seconds": seconds}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
