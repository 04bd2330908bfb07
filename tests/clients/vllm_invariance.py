"""vLLM's tests of batch invariance, as they send them: tokens and log-probabilities of one request, bit for bit."""
import random
import threading

from suite import Daemon, case, equal, run


def bits(choice):
    return choice["logprobs"]["tokens"], choice["logprobs"]["token_logprobs"]


def invariance():
    """32 prompts, one at a time and all at once; computed once for all cases."""
    words = "the river runs below old mill and every stone was a word once in house of night where nobody spoke".split()
    dice = random.Random(12345)
    prompts = [" ".join(dice.choices(words, k=dice.randint(10, 50))) for _ in range(32)]
    body = dict(temperature=0.6, top_p=1.0, max_tokens=8, seed=42, logprobs=5)
    found = []

    def look(daemon, i):
        if not found:
            found.append([bits(daemon.complete(prompt=p, **body)["choices"][0]) for p in prompts])
            found.append([bits(choice) for choice in daemon.complete(prompt=prompts, **body)["choices"]])
        equal(found[0][i], found[1][i])

    return look


look = invariance()


@case(*range(32))
def batch_invariance(daemon, i):
    look(daemon, i)


@case()
def chunked_prefill_is_batch_invariant(daemon):
    with Daemon("--prefill-chunk", "128", "--max-batch", "8") as small:
        target = dict(prompt=[100] * 193, temperature=0.0, max_tokens=8, logprobs=5, seed=42)
        alone = bits(small.complete(**target)["choices"][0])
        load = threading.Thread(target=lambda: small.complete(prompt=[101] * 73, max_tokens=400, temperature=0.0,
                                                              ignore_eos=True))
        load.start()
        beside = [bits(small.complete(**target)["choices"][0]) for _ in range(4)]
        load.join()
        equal(beside, [alone] * 4)


run()
