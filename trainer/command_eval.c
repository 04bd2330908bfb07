#include "base/err.h"
#include "base/random.h"
#include "trainer/commands.h"
#include "trainer/evaluate.h"
#include "weights/checkpoint.h"

#include <inttypes.h>
#include <math.h>

typedef struct Eval {
    const char *model, *data;
    int window; /* below 2: max_position_embeddings */
    int64_t seed;
    double scale;
} Eval;

/* Of a fill-mask model the tokens are those masked, whose loss says nothing about bytes. */
static int print_result(const Evaluation *e, TaskKind task, size_t bytes, NoiseKey noise, Err *err) {
    if (e->tokens == 0) return err_set(err, "no token of the text is masked");
    double loss = e->nats / (double)e->tokens;
    if (!isfinite(loss)) return err_set(err, "the loss is not finite (%g)", loss);
    double nats_per_byte = e->nats / (double)bytes;
    printf("{\"loss\":%.9g,\"perplexity\":%.9g,", loss, exp(loss));
    if (task != TASK_FILL_MASK)
        printf("\"nats_per_byte\":%.9g,\"bits_per_byte\":%.9g,", nats_per_byte, nats_per_byte / M_LN2);
    printf("\"tokens\":%zu,\"bytes\":%zu,\"noise_seed\":%" PRIu64 ",\"noise_scale\":%.9g}\n", e->tokens, bytes,
           noise.seed, (double)noise.scale);
    return fflush(stdout) ? err_set(err, "standard output cannot be written") : 0;
}

static int evaluate_text(const Checkpoint *c, const Eval *eval, NoiseKey noise, Err *err) {
    Texts texts;
    int window = eval->window >= 2 ? eval->window : 0, most = c->model.cfg.max_positions;
    TokenList list = {0};
    Evaluation e;
    if (!c->tokenizer) return err_set(err, "--model %s has no tokenizer.json", eval->model);
    if (window > most) return err_set(err, "--window is %d, max_position_embeddings of the config %d", window, most);
    if (texts_load(&texts, &eval->data, 1, VAL_NONE, err)) return -1;
    size_t bytes = texts.train[0].n;
    int rc = corpus_encode(c->tokenizer, &texts.train[0], &list, err);
    texts_free(&texts);
    TokenSpan span = {.ids = (const unsigned char *)list.ids, .width = sizeof *list.ids, .n = list.n};
    if (rc == 0) rc = evaluate(&c->model, span, window, 0, noise, NULL, &e, err);
    if (rc == 0) rc = shards_check_intact(&c->shards, err);
    if (rc == 0) rc = print_result(&e, c->model.cfg.task, bytes, noise, err);
    token_list_free(&list);
    return rc;
}

static int run(const CommandLine *line) {
    const Eval *e = line->values;
    NoiseKey noise = {.seed = (uint64_t)e->seed, .scale = (float)e->scale};
    Checkpoint c;
    Err err;
    if (checkpoint_open(&c, e->model, &err)) return command_fail(line, &err, EXIT_FAILED);
    int rc = evaluate_text(&c, e, noise, &err);
    checkpoint_close(&c);
    return rc ? command_fail(line, &err, EXIT_FAILED) : EXIT_DONE;
}

#define AT(member) offsetof(Eval, member)
static const Option options[] = {
    {"model", OPTION_TEXT, AT(model), "DIR", .required = true, .help = "checkpoint to evaluate"},
    {"data", OPTION_TEXT, AT(data), "FILE", .required = true, .help = "text to evaluate on, all of it"},
    {"window", OPTION_INT, AT(window), "N", 2, 1 << 30, .unit = "tokens", .help = "length of a window",
     .absent = "max_position_embeddings of the config"},
    {"noise-seed", OPTION_INT64, AT(seed), "N", 0, (double)SEED_MAX, "0",
     .help = "noise seed, the same for every window"},
    {"noise-scale", OPTION_REAL, AT(scale), "X", 0, 1e6, "1", .help = "factor on every sigma; 0: no noise"},
};
const Command command_eval = {
    .name = "eval",
    .summary = "Prints a checkpoint's loss on a text, as one line of JSON.",
    .size = sizeof(Eval),
    .options = options,
    .n_options = COUNTOF(options),
    .run = run,
};
