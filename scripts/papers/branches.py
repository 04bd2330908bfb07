"""Hosts with and without NOBLE's branches: what noble, mlm, vit and image_tokens have in common.

NOBLE's linears start at half of Kaiming's scale, 0.5 / sqrt(in), and the paper's host at Kaiming's own; our other
networks start at 0.02. So there are three hosts: `plain`, at 0.02, `kaiming`, the paper's, and `start`, which has what
NOBLE starts from and no branches, so that it tells the branch from the start.
"""
import papers
import statistic

HOSTS = {"plain": {}, "kaiming": {"noble": {"rank": 0, "recipe": "kaiming"}}, "start": {"noble": {"rank": 0}}}
WORDS = ("`kaiming` is the paper's host, whose linears start at 1 / sqrt(in), NOBLE's at half of that; `start` has NOBLE's start "
         "without branches, `plain` the 0.02 of our other networks.")


def arms(body, rank):
    """{name: config}: the hosts of a config and NOBLE."""
    return {**{name: {**body, **more} for name, more in HOSTS.items()}, "NOBLE": {**body, "noble": {"rank": rank}}}


def claims(kept, what, measure, claimed, paper, digits=4, key=lambda name: name):
    """A row of NOBLE against every host; the paper has one, kaiming."""
    rows = []
    for host in ("kaiming", "start", "plain"):
        pair = kept.pairs(measure, key("NOBLE"), key(host))
        rows.append([f"{what}, NOBLE − {host}", paper if host == "kaiming" else "", statistic.compared(*pair, digits),
                     len(pair[0]), statistic.verdict(claimed, *pair)])
    return rows


def table(rows):
    return papers.table(["claim", "paper", "ours, 95%", "seeds", "verdict"], rows)
