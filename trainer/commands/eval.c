#include "base/err.h"
#include "base/fixed_math.h"
#include "base/json_write.h"
#include "base/random.h"
#include "trainer/commands/commands.h"
#include "trainer/ranks/agree.h"
#include "trainer/text/corpus_map.h"
#include "trainer/text/draws.h"
#include "trainer/text/evaluate.h"
#include "trainer/text/masks.h"
#include "trainer/text/pieces.h"
#include "trainer/tasks/examples_load.h"
#include "trainer/tasks/task_score.h"
#include "model/shape.h"
#include "weights/checkpoint.h"

#include <math.h>
#include <string.h>

typedef struct Eval {
    const char *model, *data, *task_data;
    int window; /* below 2: max_position_embeddings */
    int format; /* ExamplesFormat */
    bool truncate;
    int64_t seed;
    int component; /* -1: all */
    double scale;
} Eval;

/* Of a fill-mask model the tokens are those masked, whose loss says nothing about bytes. */
static int print_result(const Evaluation *e, TaskKind task, size_t bytes, NoiseKey noise, Err *err) {
    if (e->tokens == 0) return err_set(err, "no token of the text is masked");
    double loss = e->nats / (double)e->tokens;
    if (!isfinite(loss)) return err_set(err, "the loss is not finite (%g)", loss);
    double nats_per_byte = e->nats / (double)bytes;
    Buffer line = {0};
    json_open(&line, NULL, '{');
    json_put_rounded(&line, "loss", loss, 9);
    json_put_rounded(&line, "perplexity", fixed_exp(loss), 9);
    if (task != TASK_FILL_MASK) {
        json_put_rounded(&line, "nats_per_byte", nats_per_byte, 9);
        json_put_rounded(&line, "bits_per_byte", nats_per_byte / M_LN2, 9);
    }
    json_put_uint(&line, "tokens", e->tokens);
    json_put_uint(&line, "bytes", bytes);
    json_put_uint(&line, "noise_seed", noise.seed);
    if (noise.component) json_put_int(&line, "noise_component", noise.component - 1);
    if (e->entropy > 0) json_put_rounded(&line, "component_entropy", e->entropy, 9);
    if (e->entropy > 0) json_put_rounded(&line, "component_nats", e->information, 9);
    json_put_rounded(&line, "noise_scale", (double)noise.scale, 9);
    return json_end_line(&line, stdout) ? err_set(err, "standard output cannot be written") : 0;
}

static int evaluate_text(const Checkpoint *c, const Eval *eval, int window, NoiseKey noise, Err *err) {
    Texts texts;
    TokenList list = {0};
    Evaluation e;
    if (texts_load(&texts, &eval->data, 1, VAL_NONE, err)) return -1;
    size_t bytes = texts.train[0].n;
    int rc = agree_on("the sha256 of --data", texts.hash, err);
    if (rc == 0) rc = text_encode(c->tokenizer, texts.train[0].data, bytes, &list, err);
    texts_free(&texts);
    TokenSpan span = {.ids = (const unsigned char *)list.ids, .width = sizeof *list.ids, .n = list.n};
    if (rc == 0) rc = evaluate_on_ranks(&c->model, span, window, noise, &e, err);
    if (rc == 0) rc = shards_check_intact(&c->shards, err);
    if (rc == 0) rc = print_result(&e, c->model.cfg.task, bytes, noise, err);
    token_list_free(&list);
    return rc;
}

/* The ids held out of a folder of noised-train tokenize. */
static int evaluate_held_out(const Checkpoint *c, const Eval *eval, const CorpusIndex *x, int window, NoiseKey noise,
                             Err *err) {
    char sum[SHA256_HEX], ids[PATH_BYTES];
    Corpus corpus;
    Evaluation e;
    if (x->unfinished)
        return err_set(err, "--data %s is not finished: its noised-train tokenize has to go on", eval->data);
    if (path_join(ids, eval->data, "tokenizer.json", err)) return -1;
    int same = masks_same_ids(c->tokenizer, ids, x->tokenizer, sum, err);
    if (same < 0) return -1;
    if (!same)
        return err_set(err, "the ids of --data %s were made by a tokenizer of sha256 %s, --model %s has one of %s",
                       eval->data, x->tokenizer, eval->model, sum);
    corpus_index_sha256(x, sum);
    if (agree_on("the sha256 of the index of --data", sum, err)) return -1;
    int rc = corpus_map(&corpus, eval->data, x, err);
    if (rc == 0) rc = evaluate_on_ranks(&c->model, corpus.val, window, noise, &e, err);
    if (rc == 0 && !corpus_intact(&corpus)) rc = err_set(err, "--data %s was changed while it was read", eval->data);
    if (rc == 0) rc = shards_check_intact(&c->shards, err);
    if (rc == 0) rc = print_result(&e, c->model.cfg.task, corpus.val_bytes, noise, err);
    corpus_close(&corpus);
    return rc;
}

static int evaluate_data(const Checkpoint *c, const Eval *eval, NoiseKey noise, Err *err) {
    int window = eval->window >= 2 ? eval->window : 0, most = c->model.cfg.max_positions;
    CorpusIndex x;
    if (!c->tokenizer) return err_set(err, "--model %s has no tokenizer.json", eval->model);
    if (window > most) return err_set(err, "--window is %d, max_position_embeddings of the config %d", window, most);
    if (!corpus_is(eval->data)) return evaluate_text(c, eval, window, noise, err);
    if (corpus_index_load(&x, eval->data, err)) return -1;
    int rc = evaluate_held_out(c, eval, &x, window, noise, err);
    corpus_index_free(&x);
    return rc;
}

static int print_score(const TaskScore *s, const TaskData *d, NoiseKey noise, Err *err) {
    Buffer line = {0};
    json_open(&line, NULL, '{');
    task_score_put(&line, s);
    json_put_int(&line, "truncated", d->truncated);
    if (d->row) json_put_int(&line, "cut_words", d->cut_words);
    json_put_uint(&line, "noise_seed", noise.seed);
    json_put_double(&line, "noise_scale", (double)noise.scale);
    return json_end_line(&line, stdout) ? err_set(err, "standard output cannot be written") : 0;
}

static int agree_examples(const Examples *e, Err *err) {
    char hex[SHA256_HEX];
    Sha256 hash;
    sha256_init(&hash);
    task_data_hash(e, &hash);
    sha256_hex(&hash, hex);
    return agree_on("the sha256 of --task-data", hex, err);
}

static int evaluate_labels(const Checkpoint *c, const Eval *eval, NoiseKey noise, Err *err) {
    const Config *cfg = &c->model.cfg;
    Examples e;
    TaskData d;
    TaskScore s;
    if (!config_classifies(cfg))
        return err_set(err, "--model %s has no labels: its task is %s", eval->model, task_names[cfg->task]);
    if (examples_load(&e, eval->task_data, (ExamplesFormat)eval->format, &c->labels, err)) return -1;
    int rc = agree_examples(&e, err);
    if (rc == 0) rc = task_data_encode(&d, &e, c->tokenizer, cfg, eval->truncate, err);
    if (rc == 0) {
        task_score(&c->model, &d, NULL, noise, task_majority(&e), NULL, &s);
        rc = shards_check_intact(&c->shards, err);
        if (rc == 0) rc = print_score(&s, &d, noise, err);
        task_data_free(&d);
    }
    examples_free(&e);
    return rc;
}

static int run(const CommandLine *line) {
    const Eval *e = line->values;
    NoiseKey noise = {.seed = (uint64_t)e->seed, .scale = (float)e->scale};
    Checkpoint c;
    Err err;
    if (!e->data == !e->task_data) {
        err_set(&err, e->data ? "--data and --task-data exclude each other" : "--data or --task-data is missing");
        return command_fail(line, &err, EXIT_USAGE);
    }
    if (agree_program(&err) || agree_options(line, &err) || checkpoint_open(&c, e->model, &err))
        return command_fail(line, &err, EXIT_FAILED);
    int rc = agree_on("the hash of --model", c.hash, &err);
    if (rc == 0) rc = draws_component(&c.model.cfg, e->component, &noise, &err);
    if (rc == 0) rc = e->data ? evaluate_data(&c, e, noise, &err) : evaluate_labels(&c, e, noise, &err);
    checkpoint_close(&c);
    return rc ? command_fail(line, &err, EXIT_FAILED) : EXIT_DONE;
}

#define AT(member) offsetof(Eval, member)
static const Option options[] = {
    {"model", OPTION_TEXT, AT(model), "DIR", .required = true, .help = "checkpoint to evaluate"},
    {"data", OPTION_TEXT, AT(data), "FILE|DIR",
     .help = "text to evaluate on, all of it, or what a folder of noised-train tokenize holds out"},
    {"task-data", OPTION_TEXT, AT(task_data), "FILE",
     .help = "or labelled data, for a network that knows the labels; `majority` is of its own most frequent one"},
    {"format", OPTION_CHOICE, AT(format), "NAME", .fallback = "auto", .choices = examples_formats,
     .help = "of the labelled data; auto: by the file's name"},
    {"truncate", OPTION_SWITCH, AT(truncate),
     .help = "cut the end of labelled texts beyond max_position_embeddings, and count them, in place of refusing"},
    {"window", OPTION_INT, AT(window), "N", 2, 1 << 30, .unit = "tokens", .help = "length of a window",
     .absent = "max_position_embeddings of the config"},
    {"noise-seed", OPTION_INT64, AT(seed), "N", 0, (double)SEED_MAX, "0",
     .help = "noise seed, the same for every window"},
    {"noise-component", OPTION_INT, AT(component), "N", 0, NOISE_COMPONENTS_MAX - 1, .absent = "the mean over all",
     .help = "the component that every window has, where sequences have them"},
    {"noise-scale", OPTION_REAL, AT(scale), "X", 0, 1e6, "1", .help = "factor on every sigma; 0: no noise"},
};
const Command command_eval = {
    .name = "eval",
    .summary = "Prints a checkpoint's loss on a text, or its scores on labelled data, as one line of JSON.",
    .size = sizeof(Eval),
    .options = options,
    .n_options = COUNTOF(options),
    .run = run,
};
