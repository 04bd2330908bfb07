#include "trainer/finetune_settings.h"

#include "base/random.h"
#include "trainer/tasks/examples_load.h"
#include "trainer/tasks/task_score.h"
#include "weights/presets.h"
#include "weights/presets_words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const pools[] = {"auto", "last", "mean", "first", NULL};
static const char *const metrics[] = {"auto", "accuracy", "f1", "matthews", "entity-f1", NULL};

/* Presets of either kind, those on word vectors first. */
static bool offer_preset(int i, char out[OPTION_OFFER]) {
    int n = 0;
    while (preset_words_name(n)) n++;
    if (i >= n) return preset_name(i - n, out);
    snprintf(out, OPTION_OFFER, "%s", preset_words_name(i));
    return true;
}

#define AT(member) offsetof(FinetuneSettings, member)
#define FIXED .tag = SETTING_FIXED
#define MOVABLE .tag = SETTING_REMEMBER /* a file, which may lie elsewhere now: its content is compared */
const Option finetune_options[FINETUNE_OPTIONS_N] = {
    {"train", OPTION_TEXT, AT(train), "FILE", .required = true, .unless = "resume", MOVABLE,
     .help = "labelled data to train on"},
    {"dev", OPTION_TEXT, AT(dev), "FILE", MOVABLE,
     .help = "labelled data that say after every epoch whether the network is the best so far", .absent = "none"},
    {"test", OPTION_TEXT, AT(test), "FILE", MOVABLE, .help = "labelled data to score the result on", .absent = "none"},
    {"format", OPTION_CHOICE, AT(format), "NAME", .fallback = "auto", .choices = examples_formats, FIXED,
     .help = "of these files; auto: by their names"},
    {"init", OPTION_TEXT, AT(init), "DIR", MOVABLE,
     .help = "start from this checkpoint; one without labels gets those of the data, and a head"},
    {"config", OPTION_TEXT, AT(config), "FILE|PRESET", FIXED, .offer = offer_preset,
     .help = "start anew from a config with labels", .absent = "that of --init"},
    {"tokenizer", OPTION_TEXT, AT(tokenizer), "FILE", MOVABLE, .help = "tokenizer.json, with --config",
     .absent = "that of --init"},
    {"vectors", OPTION_TEXT, AT(vectors), "FILE", MOVABLE,
     .help = "word vectors as GloVe's, of a --config that reads such"},
    {"out", OPTION_TEXT, AT(out), "DIR", .required = true, .help = "where the checkpoint and everything else goes"},
    {"resume", OPTION_SWITCH, AT(resume),
     .help = "continue the run in --out behind its last whole epoch; options not given are its own"},
    {"pool", OPTION_CHOICE, AT(pool), "ROW", .fallback = "auto", .choices = pools, FIXED,
     .help = "which rows of a text or image the head reads; auto: as the config says, last for a new head"},
    {"freeze", OPTION_SWITCH, AT(freeze), FIXED,
     .help = "train the head alone, on what the rest makes of the data once"},
    {"truncate", OPTION_SWITCH, AT(truncate), FIXED,
     .help = "cut the end of texts beyond max_position_embeddings, and count them, in place of refusing"},
    {"epochs", OPTION_INT64, AT(epochs), "N", 1, 1 << 20, "3", .help = "passes over the training data at most", FIXED},
    {"patience", OPTION_INT, AT(patience), "N", 0, 1 << 20, "0", "epochs", FIXED,
     .help = "stop after so many without a better score on --dev; 0: never"},
    {"metric", OPTION_CHOICE, AT(metric), "NAME", .fallback = "auto", .choices = metrics, FIXED,
     .help = "by which epochs are compared; auto: entity-f1 for tags of chunks, else accuracy"},
    {"batch", OPTION_INT64, AT(batch), "N", 1, 65535, "32", "examples", .help = "examples of a micro-batch", FIXED},
    {"accumulate", OPTION_INT64, AT(accumulate), "N", 1, 1 << 20, "1",
     .help = "micro-batches of a step, which share the examples that are left at an epoch's end", FIXED},
    {"optimizer", OPTION_CHOICE, AT(recipe.optimizer), "NAME", .fallback = "adamw", .choices = recipe_optimizers, FIXED,
     .help = "AdamW, or gradient descent"},
    {"momentum", OPTION_REAL, AT(recipe.momentum), "X", 0, 0.999999, "0", .help = "gradient descent's", FIXED},
    {"lr", OPTION_REAL, AT(recipe.lr), "X", 0, 100, "0.001", .help = "peak learning rate", FIXED},
    {"min-lr", OPTION_REAL, AT(recipe.min_lr), "X", 0, 100, "0", .help = "learning rate of the last step", FIXED},
    {"schedule", OPTION_CHOICE, AT(recipe.schedule), "KIND", .fallback = "constant", .choices = recipe_schedules, FIXED,
     .help = "learning rate after warm-up"},
    {"warmup-epochs", OPTION_INT64, AT(warmup_epochs), "N", 0, 1 << 20, "0", "epochs", FIXED,
     .help = "epochs up to the peak"},
    {"weight-decay", OPTION_REAL, AT(recipe.weight_decay), "X", 0, 100, "0.01", .help = "decoupled decay of matrices",
     FIXED},
    {"clip", OPTION_REAL, AT(recipe.clip), "X", 0, 1e9, "1", .help = "bound on the gradient's norm; 0: none", FIXED},
    {"betas", OPTION_PAIR, AT(recipe.betas), "X,Y", 0, 0.999999, "0.9,0.999", .help = "AdamW's two averages", FIXED},
    {"dropout", OPTION_REAL, AT(dropout), "X", 0, 0.99, FIXED, .help = "share of activations left out in training",
     .absent = "that of the config"},
    {"kl-weight", OPTION_REAL, AT(kl_weight), "X", 0, 1e6, "5e-06", .help = "weight of the noise KL in the loss",
     FIXED},
    {"sigma-start", OPTION_REAL, AT(sigma_start), "X", 0, 1e6, FIXED,
     .help = "what every sigma of the noise starts from", .absent = "drawn from N(0, 0.01), or that of --init"},
    {"perturb", OPTION_CHOICE, AT(recipe.perturb), "MODE", .fallback = "none", .choices = recipe_perturbs,
     .help = "weight noise", FIXED},
    {"perturb-sigma", OPTION_REAL, AT(recipe.perturb_sigma), "X", 0, 100, FIXED,
     .help = "standard deviation of the weight noise"},
    {"precision", OPTION_CHOICE, AT(recipe.precision), "TYPE", .fallback = "f32", .choices = recipe_precisions, FIXED,
     .help = "operands of the training's matrix products; f32 where the processor is no faster at those of bf16"},
    {"mixup", OPTION_REAL, AT(mixing.mixup), "A", 0, 100, "0", FIXED,
     .help = "add images to each other, shares by Beta(A, A); 0: off"},
    {"cutmix", OPTION_REAL, AT(mixing.cutmix), "A", 0, 100, "0", FIXED,
     .help = "paste parts of images into each other, areas by Beta(A, A); 0: off"},
    {"noise-seed", OPTION_INT64, AT(noise_seed), "N", 0, (double)SEED_MAX, "0", FIXED,
     .help = "noise seed of evaluations and of --freeze"},
    {"noise-scale", OPTION_REAL, AT(noise_scale), "X", 0, 1e6, "1", FIXED, .help = "factor on every sigma there"},
    {"seed", OPTION_INT64, AT(seed), "N", 0, (double)SEED_MAX - 1000, "1", .help = "seed of every random draw", FIXED},
    {"seeds", OPTION_INT, AT(seeds), "N", 1, 1000, "1", FIXED,
     .help = "so many runs with seeds from --seed on, each in a folder in --out, their mean and spread"},
    {"threads", OPTION_INT, AT(threads), "N", 0, 1024, "0",
     .help = "threads that compute; 0: all cores that this process may use"},
};

int finetune_settings_finish(FinetuneSettings *s, Err *err) {
    if (!s->init == !s->config)
        return err_set(err, "%s", s->init ? "--init and --config exclude each other" : "--init or --config is missing");
    if (s->tokenizer && s->init) return err_set(err, "--init %s brings its own tokenizer", s->init);
    if (s->freeze && s->config) return err_set(err, "--freeze needs --init: there is nothing learnt to be kept");
    if (s->vectors && !s->config)
        return err_set(err, "--vectors %s is for --config: --init %s brings its own words or tokens", s->vectors,
                       s->init);
    if (s->recipe.momentum > 0 && s->recipe.optimizer != OPTIMIZER_SGD)
        return err_set(err, "--momentum is for --optimizer sgd");
    if (recipe_check(&s->recipe, err)) return -1;
    if (s->patience && !s->dev) return err_set(err, "--patience needs --dev");
    if (s->metric && !s->dev) return err_set(err, "--metric needs --dev");
    if (s->warmup_epochs > s->epochs)
        return err_set(err, "--warmup-epochs is %lld, --epochs %lld", (long long)s->warmup_epochs,
                       (long long)s->epochs);
    if ((s->recipe.perturb != PERTURB_NONE) == isnan(s->recipe.perturb_sigma))
        return err_set(err, "--perturb and --perturb-sigma need each other");
    return 0;
}
