#include "weights/noise_add.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "model/shape.h"
#include "tokenizer/tokenizer.h"
#include "weights/checkpoint.h"
#include "weights/convert.h"
#include "weights/noise_fit.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = (1 << 29) - 1 };

static int check_model(const Checkpoint *c, const char *dir, Err *err) {
    const Config *cfg = &c->model.cfg;
    if (cfg->noise.scope != NOISE_NONE)
        return err_set(err, "%s has noise already: noise.scope is %s, noise.span %s", dir,
                       scope_names[cfg->noise.scope], span_names[cfg->noise.span]);
    if (!config_generates(cfg))
        return err_set(err, "%s generates no text: task is %s, causal is %s", dir, task_names[cfg->task],
                       cfg->causal ? "true" : "false");
    if (!c->tokenizer) return err_set(err, "%s has no tokenizer.json, so no text can be read", dir);
    for (int i = 0; i < c->model.params.n; i++) {
        const Weight *w = c->model.params.params[i].weight;
        if (w->dtype >= DTYPE_I8)
            return err_set(err, "%s: %s is I%d: add noise to what it was made from, then quantize", dir, w->name,
                           w->dtype == DTYPE_I8 ? 8 : 4);
    }
    return 0;
}

/* A model of c's weights with noise besides, whose sigmas are zeros in *sigmas. */
static int declare_noisy(Model *m, const Checkpoint *c, float **sigmas, Err *err) {
    Config cfg = c->model.cfg;
    cfg.noise.scope = NOISE_HEAD;
    cfg.noise.span = SPAN_SEQUENCE;
    if (model_init(m, &cfg, err)) return -1;
    float *sigma = *sigmas = xcalloc((size_t)(cfg.n_layers * config_noise_heads(&cfg)), sizeof *sigma);
    for (int i = 0; i < m->params.n; i++) {
        Weight *w = m->params.params[i].weight;
        const Param *had = params_find(&c->model.params, w->name);
        if (had) {
            w->dtype = had->weight->dtype;
            w->data = had->weight->data;
        } else {
            w->data = sigma;
            sigma += weight_count(w);
        }
    }
    return 0;
}

/* Noise that is fitted to a packed file, or to UTF-16, is of some strength too. */
static int check_text(const char *text, size_t n, Err *err) {
    const char *zero = memchr(text, 0, n);
    size_t good = utf8_valid_prefix(text, zero ? (size_t)(zero - text) : n);
    if (good == n) return 0;
    return err_set(err, "byte %zu is 0x%02X, so this is no text in UTF-8", good, (unsigned)(unsigned char)text[good]);
}

static int fit(Model *m, const Checkpoint *c, const char *path, double budget, NoiseFit *out, Err *err) {
    TokenList list = {0};
    size_t n;
    char *text = file_read(path, TEXT_MAX, &n, err);
    if (!text) return -1;
    Err why;
    int rc = check_text(text, n, &why) || tokenizer_encode(c->tokenizer, text, n, true, &list, &why) ? -1 : 0;
    free(text);
    if (rc == 0) rc = noise_fit(m, list.ids, list.n, tokenizer_bos(c->tokenizer), budget, out, &why);
    token_list_free(&list);
    return rc ? err_set(err, "%s: %s", path, why.msg) : 0;
}

static int write_noisy(const Checkpoint *c, const char *from, const char *to, const char *text, double budget,
                       FILE *said, Err *err) {
    Model noisy = {0};
    NoiseFit f;
    float *sigmas = NULL;
    int rc = declare_noisy(&noisy, c, &sigmas, err);
    if (rc == 0) rc = fit(&noisy, c, text, budget, &f, err);
    if (rc == 0)
        fprintf(said,
                "noise: sigma is %.4g of the root mean square of a head's queries; KL from the plain model %.4g "
                "nats a token, %.4g to %.4g under %d seeds in windows of %d\n",
                f.strength, f.nats, f.least, f.greatest, NOISE_FIT_WINDOWS, f.length);
    if (rc == 0) rc = checkpoint_write(c, &noisy, from, to, NULL, said, err);
    model_free(&noisy);
    free(sigmas);
    return rc;
}

int checkpoint_add_noise(const char *from, const char *to, const char *text, double budget, FILE *said, Err *err) {
    Checkpoint c;
    if (convert_check_new(to, err) || checkpoint_open(&c, from, err)) return -1;
    int rc = check_model(&c, from, err);
    if (rc == 0) rc = write_noisy(&c, from, to, text, budget, said, err);
    checkpoint_close(&c);
    return rc;
}
