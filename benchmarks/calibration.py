"""Show what a calibration brings to requests that it was not fitted with, on unknown servers.

    python benchmarks/calibration.py FOLDER ... [--embedder MODEL --vectors FOLDER]

FOLDER is a set as `everyday.py --columns` takes it. Its requests are asked as the queries of
`discovery tune calibrate` are, also those that nothing serves; the figures are those of half of
them by a confidence that was fitted with the other half, both ways. MODEL is as in `embedding.py`:
that of another author shows what a foreign embedder gains.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import everyday

from discovery_engine.config.settings import SearchSettings
from discovery_engine.evaluation.calibration import Asker, CalibrationReport, judged
from discovery_engine.evaluation.queries import Query
from discovery_engine.search.examples.book import OWN_EXAMPLES
from discovery_engine.tools.model import ToolKey


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--embedder", help="a model's folder, or minilm:FOLDER of its weights")
    parser.add_argument("--vectors", type=Path, default=Path("vectors"), help="where they are kept")
    options = parser.parse_args()
    embedding = (
        everyday.embedding_of(options.embedder, options.vectors) if options.embedder else None
    )
    for folder in options.folders:
        catalog, descriptions = everyday.read_catalog("", with_examples=False, folder=folder)
        asked = everyday.Asked(catalog, descriptions, OWN_EXAMPLES, embedding)
        asker = Asker(asked.searcher, asked.vectors)
        samples = []
        served = 0
        for request in everyday.lines(folder / "requests.jsonl"):
            text, right = request["query"], [ToolKey(*key) for key in request["relevant"]]
            served += bool(right)
            similar = embedding.compare(asked.vectors, text) if embedding else None
            samples += asker.samples(Query(text, text, tuple(right)), similar)
        report, _ = judged(
            CalibrationReport(served, "queries"), samples, asked.searcher, SearchSettings()
        )
        print(f"\n{folder.name}, {options.embedder or 'words'}: {report.problem or 'better'}")
        for change in report.figures:
            before, after = (
                f"{x:6.1%}" if x is not None else "     -" for x in (change.before, change.after)
            )
            print(f"{change.figure:24s} {before} to {after} of {change.count}")


if __name__ == "__main__":
    main()
