"""A token that is refused in the middle of an interactive run: told at once, nothing sent after it, and the run goes on with a new one."""

import pytest
from test_interact import Model, play, said
from track_server import NEW, Track

from pyterrier_ikat.errors import IkatError

FAULTS = ["drop after", "", "drop after", "500 after"]
TOPICS = (("1-1", "ann", ("Which tea?", "And now?")), ("2-1", "bob", ("Where may I walk?",)))
EVERY = [(topic, utterance) for topic, _, utterances in TOPICS for utterance in utterances]


class Expires(Track):
    """Takes the token for a number of calls."""

    left = 0

    def step(self, name):
        """No fault hides a refusal."""
        if self.left == 0:
            self.faults.clear()

    def handle(self, method, path, query, body, headers):
        if self.left == 0:
            self.calls.append(path)
            return 401, {"detail": "Token expired"}, {}
        self.left -= 1
        return super().handle(method, path, query, body, headers)


def expiring(left, **kind):
    track = Expires(TOPICS, faults=list(FAULTS), **kind)
    track.left = left
    return track


@pytest.mark.parametrize("kind", [{}, {"form": NEW}])
def test_a_refused_token_ends_the_run_at_once_wherever_it_is_noticed(tmp_path, kind):
    whole = expiring(-1, **kind)
    assert play(whole, tmp_path / "whole").finished
    assert {"/run/start", "/run/session", "/run/continue"} <= set(whole.calls)
    played = whole.calls[: -whole.calls[::-1].index("/run/continue")]  # behind it a run is compared, and a refusal is a warning
    for left in range(len(played)):
        track, model, folder = expiring(left, **kind), Model(), tmp_path / str(left)
        for more in (left, 1, 2)[: 1 if len(played) - left < 5 else 3]:  # lives of the run; the last calls leave no room for others
            track.left, before = more, len(track.calls)
            with pytest.raises(IkatError, match="does not accept the token in IKAT_TOKEN"):
                play(track, folder, model, track.step)
            assert len(track.calls) == before + more + 1, whole.calls[left]
        track.left = -1
        assert play(track, folder, model).finished
        assert said(track.taken) == EVERY
        assert len(model.asked) == len(EVERY)
