"""Task descriptions, as agents hand them on word for word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from discovery_engine import Decision
from discovery_engine.sync import SyncEngine
from tests.catalogs import opened, tool
from tests.rows import rows

SERVED = {
    "travel/search_flights": """
        I am putting together a short trip for two colleagues who have to attend a workshop in
        Lisbon next month, and the office manager wants a proposal on her desk by Thursday. They
        start from Hamburg, and one of them has a bad back, so long waits in between should be
        avoided if at all possible. Find flights between the two airports on the evening before the
        workshop begins and on the afternoon after it has ended. Prefer direct connections, note
        the total travel time of each, and list at most five options per direction in a small table
        that can be pasted into an email. Mention anything unusual, for instance an overnight stop.
        If nothing suitable turns up, say so plainly instead of stretching the criteria, because
        the date of the workshop itself is not going to move any more.""",
    "github/merge_pull_request": """
        The release manager is on holiday and I promised to look after the housekeeping of our main
        project while she is away. Most of it is routine, yet I do not want to break anything on my
        second day. There is one change that two people have approved and that all checks have
        passed for, and the author has been waiting since Monday. Please merge that pull request
        into its base branch, and afterwards add a comment that thanks the reviewers by name. Do
        not touch anything else, in particular none of the older proposals that are still under
        discussion. Keep a friendly tone, since the author is new to the team. When everything is
        done, tell me in two sentences what happened and whether I need to do anything myself.""",
}
UNSERVED = [
    """
        We run a small laboratory for soil samples and have been asked to join a comparison between
        institutes across the country. Every participant receives the same twelve jars and reports
        what was measured, so that the organisers can see how far the methods agree. Titrate each
        of the samples against the standard solution, centrifuge what is left over at the agreed
        speed, and record the hue of the sediment with the spectrometer in the basement. The jars
        must never be warmer than fourteen degrees, and gloves are mandatory for the whole morning.
        Whoever signs the protocol vouches for it, therefore take your time. A second technician
        repeats everything in the afternoon without having seen the earlier figures.""",
    """
        My grandmother turns ninety in spring and the whole family wants to surprise her with the
        quilt that her own mother never finished. The patches are in a box in the attic, faded in
        places, and moths have been at two of them. Wash the fragile ones by hand, iron them between
        two towels, darn the holes with matching thread, and sew everything on to new linen. My
        cousin owns an old treadle machine which still runs if it is oiled. None of us has done
        anything like it before, hence the long explanation. It ought to be ready a week before
        the celebration so that it can be aired, and it absolutely must stay a secret until
        then.""",
    """
        The choir has sung in the same hall for thirty years, and last Sunday the organ began to
        wheeze in the middle of the second hymn. The verger thinks that a bellows is torn, while
        the organist suspects mice. Neither of them is young enough to climb up there. Take off the
        oak panels at the rear, glue the leather wherever it has come loose, and tune the reeds by
        ear against a fork, beginning with the lowest rank. Please do not polish the brass, whatever
        the vicar suggests, for it would spoil the patina that visitors come to photograph. There
        is tea in the vestry at four, and a heater that works if it is kicked. Everybody would be
        delighted if it could be heard again on the first Sunday of Advent.""",
    """
        Our orchard stands on a slope above the river, twenty old trees of which nobody remembers
        the names, and this winter they have to be pruned before the sap rises. My uncle did it as
        long as his knees allowed, and he was particular about it. Saw off the dead limbs close to
        the collar, thin the crowns so that a hat can be thrown through them, and paint the larger
        wounds with tar. Then graft two scions of the yellow variety on the youngest trunk. The
        ladder in the barn wobbles, so let somebody hold it. Do not work in the frost, as the wood
        splinters then. We are happy to pay in cider, of which there is more than we can drink.""",
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SyncEngine]:
    described = yaml.safe_load(Path(__file__).with_name("languages.yaml").read_text("utf-8"))
    catalogs = {
        server: [tool(name, text) for name, text in tools.items()]
        for server, tools in described["servers"].items()
    }
    with opened(tmp_path_factory.mktemp("described"), catalogs) as engine:
        yield engine


@pytest.mark.requirement("ANS-14")
@rows("tool", SERVED)
def test_task_description_whose_tool_is_found_is_answered(engine: SyncEngine, tool: str) -> None:
    answer = engine.search(" ".join(SERVED[tool].split()))

    assert answer.decision is not Decision.NONE
    assert tool in [str(hit.entry.key).replace(":", "/") for hit in answer.hits[:5]]


@pytest.mark.requirement("ANS-14")
def test_most_task_descriptions_that_nothing_serves_get_none(engine: SyncEngine) -> None:
    refused = [
        engine.search(" ".join(description.split())).decision is Decision.NONE
        for description in UNSERVED
    ]

    # As of short requests, one in four that nothing serves is taken for one that something does.
    assert sum(refused) >= 0.75 * len(UNSERVED)
