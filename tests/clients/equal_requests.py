"""Two equal requests that say nothing but `seed`, as every client can."""
from suite import case, equal, run


@case(*[(t, i) for t in (0, 0.7) for i in range(16)], each="temperature={0} {1}")
def equal_requests(daemon, temperature, i):
    body = dict(prompt=f"It was number {i} of the", max_tokens=32, temperature=temperature, seed=42, logprobs=0)
    one, two = (daemon.complete(**body)["choices"][0] for _ in range(2))
    equal(one, two)


run()
