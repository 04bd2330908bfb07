/* The configuration and the tokenizer of a run: each depends on the other. */
#include "base/atomic_file.h"
#include "base/files.h"
#include "base/err.h"
#include "base/sha256.h"
#include "base/json/json_reader.h"
#include "model/config_check.h"
#include "model/shape.h"
#include "tokenizer/tokenizer_files.h"
#include "tokenizer/tokenizer_json.h"
#include "trainer/text/masks.h"
#include "trainer/ranks/ranks.h"
#include "trainer/run.h"
#include "weights/carry.h"
#include "weights/config_json.h"
#include "weights/foreign.h"
#include "weights/presets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENIZER_MAX = 1 << 29 };

int run_config(Run *r, Err *err) {
    const Settings *s = r->settings;
    char path[PATH_BYTES];
    if (s->config) return preset_or_file(&r->config, NULL, s->config, err);
    if (r->folder.saved) {
        r->config = r->state.config;
        return 0;
    }
    if (!s->init) return err_set(err, "--config is missing: %s holds no run to be resumed", s->out);
    if (foreign_explain(s->init, err)) return -1;
    return path_join(path, s->init, "config.json", err) ? -1 : config_json_load(&r->config, NULL, path, err);
}

/* ---- tokenizer ---- */

/* Writes tok, with a mask if the task needs one that it has not. Frees it. */
static int save_tokenizer(const Run *r, Tokenizer *tok, const char *path, Err *err) {
    if (r->config.task == TASK_FILL_MASK && tokenizer_find_special(tok, MASK_TOKEN) < 0) {
        Tokenizer *more = tokenizer_with_special(tok, MASK_TOKEN, err);
        tokenizer_free(tok);
        if (!more) return -1;
        tok = more;
    }
    int rc = tokenizer_json_save(tok, path, err);
    tokenizer_free(tok);
    return rc;
}

static int learn(Run *r, const Texts *texts, const char *path, Err *err) {
    Tokenizer *tok = NULL;
    if (r->settings->vocab_size >= BPE_FIRST_MERGE) r->config.vocab_size = (int)r->settings->vocab_size;
    printf("learning %d tokens from %d %s\n", r->config.vocab_size, texts->n_train,
           texts->n_train == 1 ? "file" : "files");
    fflush(stdout);
    BpeCorpus corpus = {.texts = texts->train, .n = (size_t)texts->n_train};
    int learnt = r->config.vocab_size - (r->config.task == TASK_FILL_MASK); /* the mask is the last */
    return bpe_train(&tok, &corpus, learnt, err) ? -1 : save_tokenizer(r, tok, path, err);
}

/* Ids mean what their tokenizer says. */
static int check_ids(const Run *r, const Tokenizer *tok, const char *from, Err *err) {
    char sum[SHA256_HEX];
    if (!r->ids_hash) return 0;
    int same = masks_same_ids(tok, r->ids_tokenizer, r->ids_hash, sum, err);
    if (same) return MIN(same, 0);
    return err_set(err, "the ids of --data were made by a tokenizer of sha256 %s, %s has one of %s", r->ids_hash, from,
                   sum);
}

static int adopt_ids(const Run *r, const char *path, Err *err) {
    Tokenizer *tok;
    if (tokenizer_json_load(&tok, r->ids_tokenizer, err)) return -1;
    if (check_ids(r, tok, r->ids_tokenizer, err) == 0) return save_tokenizer(r, tok, path, err);
    tokenizer_free(tok);
    return -1;
}

static int provide(Run *r, const Texts *texts, const char *path, Err *err) {
    const Settings *s = r->settings;
    Tokenizer *tok;
    if (s->tokenizer) {
        if (s->init)
            printf("left behind in %s: all but the weights, because --tokenizer brings other tokens\n", s->init);
        if (tokenizer_json_load(&tok, s->tokenizer, err)) return -1;
        if (check_ids(r, tok, s->tokenizer, err)) return tokenizer_free(tok), -1;
        if (r->config.task == TASK_FILL_MASK) return save_tokenizer(r, tok, path, err);
        tokenizer_free(tok);
        return file_copy(s->tokenizer, path, TOKENIZER_MAX, err);
    }
    if (!s->init) return texts ? learn(r, texts, path, err) : adopt_ids(r, path, err);
    if (tokenizer_files_load(&tok, s->init, err)) return -1;
    if (!tok) return err_set(err, "--init %s has no tokenizer.json: --tokenizer FILE names one", s->init);
    if (check_ids(r, tok, s->init, err)) return tokenizer_free(tok), -1;
    return save_tokenizer(r, tok, path, err) || carry_over(s->init, s->out, &r->config, stdout, err) ? -1 : 0;
}

int run_tokenizer(Run *r, const Texts *texts, Err *err) {
    char path[PATH_BYTES];
    if (config_classifies(&r->config))
        return err_set(err, "task is %s, but pretrain makes networks for text-generation and fill-mask",
                       task_names[r->config.task]);
    if (path_join(path, r->settings->out, "tokenizer.json", err)) return -1;
    if (!r->folder.saved && !ranks->rank && provide(r, texts, path, err)) return -1;
    if (sha256_file(path, TOKENIZER_MAX, r->tokenizer_hash, err)) return -1;
    const char *had = r->state.tokenizer_hash;
    if (had && strcmp(had, r->tokenizer_hash))
        return err_set(err, "%s was changed (sha256 %s, the run to be resumed has %s)", path, r->tokenizer_hash, had);
    return tokenizer_json_load(&r->tokenizer, path, err);
}

/* ---- both together ---- */

static void adopt_token(int *id, int from_tokenizer, const char *key) {
    if (from_tokenizer < 0 || *id == from_tokenizer) return;
    if (*id >= 0) printf("%s is %d, as in the tokenizer (the config said %d)\n", key, from_tokenizer, *id);
    *id = from_tokenizer;
}

static int compare_configs(const Config *given, const Config *saved, Err *err) {
    Config a = *given, b = *saved;
    a.torch_dtype[0] = b.torch_dtype[0] = 0; /* says how the weights are stored, not what they are */
    char *text_a = config_json_print(&a, NULL), *text_b = config_json_print(&b, NULL);
    cJSON *json_a = cJSON_Parse(text_a), *json_b = cJSON_Parse(text_b);
    const cJSON *x;
    int rc = 0;
    cJSON_ArrayForEach(x, json_a) {
        const cJSON *y = json_field(json_b, x->string);
        if (cJSON_Compare(x, y, true)) continue;
        char *value_x = cJSON_PrintUnformatted(x), *value_y = y ? cJSON_PrintUnformatted(y) : NULL;
        rc = err_set(err, "--config has %s %s, the run to be resumed has %s", x->string, value_x,
                     value_y ? value_y : "none");
        cJSON_free(value_x);
        cJSON_free(value_y);
        break;
    }
    if (rc == 0 && cJSON_GetArraySize(json_a) != cJSON_GetArraySize(json_b))
        rc = err_set(err, "--config lacks objects that the run to be resumed has");
    cJSON_Delete(json_a);
    cJSON_Delete(json_b);
    free(text_a);
    free(text_b);
    return rc;
}

int run_config_adopt(Run *r, Err *err) {
    const Settings *s = r->settings;
    int vocab = tokenizer_vocab_size(r->tokenizer), end = tokenizer_find_special(r->tokenizer, BPE_END_OF_TEXT);
    int bos = tokenizer_bos(r->tokenizer);
    /* a preset is a shape: it takes any vocabulary; a config.json means what it says */
    if (s->config && preset_is(s->config) && (s->vocab_size >= BPE_FIRST_MERGE || vocab > r->config.vocab_size))
        r->config.vocab_size = vocab;
    if (vocab > r->config.vocab_size)
        return err_set(err, "the tokenizer has %d tokens, vocab_size of the config is %d", vocab, r->config.vocab_size);
    /* without --config they are those of --init, which has learnt them */
    if (s->config || r->config.eos_token_id < 0) adopt_token(&r->config.eos_token_id, end, "eos_token_id");
    if (s->config || r->config.bos_token_id < 0)
        adopt_token(&r->config.bos_token_id, bos >= 0 ? bos : end, "bos_token_id");
    if (r->config.task == TASK_FILL_MASK)
        adopt_token(&r->config.mask_token_id, tokenizer_find_special(r->tokenizer, MASK_TOKEN), "mask_token_id");
    if (!isnan(s->dropout)) r->config.dropout = (float)s->dropout;
    if (r->folder.saved && s->config && compare_configs(&r->config, &r->state.config, err)) return -1;
    if (r->config.task == TASK_FILL_MASK && s->sample_every)
        return err_set(err, "--sample-every is %lld, but task is fill-mask, which generates no text",
                       (long long)s->sample_every);
    if (!r->config.causal && r->config.task == TASK_TEXT_GENERATION)
        return err_set(err, "causal is false: such a network sees the next token, which pretrain has it predict");
    return config_check(&r->config, err);
}
