#include "server/serving.h"

#include "base/err.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/shape.h"
#include "server/api/chat/tools.h"
#include "server/api/schema/describe.h"
#include "server/api/schema/openapi.h"
#include "tokenizer/chat_files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static Dtype kv_dtype(const Options *o, const Model *m) {
    if (o->kv_dtype) return strcmp(o->kv_dtype, "f32") ? DTYPE_BF16 : DTYPE_F32;
    return model_precision(m);
}

static KvForm kv_form(const Options *o, const Model *m) {
    if (o->kv_form) return strcmp(o->kv_form, "compact") ? KV_EXPANDED : KV_COMPACT;
    return config_kv_form(&m->cfg);
}

/* To --context, and to a cache that holds less. The positions behind are never reached: no token before them knows of
 * them. */
static int shorten(Config *c, const Options *o, Err *err) {
    if (o->context > c->max_positions)
        return err_set(err, "--context is %d, max_position_embeddings of %s is %d", o->context, o->model,
                       c->max_positions);
    if (!config_generates(c)) return 0;
    if (o->context > 0) c->max_positions = o->context;
    if (o->engine.kv_tokens > 0) c->max_positions = MIN(c->max_positions, o->engine.kv_tokens);
    return 0;
}

static void warn_of_no_cache(const Options *o) {
    const char *given = o->context > 0            ? "--context"
                        : o->engine.kv_tokens > 0 ? "--kv-tokens"
                        : o->kv_dtype             ? "--kv-dtype"
                        : o->kv_form              ? "--kv"
                                                  : NULL;
    if (given) log_warning("%s does nothing here: the model keeps no cache", given);
}

/* What is about to run, told before its memory is taken. */
static void announce(const Model *m, const EngineOptions *o) {
    char cache[MEMORY_TEXT], work[MEMORY_TEXT];
    EngineFootprint needs = engine_footprint(m, o);
    log_line("%zu parameters in %s, context %d, %d %s, kernels %s%s", params_count(&m->params),
             dtype_said(params_dtype(&m->params)), m->cfg.max_positions, o->threads ? o->threads : team_size(),
             (o->threads ? o->threads : team_size()) == 1 ? "thread" : "threads", kernels->name, kernels->others);
    if (!config_generates(&m->cfg)) {
        log_line("task %s: whole sequences without a cache, a full batch takes %s", task_names[m->cfg.task],
                 memory_text(needs.work_bytes, work));
        return;
    }
    log_line("cache of up to %d tokens in %s, %s once it is full; a full batch takes %s", needs.kv_tokens,
             dtype_name(o->kv_dtype), memory_text(needs.kv_bytes, cache), memory_text(needs.work_bytes, work));
    if (o->draft)
        log_line("draft: %zu parameters in %s, %s beside them", params_count(&o->draft->params),
                 dtype_said(params_dtype(&o->draft->params)), memory_text(needs.draft_bytes, cache));
}

/* What requests get here that they would not get elsewhere. */
static void announce_defaults(const Generation *g) {
    Buffer said = {0};
    generation_print(g, &said);
    if (said.n) log_line("requests that do not say: %.*s (" GENERATION_FILE ")", (int)said.n, said.data);
    if (g->unused[0]) log_line("not used of " GENERATION_FILE ": %s", g->unused);
    buffer_free(&said);
}

static int start_scrub(Serving *s, const Options *o, Err *err) {
    if (o->scrub_seconds <= 0) return 0;
    log_line("all weights are read again and verified every %g s", o->scrub_seconds);
    return scrub_start(&s->scrub, &s->checkpoint.shards, o->scrub_seconds, err);
}

/* A tokenizer_config.json that cannot be read was refused with the tokenizer. */
static int describe(Serving *s, const Options *o, const char *dir, Err *err) {
    Err unreadable;
    cJSON *config = chat_tokenizer_config(dir, &unreadable);
    describe_tokenizer(&s->tokenizer_info, &s->api, config);
    describe_props(&s->props, &s->api, o->model, s->slots);
    cJSON_Delete(config);
    return s->tokenizer_info.failed || s->props.failed ? err_set(err, "%s: no memory to load it", dir) : 0;
}

/* The same bytes under every number, where both have any. */
static int check_tokens(const Serving *s, const Options *o, Err *err) {
    const Tokenizer *draft = s->draft.tokenizer, *own = s->checkpoint.tokenizer;
    for (int i = 0; draft && own && i < s->checkpoint.model.cfg.vocab_size; i++) {
        size_t n = 0, n_own = 0;
        const char *piece = tokenizer_piece(draft, i, &n), *piece_own = tokenizer_piece(own, i, &n_own);
        if (n != n_own || (n && memcmp(piece, piece_own, n) != 0))
            return err_set(err, "--draft %s: token %d is \"%.*s\", that of %s is \"%.*s\"", o->draft, i,
                           (int)MIN(n, 40u), n ? piece : "", o->model, (int)MIN(n_own, 40u), n_own ? piece_own : "");
    }
    return 0;
}

static int check_draft(const Serving *s, const Options *o, Err *err) {
    const Config *c = &s->checkpoint.model.cfg, *draft = &s->draft.model.cfg;
    if (!config_generates(c)) return err_set(err, "--draft: %s does not generate text", o->model);
    if (!config_generates(draft)) return err_set(err, "--draft %s does not generate text", o->draft);
    if (draft->vocab_size != c->vocab_size)
        return err_set(err, "--draft %s has a vocabulary of %d, that of %s is %d", o->draft, draft->vocab_size,
                       o->model, c->vocab_size);
    return check_tokens(s, o, err);
}

/* dir: where the checkpoint was opened. spare: another version serves. */
static int start(Serving *s, const ServingContext *ctx, const char *dir, bool spare, Err *err) {
    const Checkpoint *c = &s->checkpoint;
    const Config *config = &c->model.cfg;
    EngineOptions engine = ctx->options->engine;
    s->tokenizer = c->tokenizer ? c->tokenizer : tokenizer_ids_only();
    if (!c->tokenizer && config->input.kind != INPUT_PATCHES)
        log_line("%s has no tokenizer.json: prompts are token ids, answers have no text", ctx->options->model);
    if (shorten(&s->checkpoint.model.cfg, ctx->options, err)) return -1;
    engine.kv_dtype = kv_dtype(ctx->options, &c->model);
    engine.kv_form = kv_form(ctx->options, &c->model);
    engine.metrics = ctx->metrics;
    engine.spare = spare;
    engine.draft = ctx->options->draft ? &s->draft.model : NULL;
    if (engine.draft && check_draft(s, ctx->options, err)) return -1;
    memory_ran_out(); /* forget what was before */
    if (chat_open(&s->chat, dir, ctx->options->chat_template, config, s->tokenizer, err) ||
        (config_generates(config) && config_check_kv_form(config, engine.kv_form, err)))
        return -1;
    const CallStyle *call_style = tools_style(&s->chat);
    bool vocabulary = !config_generates(config) || vocabulary_init(&s->vocabulary, s->tokenizer) == 0;
    if (!vocabulary || memory_ran_out()) /* a template that had none would be one that cannot be run */
        return err_set(err, "%s: no memory to load it", dir);
    announce(&c->model, &engine);
    announce_defaults(&c->generation);
    if (!config_generates(config)) warn_of_no_cache(ctx->options);
    if (engine_start(&s->engine, c, &engine, err) || start_scrub(s, ctx->options, err)) return -1;
    snprintf(s->fingerprint, sizeof s->fingerprint, "%.12s-%s-%s", c->hash, NOISED_VERSION,
             model_arithmetic(&c->model));
    snprintf(s->chat_fingerprint, sizeof s->chat_fingerprint, "%s-%s", s->fingerprint,
             s->chat.program ? s->chat.name : "none");
    s->api = (ApiContext){.limits = options_limits(ctx->options, config->max_positions),
                          .defaults = ctx->options->defaults,
                          .lenient = ctx->options->lenient,
                          .no_slots = ctx->options->no_slots,
                          .guess = engine.guess || engine.draft,
                          .models = options_models(ctx->options, ctx->model_name),
                          .fingerprint = s->fingerprint,
                          .chat_fingerprint = s->chat_fingerprint,
                          .config = config,
                          .labels = &c->labels,
                          .generation = &c->generation,
                          .tokenizer = s->tokenizer,
                          .vocabulary = &s->vocabulary,
                          .chat = &s->chat,
                          .call_style = call_style};
    s->answer = (AnswerContext){.api = &s->api, .engine = s->engine, .cut = ctx->cut, .metrics = ctx->metrics};
    s->slots = engine.max_batch;
    return describe(s, ctx->options, dir, err);
}

typedef struct Loading {
    Serving *serving;
    const ServingContext *ctx;
    bool spare; /* another version serves */
    Err *err;
    int rc;
} Loading;

static int open_folder(Checkpoint *c, const char *dir, const Options *o, Err *err) {
    return (o->copy_weights ? checkpoint_open_copy : checkpoint_open)(c, dir, err);
}

/* A link to the folder is followed once: exchanged meanwhile, it does not mix two versions. */
static void load(void *arg) {
    Loading *l = arg;
    Serving *s = l->serving;
    const Options *o = l->ctx->options;
    char *real = realpath(o->model, NULL), *draft = o->draft ? realpath(o->draft, NULL) : NULL;
    const char *dir = real ? real : o->model;
    int rc = open_folder(&s->checkpoint, dir, o, l->err);
    if (rc == 0 && o->draft) rc = open_folder(&s->draft, draft ? draft : o->draft, o, l->err);
    l->rc = rc || start(s, l->ctx, dir, l->spare, l->err) ? -1 : 0;
    if (l->rc == 0) openapi_print(&s->openapi, &s->api, o->api_key_file != NULL);
    if (s->openapi.failed) l->rc = err_set(l->err, "%s: no memory to load it", dir);
    free(draft);
    free(real);
}

static int open_version(Serving **out, const ServingContext *ctx, bool spare, Err *err) {
    Serving *s = try_calloc(1, sizeof *s);
    Loading l = {.serving = s, .ctx = ctx, .spare = spare, .err = err, .rc = -1};
    if (!s || !memory_survives(load, &l)) err_set(err, "%s: no memory to load it", ctx->options->model);
    if (l.rc) {
        serving_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

int serving_open(Serving **out, const ServingContext *ctx, Err *err) { return open_version(out, ctx, false, err); }

static int check_ready(const Serving *s, const Serving *before, const char *dir, Err *err) {
    EngineStats stats;
    while (isinf((stats = engine_stats(s->engine)).heartbeat_age)) usleep(2000);
    if (stats.no_memory) return err_set(err, "%s: no memory to run it", dir);
    if (stats.damaged) return err_set(err, "%s was changed while it was loaded", dir);
    if (stats.broken) return err_set(err, "%s: the model's logits are NaN or infinite", dir);
    if (before->checkpoint.tokenizer && !s->checkpoint.tokenizer)
        return err_set(err, "%s has no tokenizer.json any more", dir);
    return 0;
}

int serving_open_ready(Serving **out, const ServingContext *ctx, const Serving *before, Err *err) {
    Serving *s;
    if (open_version(&s, ctx, true, err)) return -1;
    if (check_ready(s, before, ctx->options->model, err)) {
        serving_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

void serving_close(Serving *s) {
    if (!s) return;
    BUG_ON(s->pins);
    scrub_stop(s->scrub);
    engine_stop(s->engine);
    chat_close(&s->chat);
    buffer_free(&s->tokenizer_info);
    buffer_free(&s->props);
    buffer_free(&s->openapi);
    vocabulary_free(&s->vocabulary);
    if (s->tokenizer != s->checkpoint.tokenizer) tokenizer_free(s->tokenizer);
    checkpoint_close(&s->draft);
    checkpoint_close(&s->checkpoint);
    free(s);
}
