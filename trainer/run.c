#include "trainer/run.h"

#include "base/err.h"
#include "base/files.h"
#include "base/json/json_look.h"
#include "base/machine.h"
#include "model/kernels/kernels.h"
#include "trainer/cost.h"
#include "trainer/micro_batch.h"
#include "trainer/ranks/ranks.h"
#include "trainer/agree.h"
#include "weights/checkpoint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

/* ---- resume ---- */

/* A run may be made longer or shorter. A decay that was as long as the run stays as long as it was, so that no learning
 * rate of the past would have been another. */
static int restore_settings(Run *r, Err *err) {
    Settings *s = r->settings;
    const cJSON *steps = json_field(r->state.settings, "steps");
    if (settings_restore(r->line, r->state.settings, "steps", err)) return -1;
    int64_t had = cJSON_IsString(steps) ? strtoll(steps->valuestring, NULL, 10) : s->steps;
    if (s->decay_steps > 0 || s->schedule == SCHEDULE_CONSTANT || had == s->steps) return 0;
    s->decay_steps = had;
    printf("steps: %lld, the run had %lld: the learning rate falls as it would have until step %lld%s\n",
           (long long)s->steps, (long long)had, (long long)MIN(had, s->steps),
           s->steps > had ? ", and stays at --min-lr from there" : "");
    return 0;
}

/* Without bf16 products in the processor f32 is faster, and more exact. A new run is then one in f32, and stays that
 * wherever it is resumed; one that began in bf16 keeps its bits on every processor. */
static void choose_precision(Run *r) {
    Settings *s = r->settings;
    if (s->precision != PRECISION_BF16 || kernels->train->native_pairs) return;
    if (r->folder.saved && json_is_text(json_field(r->state.settings, "precision"), "bf16")) return;
    printf("precision: f32, because the level %s has no bf16 products\n", kernels->name);
    s->precision = PRECISION_F32;
}

static int open_settings(Run *r, Err *err) {
    Settings *s = r->settings;
    if (agree_program(err)) return -1;
    if (!ranks->rank && run_open(&r->folder, s->out, s->resume, err)) return -1;
    if (agree_folder(s->out, &r->folder.saved, err)) return -1;
    if (r->folder.saved && run_state_load(&r->state, s->out, err)) return -1;
    choose_precision(r);
    if (r->folder.saved && restore_settings(r, err)) return -1;
    if (!r->folder.saved && s->data.n == 0)
        return err_set(err, "--data is missing: %s holds no run to be resumed", s->out);
    if (settings_finish(s, err) || agree_settings(r->line, err)) return -1;
    r->saved_settings = settings_save(r->line->command, s);
    return 0;
}

/* ---- data ---- */

/* A short window trains a long context in little memory; positions behind it are then as they were. */
static int choose_window(Run *r, Err *err) {
    int64_t given = r->settings->window, most = r->config.max_positions;
    if (given > most)
        return err_set(err, "--window is %lld, max_position_embeddings of the config %lld", (long long)given,
                       (long long)most);
    r->window = (int)(given >= 2 ? given : most);
    return 0;
}

/* What rank 0 has not written when it is their turn the others do not find. */
static int open_corpus(Run *r, const Texts *texts, Err *err) {
    char path[PATH_BYTES];
    if (agree_on("the sha256 of --data and --val", texts->hash, err)) return -1;
    if (r->folder.saved && strcmp(texts->hash, r->state.data_hash))
        return err_set(err, "--data or --val: the texts have changed (sha256 %s, the run to be resumed has %s)",
                       texts->hash, r->state.data_hash);
    memcpy(r->data_hash, texts->hash, sizeof r->data_hash);
    if (ranks->rank) ranks_wait();
    if (run_tokenizer(r, texts, err) || run_config_adopt(r, err) || choose_window(r, err)) return -1;
    int separator = tokenizer_find_special(r->tokenizer, BPE_END_OF_TEXT);
    if (separator < 0) separator = r->config.eos_token_id;
    if (path_join(path, r->settings->out, "tokens.bin", err) ||
        corpus_open(&r->corpus, path, texts, r->tokenizer, r->tokenizer_hash, separator, err))
        return -1;
    if (!ranks->rank) ranks_wait();
    return 0;
}

static int prepare_data(Run *r, Err *err) {
    const Settings *s = r->settings;
    Texts texts;
    if (run_config(r, err) || texts_load(&texts, s->data.items, s->data.n, s->val, err)) return -1;
    int rc = open_corpus(r, &texts, err);
    texts_free(&texts);
    return rc ? -1 : windows_init(&r->windows, r->corpus.train, r->window, (uint64_t)s->seed, err);
}

/* ---- weights ---- */

/* Noise may be added to a network, or left out of it: it begins and ends as what acts on nothing. */
static bool is_noise(const Param *p) { return strstr(p->name, ".noise.") != NULL; }

/* Copies one parameter of another checkpoint into that of this one, or draws what only this one has. */
static int take_weight(const ParamSet *from, const Param *to, uint64_t seed, const char *dir, Err *err) {
    const Param *p = params_find(from, to->name);
    Weight *w = to->weight;
    if (!p && is_noise(to)) {
        param_init(to, seed, weight_f32(w));
        return 0;
    }
    if (!p) return err_set(err, "--init %s has no %s", dir, w->name);
    const Weight *x = p->weight;
    if (x->n_dims != w->n_dims || memcmp(x->dims, w->dims, sizeof w->dims))
        return err_set(err, "--init %s: %s is [%d,%d,%d], config wants [%d,%d,%d]", dir, w->name, x->dims[0],
                       x->dims[1], x->dims[2], w->dims[0], w->dims[1], w->dims[2]);
    if (x->dtype == DTYPE_I8) return err_set(err, "--init %s: %s is I8, which cannot be trained on", dir, w->name);
    weight_read(x, 0, weight_count(w), weight_f32(w));
    return 0;
}

static int init_from(Run *r, const char *dir, Err *err) {
    const ParamSet *ps = &r->model.params;
    Checkpoint c;
    if (checkpoint_open(&c, dir, err)) return -1;
    const ParamSet *from = &c.model.params;
    uint64_t seed = (uint64_t)r->settings->seed;
    int rc = 0;
    for (int i = 0; i < from->n && rc == 0; i++)
        if (!is_noise(&from->params[i]) && !params_find(ps, from->params[i].name))
            rc = err_set(err, "--init %s has %s, which the config has not", dir, from->params[i].name);
    for (int i = 0; i < ps->n && rc == 0; i++) rc = take_weight(from, &ps->params[i], seed, dir, err);
    if (rc == 0) rc = shards_check_intact(&c.shards, err);
    checkpoint_close(&c);
    return rc;
}

static int start_sigmas(const Run *r, Err *err) {
    const ParamSet *ps = &r->model.params;
    int found = 0;
    for (int i = 0; i < ps->n; i++) {
        const char *end = strrchr(ps->params[i].name, '.');
        if (!is_noise(&ps->params[i]) || strcmp(end, ".sigma")) continue;
        Weight *w = ps->params[i].weight;
        for (size_t k = 0; k < weight_count(w); k++) weight_f32(w)[k] = (float)r->settings->sigma_start;
        found++;
    }
    return found ? 0
                 : err_set(err, "--sigma-start is %g, but the config's noise has no sigma of its own",
                           r->settings->sigma_start);
}

/* Told before it is taken: the kernel's way of saying no is to kill. */
static int check_memory(const Run *r, Err *err) {
    const Settings *s = r->settings;
    CostMemory need = cost_memory(&r->model, s->batch * micro_batch_copies(s) * r->window, s->recompute);
    RankShare share = ranks_share(s->accumulate, ranks->rank, ranks->n);
    need.weights += (size_t)ranks_levels(share.most) * params_count(&r->model.params) * sizeof(float);
    if (s->perturb) need.weights += params_count(&r->model.params) * sizeof(float);
    char text[2][MEMORY_TEXT];
    printf("memory: %s for weights and optimizer, %s for activations\n", memory_text(need.weights, text[0]),
           memory_text(need.activations, text[1]));
    fflush(stdout);
    return memory_check(need.weights + need.activations, "the training",
                        s->recompute
                            ? "a smaller --batch with a larger --accumulate takes less, and so does a shorter --window"
                            : "--recompute takes less, and so do a smaller --batch with a larger --accumulate and a "
                              "shorter --window",
                        err);
}

static void print_disk(const Run *r) {
    const Settings *s = r->settings;
    bool best = r->corpus.val.n >= 2 && s->eval_every > 0 && s->eval_every < s->steps;
    CostDisk need = cost_disk(&r->model, 1 + best, s->save_dtype == PRECISION_BF16 ? 2 : 4);
    struct statvfs disk;
    char kept[MEMORY_TEXT], more[MEMORY_TEXT], left[MEMORY_TEXT];
    printf("disk: %s for the last checkpoint%s, %s more while it is written", memory_text(need.kept, kept),
           best ? " and the best" : "", memory_text(need.more, more));
    if (statvfs(s->out, &disk) == 0)
        printf("; %s has %s left", s->out, memory_text((size_t)disk.f_bavail * disk.f_frsize, left));
    putchar('\n');
    fflush(stdout);
}

static int prepare_weights(Run *r, Err *err) {
    const ParamSet *ps = &r->model.params;
    if (r->settings->noise_draws > 1 && r->config.noise.scope == NOISE_NONE)
        return err_set(err, "--noise-draws is %lld, but the config has no noise", (long long)r->settings->noise_draws);
    if (model_init(&r->model, &r->config, err) || check_memory(r, err)) return -1;
    print_disk(r);
    optimizer_init(&r->optimizer, &r->model.params);
    if (r->folder.saved) {
        Training t = run_training(r);
        if (snapshot_load(&t, &r->step, err)) return -1;
        if (r->step <= r->settings->steps) return 0;
        return err_set(err, "--steps is %lld, the run has already done %lld", (long long)r->settings->steps,
                       (long long)r->step);
    }
    if (r->settings->init) {
        if (init_from(r, r->settings->init, err)) return -1;
    } else {
        for (int i = 0; i < ps->n; i++)
            param_init(&ps->params[i], (uint64_t)r->settings->seed, weight_f32(ps->params[i].weight));
    }
    return isnan(r->settings->sigma_start) ? 0 : start_sigmas(r, err);
}

/* ---- all ---- */

int run_prepare(Run *r, Err *err) {
    if (open_settings(r, err) == 0 && prepare_data(r, err) == 0 && prepare_weights(r, err) == 0 &&
        agree_weights(&r->optimizer, err) == 0)
        return 0;
    if (r->folder.lock >= 0) run_withdraw(&r->folder);
    return -1;
}

Training run_training(Run *r) {
    return (Training){.settings = r->settings,
                      .saved_settings = r->saved_settings,
                      .corpus = &r->corpus,
                      .tokenizer = r->tokenizer,
                      .data_hash = r->data_hash,
                      .model = &r->model,
                      .optimizer = &r->optimizer,
                      .windows = &r->windows};
}

void run_free(Run *r) {
    windows_free(&r->windows);
    optimizer_free(&r->optimizer);
    model_free(&r->model);
    corpus_close(&r->corpus);
    if (r->tokenizer) tokenizer_free(r->tokenizer);
    cJSON_Delete(r->saved_settings);
    run_state_free(&r->state);
    run_close(&r->folder);
}
