#include "trainer/settings.h"

#include "base/err.h"
#include "base/random.h"
#include "model/ops/op.h"
#include "tokenizer/bpe_train.h"
#include "weights/presets.h"

#include <math.h>
#include <string.h>

static const char *const draws_names[] = {"importance", "best", NULL};
const char *const settings_assigns[] = {"hard", "balanced", "soft", "draw", "source", NULL};

enum { DEFAULT_WARMUP = 100 };
#define MANY 1e12

#define AT(member) offsetof(Settings, member)
const Option settings_options[SETTINGS_N] = {
    {"config", OPTION_TEXT, AT(config), "FILE|PRESET", .offer = preset_name,
     .help = "config.json, or a preset such as noiseformer-v2-tiny", .absent = "that of --init"},
    {"data", OPTION_LIST, AT(data), "FILE|DIR[:WEIGHT]...", .required = true, .unless = "resume", .tag = SETTING_FIXED,
     .help = "texts to train on, or folders of noised-train tokenize, mixed by weight"},
    {"out", OPTION_TEXT, AT(out), "DIR", .required = true, .help = "where the checkpoint and everything else goes"},
    {"tokenizer", OPTION_TEXT, AT(tokenizer), "FILE", .tag = SETTING_FIXED,
     .help = "tokenizer.json to use instead of learning one"},
    {"vocab-size", OPTION_INT64, AT(vocab_size), "N", BPE_FIRST_MERGE, 1 << 20, .tag = SETTING_FIXED,
     .help = "tokens to learn", .absent = "vocab_size of the config"},
    /* it may lie elsewhere now: the hash of the texts is compared */
    {"val", OPTION_TEXT, AT(val), "FILE|none", .tag = SETTING_REMEMBER, .help = "text to evaluate on",
     .absent = "the last 5% of every file"},
    {"init", OPTION_TEXT, AT(init), "DIR", .tag = SETTING_FIXED,
     .help = "start from the weights and tokenizer of this checkpoint"},
    {"resume", OPTION_SWITCH, AT(resume), .help = "continue the run in --out; options not given are its own"},
    {"steps", OPTION_INT64, AT(steps), "N", 1, MANY, "1000", .tag = SETTING_FIXED,
     .help = "optimizer steps; --resume with more of them extends the run, whose decay keeps its length"},
    {"batch", OPTION_INT64, AT(batch), "N", 1, MOST_WINDOWS, "16", "windows", .help = "windows per micro-batch",
     .tag = SETTING_FIXED},
    {"window", OPTION_INT64, AT(window), "N", 2, 1 << 30, .unit = "tokens", .tag = SETTING_FIXED,
     .help = "length of a window", .absent = "max_position_embeddings of the config"},
    {"pieces", OPTION_INT64, AT(pieces), "N", 0, 1 << 30, "0", "tokens", .tag = SETTING_FIXED,
     .help = "every other window is read in pieces of so many, which share its noise; 0: whole"},
    {"accumulate", OPTION_INT64, AT(accumulate), "N", 1, 1 << 20, "1", .help = "micro-batches per step",
     .tag = SETTING_FIXED},
    {"lr", OPTION_REAL, AT(recipe.lr), "X", 0, 100, "0.001", .help = "peak learning rate", .tag = SETTING_FIXED},
    {"min-lr", OPTION_REAL, AT(recipe.min_lr), "X", 0, 100, .tag = SETTING_FIXED,
     .help = "learning rate at the end of the decay", .absent = "a tenth of --lr"},
    {"warmup", OPTION_INT64, AT(warmup), "N", 0, MANY, .unit = "steps", .tag = SETTING_FIXED,
     .help = "steps up to the peak", .absent = "100, a tenth of --steps if that is less"},
    {"schedule", OPTION_CHOICE, AT(recipe.schedule), "KIND", .fallback = "cosine", .choices = recipe_schedules,
     .tag = SETTING_FIXED, .help = "learning rate after warm-up"},
    {"decay-steps", OPTION_INT64, AT(decay_steps), "N", 1, MANY, .unit = "steps", .tag = SETTING_FIXED,
     .help = "step that reaches --min-lr; behind --steps, the schedule is cut there", .absent = "--steps"},
    {"optimizer", OPTION_CHOICE, AT(recipe.optimizer), "KIND", .fallback = "adamw", .choices = recipe_optimizers,
     .tag = SETTING_FIXED, .help = "sgd is plain gradient descent"},
    {"momentum", OPTION_REAL, AT(recipe.momentum), "X", 0, 0.999999, "0", .help = "of --optimizer sgd",
     .tag = SETTING_FIXED},
    {"dropout", OPTION_REAL, AT(dropout), "X", 0, 0.999999, .tag = SETTING_FIXED,
     .help = "share of the rows' elements that is dropped between the layers", .absent = "dropout of the config"},
    {"weight-decay", OPTION_REAL, AT(recipe.weight_decay), "X", 0, 100, "0.1", .help = "decoupled decay of matrices",
     .tag = SETTING_FIXED},
    {"clip", OPTION_REAL, AT(recipe.clip), "X", 0, 1e9, "1", .help = "bound on the gradient's norm; 0: none",
     .tag = SETTING_FIXED},
    {"betas", OPTION_PAIR, AT(recipe.betas), "X,Y", 0, 0.999999, "0.9,0.95", .help = "AdamW's two averages",
     .tag = SETTING_FIXED},
    {"kl-weight", OPTION_REAL, AT(kl_weight), "X", 0, 1e6, "5e-06", .help = "weight of the noise KL in the loss",
     .tag = SETTING_FIXED},
    {"sigma-start", OPTION_REAL, AT(sigma_start), "X", 0, 1e6, .tag = SETTING_FIXED,
     .help = "what every sigma of the noise starts from", .absent = "drawn from N(0, 0.01), or that of --init"},
    {"noise-warmup", OPTION_INT64, AT(noise_warmup), "N", 0, 1e12, "0", .tag = SETTING_FIXED,
     .help = "steps over which the noise grows from nothing to what sigma says"},
    {"noise-per-sequence", OPTION_SWITCH, AT(noise_per_sequence), .tag = SETTING_FIXED,
     .help = "noise of its own for every window of a micro-batch"},
    {"noise-draws", OPTION_INT64, AT(noise_draws), "N", 1, NOISE_DRAWS_MAX, "1", .tag = SETTING_FIXED,
     .help = "noises that every window is seen under; the better one explains it, the more it learns"},
    {"noise-draws-weight", OPTION_CHOICE, AT(noise_draws_weight), "HOW", .fallback = "importance",
     .choices = draws_names, .tag = SETTING_FIXED,
     .help = "by its share of the likelihood, or the likeliest noise alone"},
    {"noise-assign", OPTION_CHOICE, AT(noise_assign), "HOW", .fallback = "hard", .choices = settings_assigns,
     .tag = SETTING_FIXED,
     .help =
         "what a window learns under where sequences have components: the likeliest, the likeliest with all of them "
         "used alike, all by their share of the likelihood, one that is drawn, or that of its folder of --data"},
    {"perturb", OPTION_CHOICE, AT(recipe.perturb), "MODE", .fallback = "none", .choices = recipe_perturbs,
     .tag = SETTING_FIXED, .help = "weight noise"},
    {"perturb-sigma", OPTION_REAL, AT(recipe.perturb_sigma), "X", 0, 100, .tag = SETTING_FIXED,
     .help = "standard deviation of the weight noise"},
    {"precision", OPTION_CHOICE, AT(recipe.precision), "TYPE", .fallback = "f32", .choices = recipe_precisions,
     .tag = SETTING_FIXED,
     .help = "operands of the training's matrix products; f32 where the processor is no faster at those of bf16"},
    {"save-dtype", OPTION_CHOICE, AT(save_dtype), "TYPE", .fallback = "f32", .choices = recipe_precisions,
     .tag = SETTING_FIXED, .help = "of the matrices in model.safetensors"},
    {"seed", OPTION_INT64, AT(seed), "N", 0, (double)SEED_MAX, "1", .help = "seed of every random draw",
     .tag = SETTING_FIXED},
    {"threads", OPTION_INT, AT(threads), "N", 0, 1024, "0",
     .help = "threads that compute; 0: all cores that this process may use"},
    {"recompute", OPTION_SWITCH, AT(recompute),
     .help = "less memory, slower, the same bits: activations of one layer at a time"},
    {"eval-every", OPTION_INT64, AT(eval_every), "N", 0, MANY, "200", "steps",
     .help = "steps between evaluations on 64 held-out windows (all at the end); 0: at the end alone",
     .tag = SETTING_REMEMBER},
    {"save-every", OPTION_INT64, AT(save_every), "N", 0, MANY, "200", "steps",
     .help = "steps between checkpoints; 0: at the end", .tag = SETTING_REMEMBER},
    {"sample-every", OPTION_INT64, AT(sample_every), "N", 0, MANY, "0", "steps", .tag = SETTING_REMEMBER,
     .help = "steps between samples, which go on from the first held-out words; 0: none"},
};

int settings_check(const CommandLine *line, Err *err) {
    Settings s = *(const Settings *)line->values; /* a copy: the defaults are filled in when the saved run is known */
    if (recipe_check_given(&s.recipe, line, err)) return -1;
    if (s.resume) return 0;
    if (!s.config && !s.init) return err_set(err, "--config is missing");
    return settings_finish(&s, err);
}

int settings_finish(Settings *s, Err *err) {
    bool vocab_given = s->vocab_size >= BPE_FIRST_MERGE;
    if (isnan(s->recipe.min_lr)) s->recipe.min_lr = s->recipe.lr / 10;
    if (s->warmup < 0) s->warmup = MIN(DEFAULT_WARMUP, s->steps / 10);
    if (recipe_check(&s->recipe, err)) return -1;
    if (s->warmup > s->steps)
        return err_set(err, "--warmup is %lld, longer than the run: --steps is %lld", (long long)s->warmup,
                       (long long)s->steps);
    if (s->decay_steps > 0 && s->recipe.schedule == SCHEDULE_CONSTANT)
        return err_set(err, "--decay-steps is %lld, but --schedule constant never decays", (long long)s->decay_steps);
    if (s->decay_steps > 0 && s->decay_steps < s->warmup)
        return err_set(err, "--decay-steps is %lld, below --warmup %lld", (long long)s->decay_steps,
                       (long long)s->warmup);
    if (s->noise_draws_weight == DRAWS_BEST && s->noise_draws == 1)
        return err_set(err, "--noise-draws-weight best needs --noise-draws");
    if (s->batch * s->noise_draws > MOST_WINDOWS)
        return err_set(err, "--batch %lld times --noise-draws %lld is above %d", (long long)s->batch,
                       (long long)s->noise_draws, MOST_WINDOWS);
    if (s->tokenizer && vocab_given)
        return err_set(err, "--tokenizer %s and --vocab-size %lld exclude each other", s->tokenizer,
                       (long long)s->vocab_size);
    if (s->init && vocab_given)
        return err_set(err, "--init %s brings its own tokens, --vocab-size %lld cannot learn others", s->init,
                       (long long)s->vocab_size);
    if (s->recipe.momentum > 0 && s->recipe.optimizer != OPTIMIZER_SGD)
        return err_set(err, "--momentum %g needs --optimizer sgd", s->recipe.momentum);
    if (s->recipe.perturb != PERTURB_NONE && isnan(s->recipe.perturb_sigma))
        return err_set(err, "--perturb %s needs --perturb-sigma", recipe_perturbs[s->recipe.perturb]);
    if (s->recipe.perturb == PERTURB_NONE && !isnan(s->recipe.perturb_sigma))
        return err_set(err, "--perturb-sigma %g needs --perturb", s->recipe.perturb_sigma);
    return 0;
}
