"""The plan of the family: who is compared, at what size, and which runs that takes.

A run is a config, a learning rate, a number of steps and a seed. Its name says all four, so what two protocols share is
trained once. The environment changes the plan, for a folder of runs of its own: STEPS, SWEEP (steps of the runs that
choose the learning rate), RATES, SEEDS, ROUNDS (of timing), MEMBERS, PROTOCOLS, HIDDEN (a multiple of 32), LAYERS and
VOCAB.
"""
import collections
import os
import shlex
import sys


KNOBS = ("HIDDEN", "LAYERS", "VOCAB", "STEPS", "SWEEP", "RATES", "SEEDS", "ROUNDS", "MEMBERS", "PROTOCOLS")


def changed():
    """What the environment has of them, as a shell takes it."""
    return " ".join(f"{k}={shlex.quote(os.environ[k])}" for k in KNOBS if k in os.environ)


def words(name, default):
    return os.environ.get(name, default).split()


STEPS = int(os.environ.get("STEPS", "1600"))
SWEEP = int(os.environ.get("SWEEP", min(STEPS, 400)))
RATES = words("RATES", "1e-3 2e-3 4e-3")
SEEDS = range(1, 1 + int(os.environ.get("SEEDS", "3")))
ROUNDS = range(int(os.environ.get("ROUNDS", "5")))
EVALUATIONS = 10  # of a run; numbers of steps are multiples of it
BATCH = 8
HIDDEN = int(os.environ.get("HIDDEN", "128"))
SHAPE = {
    "model_type": "noised", "vocab_size": int(os.environ.get("VOCAB", "1024")), "hidden_size": HIDDEN,
    "num_hidden_layers": int(os.environ.get("LAYERS", "3")), "max_position_embeddings": 128,
    "norm": "rmsnorm", "norm_eps": 1e-6, "position": "rope",
}
HEADS, HEAD_DIM = 4, HIDDEN // 4
WIDTH = HIDDEN * 43 // 16  # of the MLP, but where it makes up for other parameters

Member = collections.namedtuple("Member", "name heads kv_heads head_dim switches flags claim")
Run = collections.namedtuple("Run", "config rate steps seed")


def attention(kind, **more):
    return {"attention": {"kind": kind, **more}}


def noisy(scope, **more):
    return {**attention("symmetric"), "noise": {"scope": scope, **more}}


def sas(kernel):
    return {**attention("mha"), "sas": {"heads": 3 * HEADS, "head_dim": 3 * HEAD_DIM // 2, "kernel": kernel}}


# Heads and ranks follow the papers: those of gqa, mqa, mla and tpa give their attention about the parameters of mha's;
# SAS has 3 H heads of 1.5 D. `blind` is mha that sees its own token alone: its curve is the plateau itself.
MLA = attention("mla", q_lora_rank=HIDDEN // 2, kv_lora_rank=HIDDEN // 2, qk_nope_head_dim=HEAD_DIM,
                qk_rope_head_dim=HEAD_DIM // 2, v_head_dim=HEAD_DIM)
SEQUENCE_FLAGS = ("--kl-weight", "1e-2", "--noise-per-sequence")
ALL = [
    Member("mha", HEADS, HEADS, HEAD_DIM, attention("mha"), (), "the baseline of all"),
    Member("blind", HEADS, HEADS, HEAD_DIM, {**attention("mha"), "sliding_window": 1}, (), "it cannot look back"),
    Member("noble", HEADS, HEADS, HEAD_DIM, {**attention("mha"), "noble": {"rank": HIDDEN // 16}}, (),
           "−0.040 (2.850 → 2.810 with 5.7% more parameters), step ×1.076"),
    Member("sas-k5", HEADS, HEADS, HEAD_DIM, sas(5), (), "−0.049 (Books3, ppl 29.80 → 28.37), step ×1.88"),
    Member("symmetric", HEADS, HEADS, HEAD_DIM, attention("symmetric"), (),
           "about +0.07 (3.077, base \"a little above 3.0\")"),
    Member("noiseformer-v2", HEADS, HEADS, HEAD_DIM, noisy("head"), (), "about +0.06 (3.069); symmetric −0.008"),
    Member("sequence", HEADS, HEADS, HEAD_DIM, noisy("head", span="sequence"), SEQUENCE_FLAGS, "ours, no paper"),
    Member("noiseformer-v1", HEADS, HEADS, HEAD_DIM, noisy("layer"), (), "about +0.11 (3.115); symmetric +0.038"),
    Member("gqa", 6, 2, HEAD_DIM, attention("gqa"), (), "0.000 (Books3, ppl 29.80 → 29.81)"),
    Member("mqa", 7, 1, HEAD_DIM, attention("gqa"), (), "+0.012 (Books3, ppl 29.80 → 30.15)"),
    Member("mla", HEADS, HEADS, HEAD_DIM, MLA, (), "+0.012 (Books3, ppl 29.80 → 30.17)"),
    Member("tpa", 5, 5, HEAD_DIM, attention("tpa", q_rank=6, rank=2), (), "+0.019 (Books3, ppl 29.80 → 30.38)"),
    Member("differential", HEADS // 2, HEADS // 2, HEAD_DIM, attention("differential"), (),
           "as good with about 65% of the parameters or tokens"),
    Member("pairwise", HEADS, HEADS, HEAD_DIM, attention("pairwise"), (),
           "better than mha (GLUE 78.74 → 79.36), 6% fewer parameters"),
    Member("lecture", 1, 1, HIDDEN, attention("lecture"), (), "no numbers"),
    Member("sas-k1", HEADS, HEADS, HEAD_DIM, sas(1), (), "the same without neighbours along the features"),
]
chosen = words("MEMBERS", " ".join(m.name for m in ALL))
MEMBERS = [m for m in ALL if m.name in ("mha", *chosen)]
MEMBER = {m.name: m for m in ALL}
if set(chosen) - set(MEMBER):
    sys.exit(f"family: MEMBERS names {' '.join(sorted(set(chosen) - set(MEMBER)))}; there are {' '.join(MEMBER)}")
PROTOCOLS = {p: title for p, title in (("own", "the paper's own"), ("parameters", "equal parameters"),
                                       ("time", "equal time")) if p in words("PROTOCOLS", "own parameters time")}


def config(member, width=WIDTH):
    return {**SHAPE, "num_attention_heads": member.heads, "num_key_value_heads": member.kv_heads,
            "head_dim": member.head_dim, **member.switches,
            "mlp": {"activation": "silu", "gated": True, "intermediate_size": width}}


def run_name(run):
    return f"{run.config}.{run.steps}.{run.rate}.{run.seed}"


def sweep(member):
    """The runs that choose a member's learning rate."""
    return [Run(member.name, rate, SWEEP, SEEDS[0]) for rate in RATES]


def protocol_run(protocol, member, rate, seed, sizes):
    """A run under a protocol, or None: blind is no competitor. Sizes are what sizes.json says of the member: parameters
    within 1% of mha's and a step within 5% of its time count as equal."""
    if protocol == "own":
        return Run(member.name, rate, STEPS, seed)
    if member.name == "blind":
        return None
    if protocol == "parameters":
        return Run(member.name if sizes["fitted"] == WIDTH else f"{member.name}-fitted", rate, STEPS, seed)
    near = abs(sizes["ratio"] - 1) <= 0.05
    steps = STEPS if near else EVALUATIONS * max(1, round(STEPS / sizes["ratio"] / EVALUATIONS))
    return Run(member.name, rate, steps, seed)
