/* What a run reads: texts, made ids in a file of --out, or folders of ids that `noised-train tokenize` has made. */
#include "base/memory.h"
#include "base/sha256.h"
#include "model/shape.h"
#include "tokenizer/bpe_train.h"
#include "trainer/ranks/agree.h"
#include "trainer/run.h"
#include "trainer/text/corpus_map.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A short window trains a long context in little memory; positions behind it are then as they were. */
static int choose_window(Run *r, Err *err) {
    int64_t given = r->settings->window, most = r->config.max_positions;
    if (given > most)
        return err_set(err, "--window is %lld, max_position_embeddings of the config %lld", (long long)given,
                       (long long)most);
    r->window = (int)(given >= 2 ? given : most);
    if (r->settings->pieces >= r->window)
        return err_set(err, "--pieces is %lld, a window has %d tokens", (long long)r->settings->pieces, r->window);
    return 0;
}

/* Of all ranks, and of the run that is resumed. */
static int check_hash(Run *r, const char *hash, const char *what, Err *err) {
    if (agree_on("the sha256 of --data and --val", hash, err)) return -1;
    if (r->folder.saved && strcmp(hash, r->state.data_hash))
        return err_set(err, "--data or --val: %s have changed (sha256 %s, the run to be resumed has %s)", what, hash,
                       r->state.data_hash);
    memcpy(r->data_hash, hash, sizeof r->data_hash);
    return 0;
}

static int open_tokens(Run *r, const Texts *texts, Err *err) {
    char path[PATH_BYTES];
    int separator = tokenizer_find_special(r->tokenizer, BPE_END_OF_TEXT);
    if (separator < 0) separator = r->config.eos_token_id;
    if (path_join(path, r->settings->out, "tokens.bin", err)) return -1;
    return corpus_open(&r->corpora[r->n_corpora++], path, texts, r->tokenizer, r->tokenizer_hash, separator, err);
}

static int open_texts(Run *r, Err *err) {
    const Settings *s = r->settings;
    Texts texts;
    if (texts_load(&texts, s->data.items, s->data.n, s->val, err)) return -1;
    int rc = check_hash(r, texts.hash, "the texts", err);
    /* what rank 0 has not written when it is their turn the others do not find */
    if (rc == 0 && ranks->rank) ranks_wait();
    if (rc == 0 && (run_tokenizer(r, &texts, err) || run_config_adopt(r, err) || choose_window(r, err) ||
                    open_tokens(r, &texts, err)))
        rc = -1;
    if (rc == 0 && !ranks->rank) ranks_wait();
    texts_free(&texts);
    return rc;
}

/* ---- folders ---- */

typedef struct Source {
    char dir[PATH_BYTES];
    int weight;
    CorpusIndex index;
} Source;

static int split_weight(const char *item, Source *s, Err *err) {
    *s = (Source){.weight = 1};
    const char *digits = corpus_item(item, s->dir);
    if (!digits) return 0;
    long weight = strtol(digits, NULL, 10);
    if (weight < 1 || weight > WINDOWS_WEIGHT_MAX)
        return err_set(err, "--data %s: the weight is %s, it must be 1 to %d", item, digits, WINDOWS_WEIGHT_MAX);
    s->weight = (int)weight;
    return 0;
}

static int load_index(const Run *r, Source *s, const Source *first, Err *err) {
    if (!corpus_is(s->dir))
        return err_set(err,
                       "--data %s is no corpus, and only such can have weights or be read beside others: "
                       "noised-train tokenize makes one of texts",
                       s->dir);
    if (corpus_index_load(&s->index, s->dir, err)) return -1;
    if (s->index.unfinished)
        return err_set(err, "--data %s is not finished: its noised-train tokenize has to go on", s->dir);
    if (strcmp(s->index.tokenizer, first->index.tokenizer))
        return err_set(err, "--data %s has a tokenizer of sha256 %s, %s one of %s", s->dir, s->index.tokenizer,
                       first->dir, first->index.tokenizer);
    if (r->settings->val)
        return err_set(err, "--val is %s, but --data %s holds out what it was told to: noised-train tokenize --val",
                       r->settings->val, s->dir);
    if (r->settings->vocab_size >= BPE_FIRST_MERGE)
        return err_set(err, "--vocab-size is %lld, but --data %s brings its own %d tokens",
                       (long long)r->settings->vocab_size, s->dir, s->index.vocab_size);
    return 0;
}

/* One is what its index says; several are these and their weights. */
static void hash_sources(const Source *sources, int n, char hex[SHA256_HEX]) {
    Sha256 hash;
    sha256_init(&hash);
    for (int i = 0; i < n; i++) {
        corpus_index_sha256(&sources[i].index, hex);
        sha256_add(&hash, hex, SHA256_HEX);
        sha256_add(&hash, &sources[i].weight, sizeof sources[i].weight);
    }
    if (n > 1) sha256_hex(&hash, hex);
}

/* Held-out rows follow each other, those of the sources in their order. */
static int map_sources(Run *r, const Source *sources, int n, Err *err) {
    for (int i = 0; i < n; i++) {
        if (corpus_map(&r->corpora[r->n_corpora++], sources[i].dir, &sources[i].index, err)) return -1;
        r->weights[i] = sources[i].weight;
    }
    for (int i = n - 1; i > 0; i--) token_span_join(&r->corpora[i - 1].val, &r->corpora[i].val);
    return 0;
}

static int open_sources(Run *r, Source *sources, int n, Err *err) {
    char hash[SHA256_HEX], tokenizer[PATH_BYTES];
    for (int i = 0; i < n; i++)
        if (load_index(r, &sources[i], sources, err)) return -1;
    hash_sources(sources, n, hash);
    if (check_hash(r, hash, "the folders of ids, their order or their weights", err) ||
        path_join(tokenizer, sources->dir, "tokenizer.json", err))
        return -1;
    r->ids_tokenizer = tokenizer;
    r->ids_hash = sources->index.tokenizer;
    if (ranks->rank) ranks_wait();
    int rc = run_tokenizer(r, NULL, err) || run_config_adopt(r, err) || choose_window(r, err) ||
                     map_sources(r, sources, n, err)
                 ? -1
                 : 0;
    if (rc == 0 && !ranks->rank) ranks_wait();
    r->ids_tokenizer = r->ids_hash = NULL;
    return rc;
}

/* ---- both ---- */

static int check_sources(const Run *r, Err *err) {
    int components = config_noise_components(&r->config);
    if (r->settings->noise_assign != ASSIGN_SOURCE || components == r->n_corpora) return 0;
    return err_set(err, "--noise-assign source: --data are %d folders, the config has %d noise.components",
                   r->n_corpora, components);
}

/* A text of one's own that nothing can be read of. */
static int check_val(const Run *r, Err *err) {
    const char *val = r->settings->val;
    size_t n = r->corpora->val.n;
    if (!val || !strcmp(val, VAL_NONE) || n >= 2 || r->folder.saved) return 0;
    return err_set(err, "--val %s has %zu tokens, an evaluation needs 2", val, n);
}

int run_data(Run *r, Err *err) {
    const OptionList *data = &r->settings->data;
    Source *sources = xcalloc((size_t)data->n, sizeof *sources);
    TokenSpan *spans = xcalloc((size_t)data->n, sizeof *spans);
    bool folders = false;
    int rc = run_config(r, err);
    r->corpora = xcalloc((size_t)data->n, sizeof *r->corpora);
    r->weights = xcalloc((size_t)data->n, sizeof *r->weights);
    r->weights[0] = 1;
    for (int i = 0; i < data->n && rc == 0; i++) {
        rc = split_weight(data->items[i], &sources[i], err);
        folders |= strcmp(sources[i].dir, data->items[i]) || corpus_is(sources[i].dir);
    }
    if (rc == 0) rc = folders ? open_sources(r, sources, data->n, err) : open_texts(r, err);
    if (rc == 0) rc = check_sources(r, err);
    if (rc == 0) rc = check_val(r, err);
    for (int i = 0; i < r->n_corpora; i++) spans[i] = r->corpora[i].train;
    if (rc == 0)
        rc = windows_init_mixed(&r->windows, spans, r->weights, r->n_corpora, r->window, (uint64_t)r->settings->seed,
                                err);
    for (int i = 0; i < data->n; i++) corpus_index_free(&sources[i].index);
    free(sources);
    free(spans);
    return rc;
}
