#include "base/err.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/shape.h"
#include "trainer/commands/commands.h"
#include "trainer/text/draws.h"
#include "trainer/text/sample.h"
#include "trainer/stop.h"
#include "weights/checkpoint.h"

#include <inttypes.h>
#include <string.h>

typedef struct Sample {
    const char *model, *prompt;
    int max_tokens, threads;
    int component;            /* -1: drawn */
    int64_t seed, noise_seed; /* -1: drawn */
    DrawOptions draws;
} Sample;

static bool show(void *self, const char *text, size_t n) {
    (void)self;
    fwrite(text, 1, n, stdout);
    return fflush(stdout) == 0 && !stop_signal();
}

/* The prompt as the daemon reads it; without one, the token that starts a document. */
static int read_prompt(const Checkpoint *c, const char *text, TokenList *ids, Err *err) {
    const Config *cfg = &c->model.cfg;
    int start = tokenizer_bos(c->tokenizer), tail = tokenizer_tail(c->tokenizer);
    if (start < 0 && !text) start = cfg->bos_token_id >= 0 ? cfg->bos_token_id : cfg->eos_token_id;
    if (start >= 0) token_list_push(ids, start);
    if (text && tokenizer_encode(c->tokenizer, text, strlen(text), true, ids, err)) return -1;
    if (tail >= 0) token_list_push(ids, tail);
    return ids->n ? 0 : err_set(err, "--prompt is missing, and the model has no token to start a document with");
}

static int sample(const Checkpoint *c, const Sample *s, const TokenList *ids, Err *err) {
    int room = c->model.cfg.max_positions - (int)ids->n + 1;
    SampleRun r = {.model = &c->model,
                   .tokenizer = c->tokenizer,
                   .prompt = ids->ids,
                   .n_prompt = (int)ids->n,
                   .max_tokens = s->max_tokens ? s->max_tokens : MIN(100, room),
                   .from_start = !s->prompt,
                   .sampling = draws_sampling(&s->draws, draws_seed(s->seed)),
                   .noise = {.scale = (float)s->draws.noise_scale},
                   .show = show};
    Buffer text = {0};
    r.noise.seed = s->noise_seed < 0 && s->seed >= 0 ? r.sampling.seed : draws_seed(s->noise_seed);
    if (draws_component(&c->model.cfg, s->component, &r.noise, err) || sample_check(&r, err)) return -1;
    fprintf(stderr, "seed %" PRIu64 ", ", r.sampling.seed);
    if (config_noise_acts(&c->model.cfg, r.noise.scale))
        fprintf(stderr, "noise_seed %" PRIu64 ", noise_scale %g, ", r.noise.seed, s->draws.noise_scale);
    fprintf(stderr, "temperature %g, top_k %d, top_p %g\n", s->draws.temperature, s->draws.top_k, s->draws.top_p);
    if (s->prompt) fputs(s->prompt, stdout);
    int rc = sample_text(&r, &text, err);
    putchar('\n');
    buffer_free(&text);
    if (rc == 0 && (fflush(stdout) || ferror(stdout))) rc = err_set(err, "standard output cannot be written");
    return rc;
}

static int run(const CommandLine *line) {
    const Sample *s = line->values;
    Checkpoint c;
    TokenList ids = {0};
    Err err;
    if (s->threads) team_resize(s->threads);
    if (kernels_init(&err) || checkpoint_open(&c, s->model, &err)) return command_fail(line, &err, EXIT_FAILED);
    stop_install();
    int rc = config_check_kv_form(&c.model.cfg, config_kv_form(&c.model.cfg), &err);
    if (rc == 0)
        rc = c.tokenizer ? read_prompt(&c, s->prompt, &ids, &err)
                         : err_set(&err, "--model %s has no tokenizer.json", s->model);
    if (rc == 0) rc = sample(&c, s, &ids, &err);
    token_list_free(&ids);
    checkpoint_close(&c);
    if (rc) return command_fail(line, &err, EXIT_FAILED);
    return stop_signal() ? 128 + stop_signal() : EXIT_DONE;
}

#define AT(member) offsetof(Sample, member)
static const Option options[] = {
    {"model", OPTION_TEXT, AT(model), "DIR", .required = true, .help = "checkpoint to sample from"},
    {"prompt", OPTION_TEXT, AT(prompt), "TEXT", .high = DRAWS_PROMPT_BYTES, .help = "text to continue",
     .absent = "the start of a document"},
    {"max-tokens", OPTION_INT, AT(max_tokens), "N", 1, 1 << 20, .unit = "tokens", .help = "length of the answer",
     .absent = "100, or what the context has room for"},
    {"seed", OPTION_INT64, AT(seed), "N", 0, (double)SEED_MAX, .help = "seed of the draws", .absent = "drawn"},
    {"noise-seed", OPTION_INT64, AT(noise_seed), "N", 0, (double)SEED_MAX, .help = "seed of the noise",
     .absent = "--seed, or drawn"},
    {"noise-component", OPTION_INT, AT(component), "N", 0, NOISE_COMPONENTS_MAX - 1,
     .absent = "drawn by the noise seed", .help = "the component of the text, where sequences have them"},
    DRAWS_OPTIONS(AT(draws)),
    {"threads", OPTION_INT, AT(threads), "N", 0, 1024, "0",
     .help = "threads that compute; 0: all cores that this process may use"},
};
const Command command_sample = {
    .name = "sample",
    .summary = "Continues a text on the terminal, with the bytes that the daemon answers with for the same seeds.",
    .size = sizeof(Sample),
    .options = options,
    .n_options = COUNTOF(options),
    .run = run,
};
