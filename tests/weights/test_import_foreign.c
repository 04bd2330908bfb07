/* Folders as Hugging Face saves them (tests/golden_foreign, by tests/oracle/make_foreign.py): read as they stand and
 * after a conversion, served in one piece and token by token, they give the logits of an independent forward pass. */
#include "base/err.h"
#include "base/memory.h"
#include "tests/support/checkpoints.h"
#include "tests/support/models.h"
#include "tests/support/talk.h"
#include "tests/support/test.h"
#include "weights/convert.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of float32 against float64 where logits are up to 6. */
#define BOUND 2e-5

typedef struct Foreign {
    char folder[300];
    SafeFile expected;
    cJSON *json;
    int n_sequences, length;
    const float *logits; /* [n_sequences, length, V] */
} Foreign;

static bool foreign_open(Foreign *g, const char *name) {
    Err err = {""};
    *g = (Foreign){0};
    snprintf(g->folder, sizeof g->folder, "tests/golden_foreign/%s", name);
    bool ok = safe_open(&g->expected, test_text("%s/expected.safetensors", g->folder), &err) == 0;
    CHECK_MSG(ok, "%s", err.msg);
    if (!ok) return false;
    char *text = test_read_file(test_text("%s/tokens.json", g->folder), NULL);
    g->json = cJSON_Parse(text);
    free(text);
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(g->json, "tokens");
    g->n_sequences = cJSON_GetArraySize(rows);
    g->length = cJSON_GetArraySize(rows->child);
    g->logits = safe_find(&g->expected, "logits")->data;
    return true;
}

static void foreign_close(Foreign *g) {
    safe_close(&g->expected);
    cJSON_Delete(g->json);
}

static double distance(const float *a, const float *b, size_t n) {
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - b[i]);
        if (!(d <= worst)) worst = d;
    }
    return worst;
}

static void check_folder(const Foreign *g, const char *folder) {
    static const int chunks[][2] = {{40, 40}, {1, 1}, {33, 1}};
    Checkpoint c;
    Err err = {""};
    CHECK_MSG(checkpoint_open(&c, folder, &err) == 0, "%s: %s", folder, err.msg);
    if (err.msg[0]) return;
    int vocab = c.model.cfg.vocab_size, *tokens = xmalloc((size_t)g->length * sizeof *tokens);
    const cJSON *row = cJSON_GetObjectItemCaseSensitive(g->json, "tokens")->child;
    for (int s = 0; s < g->n_sequences; s++, row = row->next) {
        size_t n = (size_t)(g->length * vocab);
        for (int i = 0; i < g->length; i++) tokens[i] = cJSON_GetArrayItem(row, i)->valueint;
        float *first = NULL;
        for (size_t k = 0; k < COUNTOF(chunks); k++) {
            float *got = test_serve(&c.model, tokens, g->length, (NoiseKey){0}, chunks[k], 2);
            double d = distance(got, g->logits + (size_t)s * n, n);
            CHECK_MSG(d <= BOUND, "%s, sequence %d, chunks of %d: %.2g from the oracle", folder, s, chunks[k][0], d);
            if (first)
                CHECK_MSG(!memcmp(got, first, n * sizeof *got), "%s: chunks of %d: other bits", folder, chunks[k][0]);
            if (first)
                free(got);
            else
                first = got;
        }
        free(first);
    }
    free(tokens);
    checkpoint_close(&c);
}

TEST(import_foreign_architectures) {
    DIR *dir = opendir("tests/golden_foreign");
    REQUIRE(dir);
    int n = 0;
    const char *base = test_dir();
    for (struct dirent *e; (e = readdir(dir));) {
        Foreign g;
        if (e->d_name[0] == '.' || !foreign_open(&g, e->d_name)) continue;
        Err err = {""};
        check_folder(&g, g.folder);
        const char *converted = test_text("%s/%s", base, e->d_name);
        CHECK_MSG(test_convert(g.folder, converted, NULL, &err) == 0, "%s: %s", g.folder, err.msg);
        if (!err.msg[0]) check_folder(&g, converted);
        foreign_close(&g);
        n++;
    }
    closedir(dir);
    CHECK_MSG(n == 9, "%d folders, want 9", n);
}

/* gpt2, the fifth, is in test_import.c. */
TEST(import_talks_as_before) {
    static const char *const folders[] = {"llama3", "mistral", "qwen2", "qwen3"};
    for (size_t i = 0; i < COUNTOF(folders); i++) {
        const char *dir = test_dir();
        REQUIRE(system(test_text("cp tests/golden_foreign/%s/config.json tests/golden_foreign/%s/model.* %s",
                                 folders[i], folders[i], dir)) == 0);
        test_talks(dir, folders[i]);
    }
}
