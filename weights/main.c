/* noised-weights: looks at checkpoint folders and writes new ones.
 *     noised-weights inspect DIR                             what is in it: config, tensors, sizes, noise
 *     noised-weights verify DIR                              whether it would be served, has no NaN or infinity, and
 *                                                            the digests in its files are those of the data
 *     noised-weights import [--dtype f32|bf16] FROM TO       any folder that would be served, as one of ours
 *     noised-weights quantize [--dtype int8] FROM TO         the same with int8 matrices
 * Exit status: 0 fine, 1 the checkpoint is bad, 2 wrong usage. */
#include "base/err.h"
#include "base/utf8.h"
#include "model/kernels/kernels.h"
#include "weights/checkpoint.h"
#include "weights/config_json.h"
#include "weights/convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: noised-weights inspect DIR\n"
                            "       noised-weights verify DIR\n"
                            "       noised-weights import [--dtype f32|bf16] FROM TO\n"
                            "       noised-weights quantize [--dtype int8] FROM TO\n";

/* The arguments behind the command. */
typedef struct Arguments {
    const char *dtype, *folders[2]; /* NULL where not given */
    int n_folders;
} Arguments;

static int fail(Err *err) {
    text_make_printable(err->msg);
    fprintf(stderr, "noised-weights: %s\n", err->msg);
    return 1;
}

static size_t weight_bytes(const Weight *w) {
    size_t scales = w->scale ? weight_count(w) / INT8_GROUP * sizeof *w->scale : 0;
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
    if (m->cfg.noise.scope == NOISE_NONE) return;
    if (m->cfg.noise.condition_dim) {
        printf("noise sigma: conditioned on the token, none stored\n");
        return;
    }
    printf("noise |sigma| per layer, %d distributions each%s:\n", config_noise_heads(&m->cfg),
           m->cfg.noise.density == DENSITY_MIXTURE ? ", their components side by side" : "");
    for (int l = 0; l < m->cfg.n_layers; l++) {
        const Weight *sigma = &m->blocks[l].attention.noise.sigma;
        printf("  layer %2d:", l);
        for (size_t i = 0; i < weight_count(sigma); i++) printf(" %.5f", (double)fabsf(weight_f32(sigma)[i]));
        printf("\n");
    }
}

static int inspect_checkpoint(const Checkpoint *c) {
    const Model *m = &c->model;
    size_t bytes = 0;
    char *config = config_json_print(&m->cfg);
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
    if (c->tokenizer) printf("tokenizer: %d tokens\n", tokenizer_vocab_size(c->tokenizer));
    printf("step: %s\nhash: %s\n", step ? step : "unknown", c->hash);
    return 0;
}

/* Whatever could be wrong is found by opening. */
static int verify_checkpoint(const Checkpoint *c) {
    const ParamSet *ps = &c->model.params;
    printf("ok %d tensors, %zu parameters, hash %s\n", ps->n, params_count(ps), c->hash);
    return 0;
}

static int with_checkpoint(const Arguments *a, int (*run)(const Checkpoint *c)) {
    Checkpoint c;
    Err err;
    if (checkpoint_open(&c, a->folders[0], &err)) return fail(&err);
    int rc = run(&c);
    if (rc == 0 && shards_check_intact(&c.shards, &err)) rc = fail(&err);
    checkpoint_close(&c);
    return rc;
}

static int inspect(const Arguments *a) { return with_checkpoint(a, inspect_checkpoint); }

static int verify(const Arguments *a) { return with_checkpoint(a, verify_checkpoint); }

static int import(const Arguments *a) {
    Err err;
    Dtype dtype = a->dtype && !strcmp(a->dtype, "bf16") ? DTYPE_BF16 : DTYPE_F32;
    return checkpoint_convert(a->folders[0], a->folders[1], a->dtype ? &dtype : NULL, &err) ? fail(&err) : 0;
}

static int quantize(const Arguments *a) {
    Err err;
    Dtype dtype = DTYPE_I8;
    if (kernels_init(&err)) return fail(&err);
    return checkpoint_convert(a->folders[0], a->folders[1], &dtype, &err) ? fail(&err) : 0;
}

static const struct Command {
    const char *name;
    int (*run)(const Arguments *a);
    int n_folders;
    const char *dtypes[2]; /* what --dtype may say */
} commands[] = {{"inspect", inspect, 1, {NULL}},
                {"verify", verify, 1, {NULL}},
                {"import", import, 2, {"f32", "bf16"}},
                {"quantize", quantize, 2, {"int8"}}};

/* argv[2..] as the command wants them. */
static bool read_arguments(Arguments *a, const struct Command *command, int argc, char **argv) {
    *a = (Arguments){0};
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--dtype") && i + 1 < argc && !a->dtype)
            a->dtype = argv[++i];
        else if (argv[i][0] == '-' || a->n_folders == command->n_folders)
            return false;
        else
            a->folders[a->n_folders++] = argv[i];
    }
    if (a->n_folders != command->n_folders) return false;
    for (size_t k = 0; k < COUNTOF(command->dtypes) && a->dtype && command->dtypes[k]; k++)
        if (!strcmp(a->dtype, command->dtypes[k])) return true;
    return !a->dtype;
}

int main(int argc, char **argv) {
    Arguments a;
    Err err;
    if (map_guard_install(&err)) return fail(&err);
    for (size_t i = 0; i < COUNTOF(commands) && argc > 1; i++) {
        if (strcmp(argv[1], commands[i].name) || !read_arguments(&a, &commands[i], argc, argv)) continue;
        int rc = commands[i].run(&a);
        return fflush(stdout) ? 1 : rc;
    }
    bool help = argc == 2 && !strcmp(argv[1], "--help");
    fputs(usage, help ? stdout : stderr);
    return help ? 0 : 2;
}
