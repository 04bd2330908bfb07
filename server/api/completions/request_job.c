#include "server/api/completions/request_job.h"

#include "base/memory.h"
#include "model/shape.h"

#include <string.h>

/* *out is NULL for no bytes; false when memory runs out. */
static bool copy_of(void *out, const void *data, size_t bytes) {
    void *copy = bytes ? try_malloc(bytes) : NULL;
    memcpy(out, &copy, sizeof copy);
    if (copy) memcpy(copy, data, bytes);
    return copy || !bytes;
}

/* False when memory runs out. */
static bool begin_form(const CompletionRequest *r, const ApiContext *ctx, int p, Job *job) {
    if (!r->walk) return true;
    job->walk = form_walk_clone(r->walk);
    bool first = r->prompts[p].n_hidden == r->prompts[p].n; /* of all that is shown */
    if (job->walk && first && tokenizer_strips_space(ctx->tokenizer)) form_walk_skip_space(job->walk);
    return job->walk != NULL;
}

Job *request_job_new(const CompletionRequest *r, const ApiContext *ctx, int p, int i, const Requester *requester) {
    int n_top = MAX(MAX(r->logprobs, r->prompt_logprobs), r->best_of > r->n ? 0 : -1);
    if (r->prompts[p].score_from) n_top = MAX(n_top, 1); /* whether it is the most probable */
    Job *job = job_new(r->prompts[p].ids, r->prompts[p].n, r->max_tokens, n_top, api_scores_prompt(r));
    if (!job) return NULL;
    if (r->prompts[p].score_from) job->score_from = r->prompts[p].score_from;
    job->min_tokens = r->min_tokens;
    job->sampling = r->sampling;
    job->sampling.seed = r->seeds ? r->seeds[p * r->n + i] : choice_seed(r->seed.value, i);
    job->noise.seed = r->noise_seeds ? r->noise_seeds[p * r->n + i] : choice_seed(r->noise_seed.value, i);
    /* Nobody is told of a seed that acts on nothing: no byte, an id of a call among them, may depend on it. */
    if (!config_noise_acts(ctx->config, r->noise_scale)) job->noise.seed = 0;
    job->noise_prompt.seed = r->noise_prompt_seed.given ? r->noise_prompt_seed.value : job->noise.seed;
    job->noise.scale = job->noise_prompt.scale = r->noise_scale;
    if (r->noise_components)
        job->noise.component = job->noise_prompt.component =
            1 + r->noise_components[r->n_noise_components > 1 ? p * r->n + i : 0];
    job->score_sampled = r->post_sampling_probs;
    job->ignore_eos = r->ignore_eos;
    job->n_stop_ids = r->n_stop_ids;
    job->n_allowed_ids = r->n_allowed_ids;
    job->bad_words = bad_words_hold(r->bad_words);
    job->trie = trie_hold(r->trie);
    job->vocabulary = ctx->vocabulary;
    job->deadline = r->deadline_ms ? requester->arrived + 1e-3 * r->deadline_ms : 0;
    job->tenant = requester->tenant;
    job->client = requester->client;
    job->wake = requester->wake;
    job->wake_arg = requester->wake_arg;
    if (copy_of(&job->sampling.bias, r->sampling.bias, (size_t)r->sampling.n_bias * sizeof *r->sampling.bias) &&
        copy_of(&job->stop_ids, r->stop_ids, (size_t)r->n_stop_ids * sizeof *r->stop_ids) &&
        copy_of(&job->allowed_ids, r->allowed_ids, (size_t)r->n_allowed_ids * sizeof *r->allowed_ids) &&
        begin_form(r, ctx, p, job))
        return job;
    job_release(job);
    return NULL;
}
