/* noised-weights: looks at checkpoint folders and writes new ones. */
#include "base/err.h"
#include "base/options/options.h"
#include "model/kernels/kernels.h"
#include "model/shape.h"
#include "weights/chat.h"
#include "weights/checkpoint.h"
#include "weights/config_json.h"
#include "weights/convert.h"
#include "weights/noise_add.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Folders {
    const char *from, *to, *dtype; /* dtype NULL: as they are */
    const char *span, *data;
    double budget;
} Folders;

static size_t weight_bytes(const Weight *w) {
    size_t scales = w->scale ? weight_count(w) / INT8_GROUP * sizeof *w->scale : 0;
    if (w->dtype == DTYPE_I4) return weight_count(w) / 2 + weight_count(w) / INT4_GROUP * sizeof *w->scale16;
    return weight_count(w) * dtype_size(w->dtype) + scales;
}

static void print_tensor(const Weight *w) {
    char shape[48];
    size_t used = 0;
    for (int i = 0; i < w->n_dims; i++)
        used += (size_t)snprintf(shape + used, sizeof shape - used, i ? " x %d" : "%d", w->dims[i]);
    printf("%-56s %-4s %20s %14zu\n", w->name, dtype_name(w->dtype), shape, weight_bytes(w));
}

/* Noise of one layer: the standard deviation of every head, of every component for a mixture. */
static void print_sigma(const Model *m) {
    const Noise *z = model_noise(m, 0);
    if (!z) return;
    if (m->cfg.noise.condition_dim) {
        printf("noise sigma: conditioned on the token, none stored\n");
        return;
    }
    printf("noise |sigma| per layer, %d distributions each%s:\n", config_noise_heads(&m->cfg),
           m->cfg.noise.density == DENSITY_MIXTURE ? ", their components side by side" : "");
    for (int l = 0; z; z = model_noise(m, ++l)) {
        printf("  layer %2d:", l);
        for (size_t i = 0; i < weight_count(&z->sigma); i++) printf(" %.5f", (double)fabsf(weight_f32(&z->sigma)[i]));
        printf("\n");
    }
}

static void inspect_checkpoint(const Checkpoint *c) {
    const Model *m = &c->model;
    size_t bytes = 0;
    char *config = config_json_print(&m->cfg, &c->labels);
    printf("%s", config);
    free(config);
    printf("%-56s %-4s %20s %14s\n", "tensor", "type", "shape", "bytes");
    for (int i = 0; i < m->params.n; i++) {
        print_tensor(m->params.params[i].weight);
        bytes += weight_bytes(m->params.params[i].weight);
    }
    printf("parameters: %zu in %d tensors, %zu bytes\n", params_count(&m->params), m->params.n, bytes);
    static const char *const forms[] = {[KV_EXPANDED] = "expanded", [KV_COMPACT] = "compact"};
    for (int form = KV_EXPANDED; form <= KV_COMPACT; form++) {
        if (config_check_kv_form(&m->cfg, (KvForm)form, NULL)) continue;
        printf("KV cache per token, %s%s: %zu bytes in F32, %zu in BF16\n", forms[form],
               config_kv_form(&m->cfg) == (KvForm)form ? " (default)" : "",
               kv_bytes_per_token(&m->cfg, DTYPE_F32, (KvForm)form),
               kv_bytes_per_token(&m->cfg, DTYPE_BF16, (KvForm)form));
    }
    print_sigma(m);
    const char *step = c->shards.files[0].metadata_step;
    printf("step: %s\nhash: %s\n", step ? step : "unknown", c->hash);
}

/* Whatever could be wrong is found by opening. */
static void verify_checkpoint(const Checkpoint *c) {
    const ParamSet *ps = &c->model.params;
    printf("ok %d tensors, %zu parameters, hash %s\n", ps->n, params_count(ps), c->hash);
}

/* Not at home in a file, but what a person who serves it will ask for. */
static void print_texts(const Checkpoint *c, const char *dir) {
    Chat chat;
    Buffer said = {0};
    const Config *cfg = &c->model.cfg;
    if (c->tokenizer)
        printf("tokenizer: %d tokens\n", tokenizer_vocab_size(c->tokenizer));
    else if (cfg->input.kind != INPUT_PATCHES)
        printf("tokenizer: none, so prompts are token ids and answers have no text\n");
    if (!config_generates(cfg)) return;
    chat_of_folder(&chat, dir);
    printf(chat.program ? "chat: template %s\n" : "chat: %s\n", chat.program ? chat.name : chat.why);
    chat_close(&chat);
    generation_print(&c->generation, &said);
    if (said.n) printf("requests that do not say: %.*s\n", (int)said.n, said.data);
    if (c->generation.unused[0]) printf("not used of " GENERATION_FILE ": %s\n", c->generation.unused);
    buffer_free(&said);
}

static int with_checkpoint(const CommandLine *line, void (*look)(const Checkpoint *c)) {
    const Folders *f = line->values;
    Checkpoint c;
    Err err;
    if (checkpoint_open(&c, f->from, &err)) return command_fail(line, &err, EXIT_FAILED);
    look(&c);
    print_texts(&c, f->from);
    int rc = shards_check_intact(&c.shards, &err);
    checkpoint_close(&c);
    return rc ? command_fail(line, &err, EXIT_FAILED) : EXIT_DONE;
}

static int inspect(const CommandLine *line) { return with_checkpoint(line, inspect_checkpoint); }

static int verify(const CommandLine *line) { return with_checkpoint(line, verify_checkpoint); }

/* The new folder is opened as a daemon would open it. */
static int open_made(const CommandLine *line) {
    const Folders *f = line->values;
    Err err;
    Checkpoint c;
    if (checkpoint_open(&c, f->to, &err)) return command_fail(line, &err, EXIT_FAILED);
    print_texts(&c, f->to);
    checkpoint_close(&c);
    return EXIT_DONE;
}

static int convert(const CommandLine *line, const Dtype *dtype) {
    const Folders *f = line->values;
    Err err;
    if (checkpoint_convert(f->from, f->to, dtype, stdout, &err)) return command_fail(line, &err, EXIT_FAILED);
    return open_made(line);
}

static int import(const CommandLine *line) {
    const Folders *f = line->values;
    Dtype dtype = f->dtype && !strcmp(f->dtype, "bf16") ? DTYPE_BF16 : DTYPE_F32;
    return convert(line, f->dtype ? &dtype : NULL);
}

static int quantize(const CommandLine *line) {
    const Folders *f = line->values;
    Dtype dtype = strcmp(f->dtype, "int4") ? DTYPE_I8 : DTYPE_I4;
    return convert(line, &dtype);
}

static int noise(const CommandLine *line) {
    const Folders *f = line->values;
    Err err;
    if (checkpoint_add_noise(f->from, f->to, f->data, f->budget, stdout, &err))
        return command_fail(line, &err, EXIT_FAILED);
    return open_made(line);
}

static const char *const float_types[] = {"f32", "bf16", NULL}, *const int_types[] = {"int8", "int4", NULL};
static const char *const spans[] = {"sequence", NULL};

#define AT(member) offsetof(Folders, member)
#define DIR_OPERAND                                                                                                    \
    { "DIR", OPTION_OPERAND, AT(from), .help = "the checkpoint: config.json, *.safetensors, tokenizer.json" }
#define FROM_OPERAND                                                                                                   \
    { "FROM", OPTION_OPERAND, AT(from), .help = "the folder to read" }
#define TO_OPERAND                                                                                                     \
    { "TO", OPTION_OPERAND, AT(to), .help = "the folder to write" }
static const Option look_options[] = {DIR_OPERAND};
static const Option import_options[] = {
    {"dtype", OPTION_TEXT, AT(dtype), "TYPE", .choices = float_types, .help = "of matrices", .absent = "as they are"},
    FROM_OPERAND,
    TO_OPERAND,
};
static const Option quantize_options[] = {
    {"dtype", OPTION_TEXT, AT(dtype), "TYPE", .fallback = "int8", .choices = int_types,
     .help = "of matrices; with int4 those outside of layers are int8, and perplexity grows by 1% (weights/demo), of a "
             "model of 260,000 parameters by 4%"},
    FROM_OPERAND,
    TO_OPERAND,
};

static const Option noise_options[] = {
    {"span", OPTION_TEXT, AT(span), "NAME", .fallback = "sequence", .choices = spans,
     .help = "for what a seed draws its noise once"},
    {"budget", OPTION_REAL, AT(budget), "X", 1e-6, 100, "0.05", "nats",
     .help =
         "how far a seed's next-token distributions are from the plain model's: KL divergence, the mean over tokens"},
    {"data", OPTION_TEXT, AT(data), "FILE", .required = true,
     .help = "text to measure it on: 32 windows of it are read"},
    FROM_OPERAND,
    TO_OPERAND,
};

static const Command commands[] = {
    {"inspect", "Prints what is in a checkpoint: config, tensors, sizes, noise.", .size = sizeof(Folders),
     .options = look_options, .n_options = COUNTOF(look_options), .run = inspect},
    {"verify", "Tells whether a checkpoint would be served.", .size = sizeof(Folders),
     .details = "It fails too when a tensor holds NaN or infinity, or a file's digest is not that of its data.",
     .options = look_options, .n_options = COUNTOF(look_options), .run = verify},
    {"import", "Writes any folder that would be served as one of ours.", .size = sizeof(Folders),
     .options = import_options, .n_options = COUNTOF(import_options), .run = import},
    {"quantize", "Writes the same checkpoint with matrices of 8 or 4 bits.", .size = sizeof(Folders),
     .options = quantize_options, .n_options = COUNTOF(quantize_options), .run = quantize},
    {"noise", "Writes the same checkpoint with noise that it never had, so that it has seeds.", .size = sizeof(Folders),
     .details = "Weights stay as they are; every head gets a sigma, the same share of its queries' length.",
     .options = noise_options, .n_options = COUNTOF(noise_options), .run = noise},
};
static int start(Err *err) { return kernels_init(err) || map_guard_install(err) ? -1 : 0; }

static const Program program = {
    .name = "noised-weights",
    .summary = "inspect, verify, import and quantise checkpoints, and give them noise",
    .commands = (const Command *const[]){&commands[0], &commands[1], &commands[2], &commands[3], &commands[4], NULL},
    .start = start,
};

int main(int argc, char **argv) { return program_main(&program, argc, argv); }
