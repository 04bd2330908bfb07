/* What stands ready before the first epoch. */
#include "base/memory.h"
#include "model/config_check.h"
#include "model/network.h"
#include "model/shape.h"
#include "tokenizer/tokenizer_json.h"
#include "trainer/tasks/entities.h"
#include "trainer/tasks/examples_load.h"
#include "trainer/finetune.h"
#include "weights/config_json.h"
#include "weights/presets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const task_splits[] = {"train", "dev", "test"};

/* A preset is a shape: it takes any words, vectors and labels; a config.json means what it says. */
static bool is_shape(const FinetuneSettings *s) { return s->config && preset_is(s->config); }

static int open_vectors(Finetune *f, Err *err) {
    const FinetuneSettings *s = f->settings;
    Config *c = &f->config;
    bool wanted = c->input.kind == INPUT_VECTORS;
    if (wanted != (s->vectors != NULL))
        return err_set(err, wanted ? "--vectors is missing: %s reads word vectors" : "--vectors: %s reads none",
                       s->config);
    if (!wanted) return 0;
    if (vectors_load(&f->vectors, s->vectors, err)) return -1;
    if (is_shape(s)) {
        c->vocab_size = f->vectors.n;
        c->input.size = f->vectors.size;
    }
    f->tokenizer = f->vectors.tokenizer;
    if (f->vectors.n == c->vocab_size && f->vectors.size == c->input.size) return 0;
    return err_set(err, "%s has %d words (the unknown one among them) of %d, vocab_size is %d and input.size %d",
                   s->vectors, f->vectors.n, f->vectors.size, c->vocab_size, c->input.size);
}

static int open_tokenizer(Finetune *f, Err *err) {
    const FinetuneSettings *s = f->settings;
    if (!s->tokenizer) return 0;
    if (tokenizer_json_load(&f->owned, s->tokenizer, err)) return -1;
    f->tokenizer = f->owned;
    int words = tokenizer_vocab_size(f->owned);
    if (is_shape(s)) f->config.vocab_size = words;
    return words <= f->config.vocab_size ? 0
                                         : err_set(err, "--tokenizer %s has %d tokens, vocab_size of the config is %d",
                                                   s->tokenizer, words, f->config.vocab_size);
}

static int open_network(Finetune *f, Err *err) {
    const FinetuneSettings *s = f->settings;
    if (s->config)
        return preset_or_file(&f->config, &f->labels, s->config, err) || open_vectors(f, err) || open_tokenizer(f, err)
                   ? -1
                   : 0;
    if (checkpoint_open(&f->init, s->init, err)) return -1;
    f->tokenizer = f->init.tokenizer;
    f->config = f->init.model.cfg;
    f->labels = f->init.labels;
    if (s->freeze && f->config.network)
        return err_set(err, "--freeze: network %s learns as a whole", f->config.network->name);
    return 0;
}

/* Labels of a network that has some stay what they are; otherwise the training data say which there are. */
static int load_examples(Finetune *f, Err *err) {
    const FinetuneSettings *s = f->settings;
    const char *const paths[SPLITS] = {s->train, s->dev, s->test};
    bool fixed = config_classifies(&f->config) && !is_shape(s);
    int rc = 0;
    for (int k = 0; k < SPLITS && rc == 0; k++) {
        const Labels *labels = fixed ? &f->labels : k ? &f->examples[SPLIT_TRAIN].labels : NULL;
        if (paths[k]) rc = examples_load(&f->examples[k], paths[k], (ExamplesFormat)s->format, labels, err);
    }
    return rc;
}

/* A task for a network that has none yet. */
static int adopt_task(Config *c, const Examples *e, Err *err) {
    if (e->kind == EXAMPLES_IMAGES)
        return err_set(err, "%s holds images, but task of the config is %s", e->path, task_names[c->task]);
    c->task = e->kind == EXAMPLES_TEXTS ? TASK_TEXT_CLASSIFICATION : TASK_TOKEN_CLASSIFICATION;
    c->pool = POOL_LAST;
    c->mask_token_id = 0;
    return 0;
}

/* The data's labels, where the network has none that are fixed. */
static int adopt_labels(Finetune *f, Err *err) {
    const Examples *e = &f->examples[SPLIT_TRAIN];
    Config *c = &f->config;
    if (config_classifies(c) && !is_shape(f->settings)) return 0;
    if (!config_classifies(c) && adopt_task(c, e, err)) return -1;
    if (e->labels.n < 2) return err_set(err, "%s: all labels are \"%s\"", e->path, e->labels.names);
    f->labels = e->labels;
    c->n_labels = e->labels.n;
    return 0;
}

static int choose_config(Finetune *f, Err *err) {
    const FinetuneSettings *s = f->settings;
    const Examples *e = &f->examples[SPLIT_TRAIN];
    if (adopt_labels(f, err)) return -1;
    if (s->pool && !config_pools(&f->config))
        return err_set(err, "--pool is for texts and images, task is %s", task_names[f->config.task]);
    if (s->pool) f->config.pool = (Pool)(s->pool - 1);
    if (!isnan(s->dropout)) f->config.dropout = (float)s->dropout;
    bool mixes = s->mixing.mixup > 0 || s->mixing.cutmix > 0;
    if (mixes && (e->kind != EXAMPLES_IMAGES || s->freeze))
        return err_set(err, "--mixup and --cutmix are for images, and not with --freeze");
    bool tagged = e->kind == EXAMPLES_SENTENCES && entities_tagged(&e->labels);
    f->metric = s->metric ? (TaskMetric)(s->metric - 1) : tagged ? METRIC_ENTITY_F1 : METRIC_ACCURACY;
    if (f->metric == METRIC_ENTITY_F1 && !tagged)
        return err_set(err, "--metric entity-f1: the labels of %s are no tags of chunks such as B-PER", e->path);
    return config_check(&f->config, err);
}

/* Most would be empty, and what is in the others would weigh as much more. */
static int check_accumulate(const Finetune *f, Err *err) {
    const Examples *e = &f->examples[SPLIT_TRAIN];
    int64_t micro_batches = f->settings->accumulate;
    if (micro_batches <= e->n) return 0;
    return err_set(err, "--accumulate is %lld, but %s has %d examples, not one for every micro-batch",
                   (long long)micro_batches, e->path, e->n);
}

static void hash_all(Finetune *f) {
    Sha256 hash;
    char *config = config_json_print(&f->config, &f->labels);
    sha256_init(&hash);
    sha256_add(&hash, config, strlen(config));
    sha256_add(&hash, f->init.hash, sizeof f->init.hash);
    for (int k = 0; k < SPLITS; k++)
        if (f->examples[k].path) task_data_hash(&f->examples[k], &hash);
    size_t values = (size_t)f->vectors.n * (size_t)f->vectors.size;
    if (values) sha256_add(&hash, f->vectors.values, values * sizeof(float));
    sha256_hex(&hash, f->hash);
    free(config);
}

int finetune_open(Finetune *f, const FinetuneSettings *s, Err *err) {
    *f = (Finetune){.settings = s};
    if (open_network(f, err) || load_examples(f, err) || check_accumulate(f, err) || choose_config(f, err)) return -1;
    for (int k = 0; k < SPLITS; k++)
        if (f->examples[k].path &&
            task_data_encode(&f->data[k], &f->examples[k], f->tokenizer, &f->config, s->truncate, err))
            return -1;
    f->majority = task_majority(&f->examples[SPLIT_TRAIN]);
    hash_all(f);
    return f->tokenizer ? tokenizer_json_sha256(f->tokenizer, f->tokenizer_hash, err) : 0;
}

void finetune_close(Finetune *f) {
    for (int k = 0; k < SPLITS; k++) {
        if (f->data[k].examples) task_data_free(&f->data[k]);
        if (f->examples[k].path) examples_free(&f->examples[k]);
        free(f->features[k]);
    }
    if (f->owned) tokenizer_free(f->owned);
    vectors_free(&f->vectors);
    if (f->init.hash[0]) checkpoint_close(&f->init);
    *f = (Finetune){0};
}

int64_t finetune_steps(const Finetune *f) {
    int64_t step = f->settings->batch * f->settings->accumulate;
    return (f->examples[SPLIT_TRAIN].n + step - 1) / step;
}

bool finetune_has_noise(const Finetune *f) {
    return f->config.noise.scope != NOISE_NONE && f->settings->noise_scale > 0;
}
