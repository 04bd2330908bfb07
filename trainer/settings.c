#include "trainer/settings.h"

#include "base/err.h"
#include "base/random.h"
#include "tokenizer/bpe_train.h"

#include <math.h>
#include <string.h>

static const char *const schedule_names[] = {"cosine", "linear", "constant", NULL};
static const char *const perturb_names[] = {"none", "all-before", "all-after", "layer-before", "layer-after", NULL};
static const char *const precision_names[] = {"f32", "bf16", NULL};

enum { DEFAULT_WARMUP = 100 };
static const double many = 1e12;

static Flag text_flag(const char *name, const char **value, FlagMemory memory, const char *hint, const char *help) {
    return (Flag){.name = name, .kind = FLAG_TEXT, .value = value, .memory = memory, .hint = hint, .help = help};
}

static Flag integer_flag(const char *name, int64_t *value, FlagMemory memory, double low, double high,
                         const char *help) {
    return (Flag){.name = name,
                  .kind = FLAG_INTEGER,
                  .value = value,
                  .memory = memory,
                  .low = low,
                  .high = high,
                  .hint = "N",
                  .help = help};
}

static Flag real_flag(const char *name, FlagKind kind, double *value, double high, const char *help) {
    return (Flag){.name = name,
                  .kind = kind,
                  .value = value,
                  .memory = FLAG_FIXED,
                  .high = high,
                  .hint = kind == FLAG_PAIR ? "X,Y" : "X",
                  .help = help};
}

static Flag choice_flag(const char *name, int *value, const char *const *choices, const char *hint, const char *help) {
    return (Flag){.name = name,
                  .kind = FLAG_CHOICE,
                  .value = value,
                  .memory = FLAG_FIXED,
                  .choices = choices,
                  .hint = hint,
                  .help = help};
}

static Flag switch_flag(const char *name, bool *value, FlagMemory memory, const char *help) {
    return (Flag){.name = name, .kind = FLAG_SWITCH, .value = value, .memory = memory, .hint = "", .help = help};
}

static void declare_flags(Settings *s) {
    const Flag flags[] = {
        text_flag("config", &s->config, FLAG_FORGET, "FILE|PRESET",
                  "config.json, or a preset such as noiseformer-v2-tiny (default: that of --init)"),
        {.name = "data",
         .kind = FLAG_FILES,
         .value = &s->data,
         .memory = FLAG_FIXED,
         .hint = "FILE...",
         .help = "texts to train on"},
        text_flag("out", &s->out, FLAG_FORGET, "DIR", "where the checkpoint and everything else goes"),
        text_flag("tokenizer", &s->tokenizer, FLAG_FIXED, "FILE", "tokenizer.json to use instead of learning one"),
        integer_flag("vocab-size", &s->vocab_size, FLAG_FIXED, BPE_FIRST_MERGE, 1 << 20,
                     "tokens to learn (default: vocab_size of the config)"),
        text_flag("val", &s->val, FLAG_FIXED, "FILE|none", "text to evaluate on (default: the last 5% of every file)"),
        text_flag("init", &s->init, FLAG_FIXED, "DIR", "start from the weights and tokenizer of this checkpoint"),
        switch_flag("resume", &s->resume, FLAG_FORGET, "continue the run in --out; flags not given are its own"),
        integer_flag("steps", &s->steps, FLAG_FIXED, 1, many, "optimizer steps"),
        integer_flag("batch", &s->batch, FLAG_FIXED, 1, 65535, "windows per micro-batch"),
        integer_flag("accumulate", &s->accumulate, FLAG_FIXED, 1, 1 << 20, "micro-batches per step"),
        real_flag("lr", FLAG_REAL, &s->lr, 100, "peak learning rate"),
        real_flag("min-lr", FLAG_REAL, &s->min_lr, 100, "learning rate of the last step (default: a tenth of --lr)"),
        integer_flag("warmup", &s->warmup, FLAG_FIXED, 0, many,
                     "steps up to the peak (default: 100, a tenth of --steps if that is less)"),
        choice_flag("schedule", &s->schedule, schedule_names, "KIND", "cosine, linear or constant after warm-up"),
        real_flag("weight-decay", FLAG_REAL, &s->weight_decay, 100, "decoupled decay of matrices"),
        real_flag("clip", FLAG_REAL, &s->clip, 1e9, "bound on the gradient's norm; 0: none"),
        real_flag("betas", FLAG_PAIR, s->betas, 0.999999, "AdamW's two averages"),
        real_flag("kl-weight", FLAG_REAL, &s->kl_weight, 1e6, "weight of the noise KL in the loss"),
        switch_flag("noise-per-sequence", &s->noise_per_sequence, FLAG_FIXED,
                    "noise of its own for every window of a micro-batch"),
        choice_flag("perturb", &s->perturb, perturb_names, "MODE",
                    "weight noise: none, all-before, all-after, layer-before, layer-after"),
        real_flag("perturb-sigma", FLAG_REAL, &s->perturb_sigma, 100, "its standard deviation"),
        choice_flag("precision", &s->precision, precision_names, "f32|bf16",
                    "operands of the training's matrix products"),
        choice_flag("save-dtype", &s->save_dtype, precision_names, "f32|bf16", "matrices in model.safetensors"),
        integer_flag("seed", &s->seed, FLAG_FIXED, 0, (double)SEED_MAX, "of every random draw"),
        integer_flag("threads", &s->threads, FLAG_FORGET, 1, 1024, "threads (default: one per processor)"),
        switch_flag("recompute", &s->recompute, FLAG_FORGET,
                    "less memory, slower, the same bits: activations of one layer at a time"),
        integer_flag("eval-every", &s->eval_every, FLAG_REMEMBER, 0, many,
                     "steps between evaluations on 64 held-out windows (all at the end); 0: none"),
        integer_flag("save-every", &s->save_every, FLAG_REMEMBER, 0, many, "steps between checkpoints; 0: at the end"),
    };
    _Static_assert(COUNTOF(flags) <= SETTINGS_FLAGS, "the table is full");
    memcpy(s->flags, flags, sizeof flags);
    s->n_flags = (int)COUNTOF(flags);
}

void settings_init(Settings *s) {
    *s = (Settings){
        .steps = 1000,
        .batch = 16,
        .accumulate = 1,
        .warmup = -1,
        .seed = 1,
        .eval_every = 200,
        .save_every = 200,
        .lr = 1e-3,
        .min_lr = NAN,
        .weight_decay = 0.1,
        .clip = 1,
        .betas = {0.9, 0.95},
        .kl_weight = 5e-6,
        .perturb_sigma = NAN,
    };
    declare_flags(s);
}

void settings_free(Settings *s) { flags_free(s->flags, s->n_flags); }

int settings_finish(Settings *s, Err *err) {
    if (isnan(s->min_lr)) s->min_lr = s->lr / 10;
    if (s->warmup < 0) s->warmup = MIN(DEFAULT_WARMUP, s->steps / 10);
    if (s->lr == 0) return err_set(err, "--lr is 0: nothing would be learnt");
    if (s->warmup > s->steps)
        return err_set(err, "--warmup is %lld, longer than the run: --steps is %lld", (long long)s->warmup,
                       (long long)s->steps);
    if (s->min_lr > s->lr) return err_set(err, "--min-lr is %g, above --lr %g", s->min_lr, s->lr);
    if (s->tokenizer && s->vocab_size)
        return err_set(err, "--tokenizer %s and --vocab-size %lld exclude each other", s->tokenizer,
                       (long long)s->vocab_size);
    if (s->init && s->vocab_size)
        return err_set(err, "--init %s brings its own tokens, --vocab-size %lld cannot learn others", s->init,
                       (long long)s->vocab_size);
    if (s->perturb != PERTURB_NONE && isnan(s->perturb_sigma))
        return err_set(err, "--perturb %s needs --perturb-sigma", perturb_names[s->perturb]);
    if (s->perturb == PERTURB_NONE && !isnan(s->perturb_sigma))
        return err_set(err, "--perturb-sigma %g needs --perturb", s->perturb_sigma);
    return 0;
}

Schedule settings_schedule(const Settings *s) {
    return (Schedule){
        .kind = (ScheduleKind)s->schedule, .lr = s->lr, .min_lr = s->min_lr, .warmup = s->warmup, .steps = s->steps};
}
