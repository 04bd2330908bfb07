/* load_workload: what the load generator asks for. The same workload asks for the same, whenever and whomever. */
#ifndef NOISED_LOAD_WORKLOAD_H
#define NOISED_LOAD_WORKLOAD_H

#include "tests/bench/load_client.h"

/* Borrowed. Requests are streamed, end after max_tokens and not before, and sample with temperature 0.8, top_k 40,
 * top_p 0.95 and seeds of their own. Of the fields only noise_seed is ours alone: known servers overlook it. */
typedef struct Workload {
    const char *model;  /* NULL: the field is left out */
    const char *prompt; /* NULL: prompt_tokens ids, other ones in every request */
    int prompt_tokens, max_tokens;
    uint64_t seed;
    double rate;   /* requests a second, arriving by chance (Poisson); 0: as soon as one before has ended */
    bool repeated; /* every second request is the same one */
} Workload;

/* n requests to url, whose bodies are malloc'ed. */
LoadRequest *workload_make(const Workload *w, const char *url, int n);
void workload_free(LoadRequest *requests, int n);

#endif
