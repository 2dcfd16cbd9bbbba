"""Shares of the resources that all nodes of a job have together."""

import random

from hither.cluster._shares import LINGER_SECONDS, RESEND_SECONDS, Share, Shares

WHOLE = Share(7, 1000)


def dealt(shares, now, *, confirm=True):
    """Deals once; returns the sent shares."""
    sent = shares.deal(now)
    for node, share in sent.items() if confirm else ():
        shares.answered(node, share, now, confirmed=True)
    return sent


def test_what_a_node_gets_is_free_only_when_the_others_have_confirmed_less():
    shares = Shares(WHOLE)
    shares.began("1.1", "a", 0)
    assert dealt(shares, 0) == {"a": WHOLE}
    shares.began("2.1", "b", 1)
    half = dealt(shares, 1, confirm=False)
    assert half == {"a": Share(4, 500)}
    assert shares.deal(1) == {}, "nothing is free yet"
    shares.answered("a", half["a"], 1, confirmed=False)
    assert shares.deal(1) == {}, "not at once"
    assert shares.deal(1 + RESEND_SECONDS) == half, "it may not have come"
    shares.answered("a", half["a"], 2, confirmed=True)
    assert dealt(shares, 2) == {"b": Share(3, 500)}
    assert dealt(shares, 2) == {}


def test_a_share_that_rises_is_sent_until_it_has_come():
    shares = Shares(WHOLE)
    shares.began("1.1", "a", 0)
    assert dealt(shares, 0, confirm=False) == {"a": WHOLE}
    shares.answered("a", WHOLE, 0, confirmed=False)
    assert dealt(shares, RESEND_SECONDS) == {"a": WHOLE}
    assert dealt(shares, 2 * RESEND_SECONDS) == {}


def test_the_share_of_a_node_that_is_gone_goes_to_the_others_when_its_mover_has_ended_it():
    shares = Shares(WHOLE)
    for lease, node in [("1.1", "a"), ("2.1", "b")]:
        shares.began(lease, node, 0)
    dealt(shares, 0)
    shares.ended("2.1", 5)
    assert dealt(shares, 5 + LINGER_SECONDS - 0.1) == {}
    assert dealt(shares, 5 + LINGER_SECONDS) == {"a": WHOLE}
    # It returns, and waits for its share.
    shares.began("3.1", "b", 20)
    assert dealt(shares, 20) == {"a": Share(4, 500)}
    assert dealt(shares, 20) == {"b": Share(3, 500)}


def test_a_lease_that_two_nodes_may_have_keeps_the_shares_of_both():
    shares = Shares(WHOLE)
    shares.began("1.1", "a", 0)
    shares.began("1.1", "b", 0)
    dealt(shares, 0)
    assert dealt(shares, 100) == {}
    shares.ended("1.1", 100)
    assert dealt(shares, 200) == {}


def test_a_lease_that_a_node_moves_bytes_of_keeps_no_other_share():
    shares = Shares(WHOLE)
    shares.began("1.1", "a", 0)
    shares.began("1.1", "b", 0)
    dealt(shares, 0)
    dealt(shares, 0)
    shares.claimed("1.1", "a", 1)
    assert dealt(shares, 1 + LINGER_SECONDS) == {"a": WHOLE}


def test_a_mover_that_has_ended_its_share_is_given_it_again():
    shares = Shares(WHOLE)
    shares.began("1.1", "a", 0)
    assert dealt(shares, 0) == {"a": WHOLE}
    shares.lost("a")
    assert dealt(shares, 1) == {"a": WHOLE}


def test_nodes_never_have_more_than_the_whole_whatever_happens():
    for seed in range(200):
        chance = random.Random(seed)
        shares, now, has = Shares(WHOLE), 0.0, {}
        leases, sent, idle = {}, [], {}
        for step in range(200):
            now += chance.uniform(0, 1)
            node = chance.choice("abc")
            happens = chance.randrange(4)
            if happens == 0:
                leases[f"{step}.1"] = node
                shares.began(f"{step}.1", node, now)
            elif happens == 1 and leases:
                lease = chance.choice(list(leases))
                idle[leases.pop(lease)] = now
                shares.ended(lease, now)
            elif sent:
                to, share = sent.pop(chance.randrange(len(sent)))
                arrives = chance.random() < 0.7
                if arrives:
                    has[to] = share
                shares.answered(to, share, now, confirmed=arrives and chance.random() < 0.8)
            # Like movers, a second after their last lease.
            for other in [it for it in has if it not in leases.values() and now - idle.get(it, 0) > 1]:
                del has[other]
                shares.lost(other)
            sent += shares.deal(now).items()
            assert sum(share.connections for share in has.values()) <= WHOLE.connections
            assert sum(share.bandwidth for share in has.values()) <= WHOLE.bandwidth
