#include "base/atomic_file.h"
#include "base/err.h"
#include "base/random.h"
#include "trainer/commands.h"
#include "trainer/evaluate.h"
#include "weights/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static const double ln2 = 0.6931471805599453;

static int print_result(const Evaluation *e, size_t bytes, NoiseKey noise, Err *err) {
    double loss = e->nats / (double)e->tokens;
    if (!isfinite(loss)) return err_set(err, "the loss is not finite (%g)", loss);
    printf("{\"loss\":%.9g,\"perplexity\":%.9g,\"bits_per_byte\":%.9g,\"tokens\":%zu,\"bytes\":%zu,"
           "\"noise_seed\":%" PRIu64 ",\"noise_scale\":%.9g}\n",
           loss, exp(loss), e->nats / ln2 / (double)bytes, e->tokens, bytes, noise.seed, (double)noise.scale);
    return fflush(stdout) ? err_set(err, "standard output cannot be written") : 0;
}

static int evaluate_text(const Checkpoint *c, const char *dir, const char *path, NoiseKey noise, Err *err) {
    Texts texts;
    TokenList list = {0};
    Evaluation e;
    if (!c->tokenizer) return err_set(err, "--model %s has no tokenizer.json", dir);
    if (texts_load(&texts, &path, 1, VAL_NONE, err)) return -1;
    size_t bytes = texts.train[0].n;
    int rc = corpus_encode(c->tokenizer, &texts.train[0], &list, err);
    texts_free(&texts);
    TokenSpan span = {.ids = (const unsigned char *)list.ids, .width = sizeof *list.ids, .n = list.n};
    if (rc == 0) rc = evaluate(&c->model, span, 0, noise, &e, err);
    if (rc == 0) rc = shards_check_intact(&c->shards, err);
    if (rc == 0) rc = print_result(&e, bytes, noise, err);
    token_list_free(&list);
    return rc;
}

int command_eval(int argc, char **argv) {
    const char *model = NULL, *data = NULL;
    int64_t seed = 0;
    double scale = 1;
    Flag flags[] = {
        {.name = "model", .kind = FLAG_TEXT, .value = &model, .hint = "DIR", .help = "checkpoint to evaluate"},
        {.name = "data", .kind = FLAG_TEXT, .value = &data, .hint = "FILE", .help = "text to evaluate on, all of it"},
        {.name = "noise-seed",
         .kind = FLAG_INTEGER,
         .value = &seed,
         .high = (double)SEED_MAX,
         .hint = "N",
         .help = "noise seed, the same for every window"},
        {.name = "noise-scale",
         .kind = FLAG_REAL,
         .value = &scale,
         .high = 1e6,
         .hint = "X",
         .help = "factor on every sigma; 0: no noise"},
    };
    const int n = (int)COUNTOF(flags);
    Checkpoint c;
    Err err;
    int parsed = flags_parse(flags, n, argc, argv, &err);
    if (parsed == 1) {
        flags_print_help(flags, n,
                         "usage: noised-train eval --model DIR --data FILE [--noise-seed N] [--noise-scale X]");
        return EXIT_DONE;
    }
    if (parsed || flags_require(flags, n, "model", &err) || flags_require(flags, n, "data", &err))
        return command_fail("eval", &err, EXIT_USAGE);
    if (checkpoint_open(&c, model, &err)) return command_fail("eval", &err, EXIT_FAILED);
    NoiseKey noise = {.seed = (uint64_t)seed, .scale = (float)scale};
    int rc = evaluate_text(&c, model, data, noise, &err);
    checkpoint_close(&c);
    return rc ? command_fail("eval", &err, EXIT_FAILED) : EXIT_DONE;
}
