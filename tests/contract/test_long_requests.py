"""What specs/answers.md promises of task descriptions, as agents hand them on word for word."""

from __future__ import annotations

import pytest

from discovery_engine.search.searcher import build_searcher
from discovery_engine.view.search_answers import Decision
from discovery_engine.view.view import View
from tests.contract.requests import described_catalog
from tests.factories import make_settings
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
    "database/backup": """
        Over the coming weekend the company that hosts our systems replaces a part of its hardware,
        and although they assure everybody that nothing can go wrong, we have heard that before. My
        boss asks for a written plan with owners and times, and I would like to hand it in today.
        As the very first step, make a backup of the database, since everything else can be rebuilt
        from other sources while its contents cannot. Write down when it was started, how long it
        took and how large the result is. Later steps, such as informing the customers, are somebody
        else's business and must not be started from here. Be strict about the order, and stop at
        the first sign of trouble rather than carrying on and hoping for the best.""",
    "shop/refund": """
        A long-standing customer has written to us for the third time, and her patience is running
        out, which I can understand. The parcel arrived broken, she sent photographs at once, and
        somebody promised a replacement that never came. We discussed the case in the morning round
        and agreed that this has to end today. Give the customer her money back in full, including
        what she paid for shipping, without asking for the broken pieces. Then draft a short and
        honest apology in plain words, without any marketing phrases, that I can sign. Put both into
        the notes of the case with the date. If the amount differs from what she states, use the
        higher of the two, because the difference is not worth another discussion with her.""",
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


def make_view() -> View:
    catalog = described_catalog()
    settings = make_settings(*sorted(catalog.parts))
    return View(settings, catalog, lambda: build_searcher(catalog, settings.search))


@pytest.mark.requirement("ANS-14")
@rows("tool", SERVED)
def test_task_description_whose_tool_is_found_is_answered(tool: str) -> None:
    answer = make_view().search(" ".join(SERVED[tool].split()))

    assert answer.decision is not Decision.NONE
    assert tool in [str(hit.entry.key).replace(":", "/") for hit in answer.hits[:5]]


@pytest.mark.requirement("ANS-14")
def test_most_task_descriptions_that_nothing_serves_get_none() -> None:
    view = make_view()

    refused = [
        view.search(" ".join(description.split())).decision is Decision.NONE
        for description in UNSERVED
    ]

    # As of short requests, one in four that nothing serves is taken for one that something does.
    assert sum(refused) >= 0.75 * len(UNSERVED)
